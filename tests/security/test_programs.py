"""Hostile .pt2 files: torch unpickles and evaluates their content, so ortable checks first."""

from __future__ import annotations

import io
import json
import pickle
import re
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from torch.export import Dim

import ortable
from ortable.errors import ExportError
from ortable.exporter.capture.pt2 import load_program
from ortable.exporter.capture.pt2_expressions import is_arithmetic


class Linear(torch.nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.linear = torch.nn.Linear(4, 4)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.linear(x).reshape(-1, 2)


@pytest.fixture(scope="module")
def pt2_file(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("programs") / "m.pt2"
    program = torch.export.export(Linear(), (torch.rand(6, 4),), dynamic_shapes=({0: Dim("n")},))
    torch.export.save(program, path)
    return path


class EvilPickle:
    """Unpickling this object creates a file."""

    def __init__(self, mark: Path) -> None:
        self.mark = mark

    def __reduce__(self) -> tuple[Any, ...]:
        return Path.touch, (self.mark,)


def _copy_archive(
    pt2_file: Path, target: Path, change: Callable[[str, bytes], bytes], added: dict[str, bytes]
) -> Path:
    """Copy an archive with changed parts, stored uncompressed as torch requires."""
    with zipfile.ZipFile(pt2_file) as old, zipfile.ZipFile(target, "w") as new:
        for info in old.infolist():
            new.writestr(info.filename, change(info.filename, old.read(info)))
        for name, content in added.items():
            new.writestr(name, content)
    return target


def _edit_model(edit: Callable[[Any], None]) -> Callable[[str, bytes], bytes]:
    def change(name: str, content: bytes) -> bytes:
        if not name.endswith("models/model.json"):
            return content
        model = json.loads(content)
        edit(model)
        return json.dumps(model).encode()

    return change


def _replace_sizes(model: Any, text: str) -> None:
    """Replace every symbolic size of a model by a text."""
    stack = [model]
    while stack:
        value = stack.pop()
        if isinstance(value, dict):
            if "expr_str" in value:
                value["expr_str"] = text
            stack += value.values()
        elif isinstance(value, list):
            stack += value


def _get_first_node(model: Any) -> Any:
    return model["graph_module"]["graph"]["nodes"][0]


def test_a_sound_program_is_read(pt2_file: Path) -> None:
    model = ortable.to_onnx(load_program(pt2_file))
    assert [node.op_type for node in model.graph.node][-1:] == ["Reshape"]


CODE = "__import__('pathlib').Path('MARK').touch()"
EVALUATED_TEXTS = (
    CODE, "().__class__.__bases__", "exec('x')", "sympify('x')", "S('().__class__')", "9**9**9",
    "2 ** 99999999999", "1 << 99999999999", "lambda: 0", "[x for x in y]", "open('x')",
    "x.__class__", "math.__loader__", "f'{x}'", "(" * 300 + "x" + ")" * 300, "x\nimport os",
    "Symbol('x').func", "-" * 30_000 + "x", "a if exit() else b", "'\\x00'",
)  # fmt: skip


@pytest.mark.parametrize("text", EVALUATED_TEXTS)
def test_texts_that_torch_would_evaluate(text: str, pt2_file: Path, tmp_path: Path) -> None:
    mark = tmp_path / "mark"
    text = text.replace("MARK", str(mark))
    edit = _edit_model(lambda model: _replace_sizes(model, text))
    path = _copy_archive(pt2_file, tmp_path / "evil.pt2", edit, {})
    with pytest.raises(ExportError, match="not arithmetic on sizes"):
        load_program(path)
    guarded = _edit_model(lambda model: model.update(guards_code=[text]))
    with pytest.raises(ExportError, match="not arithmetic on sizes"):
        load_program(_copy_archive(pt2_file, tmp_path / "guard.pt2", guarded, {}))
    assert not mark.exists()


@pytest.mark.parametrize(
    "text",
    [
        "Symbol('s77', positive=True, integer=True)", "2*s0 + 1", "Mod(s0, 8)", "s0**2",
        "L['x'].size()[0] % 8 == 0", "L['flat_args'][0].size()[1] >= 2", "Max(1, s0//2)",
        "L['x']._base.stride()[0] != -int_oo", "math.ceil(s0/2) <= 7", "s0 >= 2 and s0 <= 1024",
        "FloorDiv(s0 + 1, 2)", "CeilToInt(IntTrueDiv(s0, 3))",
        "math.trunc(1.5*torch.sym_float(L['d']['the input'].size()[2])) > 7",
    ],
)  # fmt: skip
def test_texts_that_torch_writes(text: str) -> None:
    assert is_arithmetic(text)


@pytest.mark.parametrize(
    "target",
    [
        "torch.load",
        "torch.hub.load",
        "torch.ops.load_library",
        "_operator.x.y",
        "os.system",
        "math",
    ],
)
def test_functions_that_are_no_operators(target: str, pt2_file: Path, tmp_path: Path) -> None:
    edit = _edit_model(lambda model: _get_first_node(model).update(target=target))
    with pytest.raises(ExportError, match="is not an operator"):
        load_program(_copy_archive(pt2_file, tmp_path / "evil.pt2", edit, {}))


def _save_to_bytes(value: Any) -> bytes:
    stream = io.BytesIO()
    torch.save(value, stream)
    return stream.getvalue()


@pytest.mark.parametrize("kind", ["torch.save", "pickle", "old pickle"])
@pytest.mark.parametrize("part", ["sample_inputs/model.pt", "weights/weight_0", "constants/more"])
def test_pickles(part: str, kind: str, pt2_file: Path, tmp_path: Path) -> None:
    """No part that torch would unpickle, also as a fallback, runs code."""
    mark = tmp_path / "mark"
    payload = {
        "torch.save": lambda: _save_to_bytes((EvilPickle(mark),)),
        "pickle": lambda: pickle.dumps(EvilPickle(mark)),
        "old pickle": lambda: pickle.dumps(EvilPickle(mark), protocol=0),
    }[kind]()

    def change(name: str, content: bytes) -> bytes:
        if name.endswith(part):
            return payload
        if name.endswith("model_weights_config.json"):
            return content.replace(b'"use_pickle": false', b'"use_pickle": true')
        return content

    added = {"m/data/constants/more": payload} if part.endswith("more") else {}
    path = _copy_archive(pt2_file, tmp_path / "evil.pt2", change, added)
    with pytest.raises(ExportError, match="could run code"):
        load_program(path)
    assert not mark.exists()


def test_objects_that_only_unpickling_makes(pt2_file: Path, tmp_path: Path) -> None:
    added = {"m/data/constants/custom_obj_0": b"x"}
    path = _copy_archive(pt2_file, tmp_path / "evil.pt2", lambda name, content: content, added)
    with pytest.raises(ExportError, match="only unpickling can create"):
        load_program(path)


def test_an_archive_that_unpacks_without_end(pt2_file: Path, tmp_path: Path) -> None:
    path = tmp_path / "bomb.pt2"
    with zipfile.ZipFile(pt2_file) as old, zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as new:
        for info in old.infolist():
            new.writestr(info.filename, old.read(info))
        new.writestr("m/data/weights/weight_9", bytes(70 << 20))
    with pytest.raises(ExportError, match="many times its size"):
        load_program(path)


@pytest.mark.filterwarnings("ignore:Duplicate name")
def test_two_parts_of_one_name(pt2_file: Path, tmp_path: Path) -> None:
    with zipfile.ZipFile(pt2_file) as archive:
        root = archive.namelist()[0].partition("/")[0]
    path, unchanged = tmp_path / "twice.pt2", lambda name, content: content
    _copy_archive(pt2_file, path, unchanged, {f"{root}/models/model.json": b"{}"})
    with pytest.raises(ExportError, match="have the same name"):
        load_program(path)


@pytest.mark.parametrize("at", [0.1, 0.4, 0.7, 0.99])
def test_damaged_files(at: float, pt2_file: Path, tmp_path: Path) -> None:
    """A truncated or corrupted file raises an error that names the file."""
    content = pt2_file.read_bytes()
    path = tmp_path / "cut.pt2"
    path.write_bytes(content[: int(len(content) * at)])
    with pytest.raises(ExportError, match=re.escape(str(path))):
        load_program(path)
    flipped = bytearray(content)
    flipped[int(len(content) * at)] ^= 0xFF
    path.write_bytes(bytes(flipped))
    try:
        ortable.to_onnx(load_program(path))
    except ortable.errors.OrtableError as error:
        assert error.message


def test_guards_of_a_program_in_memory_are_not_run(tmp_path: Path) -> None:
    """A program that the caller loaded may have hostile guard texts, too."""
    from ortable.exporter.capture.guards import _from_code

    mark = tmp_path / "mark"
    compiled = _from_code(CODE.replace("MARK", str(mark)), {"flat_args[0]": "x"}, [])
    assert compiled is not None
    assert not mark.exists()

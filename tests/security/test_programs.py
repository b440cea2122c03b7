"""Saved programs of strangers: torch unpickles, evaluates and looks up what stands in them, so that
ortable looks first."""

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
from ortable.exporter.capture.pt2_validation import is_arithmetic


class Small(torch.nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.linear = torch.nn.Linear(4, 4)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.linear(x).reshape(-1, 2)


@pytest.fixture(scope="module")
def sound(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("programs") / "m.pt2"
    program = torch.export.export(Small(), (torch.rand(6, 4),), dynamic_shapes=({0: Dim("n")},))
    torch.export.save(program, path)
    return path


class Evil:
    """Pickled, it is a call of the file's choice."""

    def __init__(self, mark: Path) -> None:
        self.mark = mark

    def __reduce__(self) -> tuple[Any, ...]:
        return Path.touch, (self.mark,)


def _changed(
    sound: Path, to: Path, change: Callable[[str, bytes], bytes], more: dict[str, bytes]
) -> Path:
    """A copy of the archive with other parts; torch needs them stored, not compressed."""
    with zipfile.ZipFile(sound) as old, zipfile.ZipFile(to, "w") as new:
        for info in old.infolist():
            new.writestr(info.filename, change(info.filename, old.read(info)))
        for name, content in more.items():
            new.writestr(name, content)
    return to


def _in_model(edit: Callable[[Any], None]) -> Callable[[str, bytes], bytes]:
    def change(name: str, content: bytes) -> bytes:
        if not name.endswith("models/model.json"):
            return content
        model = json.loads(content)
        edit(model)
        return json.dumps(model).encode()

    return change


def _expressions(model: Any, text: str) -> None:
    """Every size that is an expression becomes the text."""
    stack = [model]
    while stack:
        node = stack.pop()
        if isinstance(node, dict):
            if "expr_str" in node:
                node["expr_str"] = text
            stack += node.values()
        elif isinstance(node, list):
            stack += node


def _first_node(model: Any) -> Any:
    return model["graph_module"]["graph"]["nodes"][0]


def test_a_sound_program_is_read(sound: Path) -> None:
    model = ortable.to_onnx(load_program(sound))
    assert [node.op_type for node in model.graph.node][-1:] == ["Reshape"]


CODE = "__import__('pathlib').Path('MARK').touch()"
TEXTS = (
    CODE, "().__class__.__bases__", "exec('x')", "sympify('x')", "S('().__class__')", "9**9**9",
    "2 ** 99999999999", "1 << 99999999999", "lambda: 0", "[x for x in y]", "open('x')",
    "x.__class__", "math.__loader__", "f'{x}'", "(" * 300 + "x" + ")" * 300, "x\nimport os",
    "Symbol('x').func", "-" * 30_000 + "x", "a if exit() else b", "'\\x00'",
)  # fmt: skip


@pytest.mark.parametrize("text", TEXTS)
def test_texts_that_torch_would_evaluate(text: str, sound: Path, tmp_path: Path) -> None:
    mark = tmp_path / "mark"
    text = text.replace("MARK", str(mark))
    edit = _in_model(lambda model: _expressions(model, text))
    path = _changed(sound, tmp_path / "evil.pt2", edit, {})
    with pytest.raises(ExportError, match="not arithmetic on sizes"):
        load_program(path)
    guarded = _in_model(lambda model: model.update(guards_code=[text]))
    with pytest.raises(ExportError, match="not arithmetic on sizes"):
        load_program(_changed(sound, tmp_path / "guard.pt2", guarded, {}))
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
def test_functions_that_are_no_operators(target: str, sound: Path, tmp_path: Path) -> None:
    edit = _in_model(lambda model: _first_node(model).update(target=target))
    with pytest.raises(ExportError, match="is not an operator"):
        load_program(_changed(sound, tmp_path / "evil.pt2", edit, {}))


def _saved(value: Any) -> bytes:
    stream = io.BytesIO()
    torch.save(value, stream)
    return stream.getvalue()


@pytest.mark.parametrize("kind", ["torch.save", "pickle", "old pickle"])
@pytest.mark.parametrize("part", ["sample_inputs/model.pt", "weights/weight_0", "constants/more"])
def test_pickles(part: str, kind: str, sound: Path, tmp_path: Path) -> None:
    """Every part that torch would unpickle, where torch itself falls back to doing so."""
    mark = tmp_path / "mark"
    evil = {
        "torch.save": lambda: _saved((Evil(mark),)),
        "pickle": lambda: pickle.dumps(Evil(mark)),
        "old pickle": lambda: pickle.dumps(Evil(mark), protocol=0),
    }[kind]()

    def change(name: str, content: bytes) -> bytes:
        if name.endswith(part):
            return evil
        if name.endswith("model_weights_config.json"):
            return content.replace(b'"use_pickle": false', b'"use_pickle": true')
        return content

    more = {"m/data/constants/more": evil} if part.endswith("more") else {}
    path = _changed(sound, tmp_path / "evil.pt2", change, more)
    with pytest.raises(ExportError, match="could run code"):
        load_program(path)
    assert not mark.exists()


def test_objects_that_only_unpickling_makes(sound: Path, tmp_path: Path) -> None:
    more = {"m/data/constants/custom_obj_0": b"x"}
    path = _changed(sound, tmp_path / "evil.pt2", lambda name, content: content, more)
    with pytest.raises(ExportError, match="only unpickling can create"):
        load_program(path)


def test_an_archive_that_unpacks_without_end(sound: Path, tmp_path: Path) -> None:
    path = tmp_path / "bomb.pt2"
    with zipfile.ZipFile(sound) as old, zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as new:
        for info in old.infolist():
            new.writestr(info.filename, old.read(info))
        new.writestr("m/data/weights/weight_9", bytes(70 << 20))
    with pytest.raises(ExportError, match="many times its size"):
        load_program(path)


@pytest.mark.filterwarnings("ignore:Duplicate name")
def test_two_parts_of_one_name(sound: Path, tmp_path: Path) -> None:
    with zipfile.ZipFile(sound) as archive:
        root = archive.namelist()[0].partition("/")[0]
    path, kept = tmp_path / "twice.pt2", lambda name, content: content
    _changed(sound, path, kept, {f"{root}/models/model.json": b"{}"})
    with pytest.raises(ExportError, match="have the same name"):
        load_program(path)


@pytest.mark.parametrize("at", [0.1, 0.4, 0.7, 0.99])
def test_damaged_files(at: float, sound: Path, tmp_path: Path) -> None:
    """Bytes that are cut off, or not those of the checksum, are an error that names the file."""
    content = sound.read_bytes()
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
    """A program that the caller read has texts of guards, too."""
    from ortable.exporter.capture.guards import _from_code

    mark = tmp_path / "mark"
    guard = _from_code(CODE.replace("MARK", str(mark)), {"flat_args[0]": "x"}, [])
    assert guard is not None
    assert not mark.exists()

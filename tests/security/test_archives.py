"""Attacks on the parts of a .pt2 archive: names, raw data, structures, sizes. Nothing runs."""

from __future__ import annotations

import copy
import io
import json
import pickle
import zipfile
from collections import OrderedDict, defaultdict
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import pytest
import torch
from torch.export import Dim

import ortable
from ortable.cli.main import main
from ortable.errors import ExportError
from ortable.exporter.capture.pt2 import load_program
from ortable.exporter.capture.pt2_expressions import is_arithmetic
from ortable.exporter.capture.pt2_validation import check_archive

from .test_programs import EvilPickle, Linear

Parts = dict[str, bytes]
MODULE = "ortable_evil_module"  # on the path of modules; an import creates the mark
WEIGHTS, CONSTANTS = "data/weights/", "data/constants/"
WEIGHTS_CONFIG = f"{WEIGHTS}model_weights_config.json"
_INPUTS, _MODEL = "data/sample_inputs/model.pt", "models/model.json"


@pytest.fixture(scope="module")
def parts(tmp_path_factory: pytest.TempPathFactory) -> Parts:
    """Return the parts of a sound program by name, without the folder of the archive."""
    path = tmp_path_factory.mktemp("programs") / "m.pt2"
    program = torch.export.export(Linear(), (torch.rand(6, 4),), dynamic_shapes=({0: Dim("n")},))
    torch.export.save(program, path)
    with zipfile.ZipFile(path) as archive:
        return {name.partition("/")[2]: archive.read(name) for name in archive.namelist()}


def _save(value: Any) -> bytes:
    stream = io.BytesIO()
    torch.save(value, stream)
    return stream.getvalue()


def _evil(mark: Path) -> bytes:
    content = _save((EvilPickle(mark),))
    return content + b"\0" * (-len(content) % 4)  # a multiple of the size of a float


def _edit(parts: Parts, name: str, edit: Callable[[Any], object]) -> None:
    content = json.loads(parts[name])
    edit(content)
    parts[name] = json.dumps(content).encode()


def _rename_weight(parts: Parts, mark: Path, name: str) -> None:
    """Store a weight as a pickle in a part whose name looks harmless."""
    row = {"path_name": name, "use_pickle": True}
    _edit(parts, WEIGHTS_CONFIG, lambda config: config["config"]["linear.weight"].update(row))
    del parts[f"{WEIGHTS}weight_0"]
    parts[WEIGHTS + name] = _evil(mark)


def _add_row(parts: Parts, mark: Path, config: str, part: str, content: bytes) -> None:
    """List a pickle as raw data of a tensor."""
    row = copy.deepcopy(json.loads(parts[WEIGHTS_CONFIG])["config"]["linear.weight"])
    row.update(path_name=part, use_pickle=False)
    parts.setdefault(config, b'{"config": {}}')
    _edit(parts, config, lambda rows: rows["config"].update(added=row))
    parts[config.rpartition("/")[0] + "/" + part] = content


def _list_legacy_weights(parts: Parts, mark: Path) -> None:
    _add_row(parts, mark, WEIGHTS_CONFIG, "model.pt", _evil(mark))


def _list_inputs(parts: Parts, mark: Path) -> None:
    _add_row(parts, mark, "data/sample_inputs/x_config.json", "model.pt", _evil(mark))


def _list_object(parts: Parts, mark: Path) -> None:
    content = pickle.dumps(EvilPickle(mark))
    content += b"." * (-len(content) % 4)
    _add_row(parts, mark, f"{CONSTANTS}model_constants_config.json", "opaque_obj_/y", content)


def _list_in_capitals(parts: Parts, mark: Path) -> None:
    """Name one part twice, in capitals as a pickle; torch finds it under both names."""

    def edit(content: Any) -> None:
        rows = content["config"]
        rows["added"] = copy.deepcopy(rows["linear.weight"])
        rows["linear.weight"].update(path_name="WEIGHT_0", use_pickle=True)

    _edit(parts, WEIGHTS_CONFIG, edit)
    parts[f"{WEIGHTS}weight_0"] = _evil(mark)


def _add_library(parts: Parts, mark: Path) -> None:
    parts["data/aotinductor/model/extra/x.so"] = b"\x7fELF"


def _replace_name(parts: Parts, mark: Path, old: str) -> None:
    new = f"x=__import__('pathlib').Path({str(mark)!r}).touch()"
    names = (json.dumps(old).encode(), json.dumps(new).encode())
    parts[_MODEL] = parts[_MODEL].replace(*names)


def _signature(model: Any) -> Any:
    return model["graph_module"]["module_call_graph"][0]["signature"]


def _replace_keywords(parts: Parts, mark: Path, structure: Any, names: Any = ("x",)) -> None:
    """Replace the structure of the keyword arguments of the program."""

    def edit(model: Any) -> None:
        signature = _signature(model)
        spec = json.loads(signature["in_spec"])
        spec[1]["children_spec"][1].update(structure)
        signature.update(in_spec=json.dumps(spec), forward_arg_names=list(names))

    _edit(parts, _MODEL, edit)


def _expand_weight(parts: Parts, mark: Path, part: str, size: int) -> None:
    def edit(content: Any) -> None:
        row = content["config"]["linear.bias"]
        row["path_name"] = part
        row["tensor_meta"].update(sizes=[{"as_int": size}], strides=[{"as_int": 0}])

    _edit(parts, WEIGHTS_CONFIG, edit)
    parts[WEIGHTS + part] = parts.pop(f"{WEIGHTS}weight_1") if part == "weight_1" else b""


def _replace_pickle(
    parts: Parts, mark: Path, change: Callable[[str, bytes], bytes], method: int
) -> None:
    """Replace parts of the archive in which torch.save writes the example inputs."""
    stream = io.BytesIO()
    old = zipfile.ZipFile(io.BytesIO(parts[_INPUTS]))
    with old, zipfile.ZipFile(stream, "w", method) as new:
        for name in old.namelist():
            new.writestr(name, change(name, old.read(name)))
    parts[_INPUTS] = stream.getvalue()


def _allocate_bytes(name: str, content: bytes) -> bytes:
    """Return a pickle of bytearray(1879048192), in 40 bytes."""
    is_pickle = name.endswith("data.pkl")
    return b"\x80\x02cbuiltins\nbytearray\nJ\x00\x00\x00\x70\x85R." if is_pickle else content


def _inflate_data(name: str, content: bytes) -> bytes:
    return bytes(100 << 20) if name.endswith("data/0") else content


def _call_any_function(parts: Parts, mark: Path) -> None:
    def edit(model: Any) -> None:
        argument = {"name": "f", "arg": {"as_operator": "torch.hub.load"}, "kind": 1}
        model["graph_module"]["graph"]["nodes"][0]["inputs"].append(argument)

    _edit(parts, _MODEL, edit)


_DEFAULTDICT = {"type": "collections.defaultdict", "children_spec": []}
_FACTORY = {"default_factory_module": MODULE, "default_factory_name": "x", "dict_context": []}
_EXIT = {**_FACTORY, "default_factory_module": "builtins", "default_factory_name": "exit"}
_ENUM = json.dumps([{"__enum__": True, "fqn": f"{MODULE}:x", "name": "y"}])
ATTACKS: dict[str, tuple[Callable[[Parts, Path], object], str]] = {
    **{
        f"a pickle named {name}": (partial(_rename_weight, name=name), "more than tensors")
        for name in ("version_x", "a/extra/x", ".data/x", "byteorder", "tensor.pt")
    },
    "a pickle named x.json": (partial(_rename_weight, name="x.json"), "more than tensors"),
    "legacy weights listed as raw": (_list_legacy_weights, "more than tensors"),
    "inputs listed as raw": (_list_inputs, "more than tensors"),
    "an object listed as raw": (_list_object, "only unpickling can create"),
    "a part listed twice": (_list_in_capitals, "more than tensors"),
    "a compiled library": (_add_library, "compiled code"),
    "an input named as code": (partial(_replace_name, old="x"), "not the name of a value"),
    "a weight named as code": (
        partial(_replace_name, old="p_linear_weight"),
        "not the name of a value",
    ),
    "an argument named as code": (
        partial(_replace_keywords, structure={}, names=["x=exit()"]),
        "not the name of a value",
    ),
    "a keyword named as code": (
        partial(_replace_keywords, structure={"context": '["y=exit()"]'}, names=[]),
        "not the name of an argument",
    ),
    "a structure that imports": (
        partial(_replace_keywords, structure={**_DEFAULTDICT, "context": _FACTORY}),
        "imports a module",
    ),
    "a structure that calls": (
        partial(_replace_keywords, structure={**_DEFAULTDICT, "context": _EXIT}),
        "imports a module",
    ),
    "a key that imports": (
        partial(_replace_keywords, structure={"context": _ENUM}),
        "imports a module",
    ),
    "a key that imports, in escapes": (
        partial(_replace_keywords, structure={"context": _ENUM.replace("_e", "\\u005fe")}),
        "imports a module",
    ),
    "an argument that is a function": (_call_any_function, "is not an operator"),
    "a symbol of a giant number": (
        lambda parts, mark: _edit(
            parts,
            _MODEL,
            lambda model: model["range_constraints"].update(
                u3000000000={"min_val": 0, "max_val": 3}
            ),
        ),
        "is not arithmetic",
    ),
    "a weight of giant strides": (
        partial(_expand_weight, part="weight_1", size=1 << 40),
        "more elements than",
    ),
    "a weight without data": (
        partial(_expand_weight, part="weight_9", size=1 << 40),
        "more elements than",
    ),
    "an archive in the archive": (
        partial(_replace_pickle, change=_inflate_data, method=zipfile.ZIP_DEFLATED),
        "many times its size",
    ),
    "a pickle that allocates": (
        partial(_replace_pickle, change=_allocate_bytes, method=zipfile.ZIP_STORED),
        "not in the file",
    ),
}


@pytest.mark.parametrize("name", ATTACKS)
def test_attacks(name: str, parts: Parts, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    change, message = ATTACKS[name]
    mark, path, changed = tmp_path / "mark", tmp_path / "evil.pt2", dict(parts)
    (tmp_path / f"{MODULE}.py").write_text(f"open({str(mark)!r}, 'w').close()\nx = list\n")
    monkeypatch.syspath_prepend(tmp_path)
    change(changed, mark)
    with zipfile.ZipFile(path, "w") as archive:
        for part, content in changed.items():
            archive.writestr(f"m/{part}", content)
    with pytest.raises(ExportError, match=message):
        load_program(path)
    assert not mark.exists()


@pytest.mark.parametrize("part", ["M/models/model.json", "m/MODELS/model.json", "other/x"])
def test_names_of_parts(part: str, parts: Parts, tmp_path: Path) -> None:
    """Names that differ in case only, and parts outside of the folder of the archive."""
    path = tmp_path / "evil.pt2"
    with zipfile.ZipFile(path, "w") as archive:
        for name, content in {**{f"m/{name}": parts[name] for name in parts}, part: b"{}"}.items():
            archive.writestr(name, content)
    with pytest.raises(ExportError, match=r"the same name|no part of a saved program"):
        load_program(path)


def test_many_parts(parts: Parts, tmp_path: Path) -> None:
    """Names of parts are looked at once."""
    path = tmp_path / "evil.pt2"
    with zipfile.ZipFile(path, "w") as archive:
        for name in (*(f"extra/{index}" for index in range(20_000)), "x"):
            archive.writestr(f"m/{name}", b"x")
    with zipfile.ZipFile(path) as archive, pytest.raises(ExportError, match="m/x holds more"):
        check_archive(archive, path, [])


def test_errors_hold_nothing_that_a_terminal_obeys(
    parts: Parts, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "evil.pt2"
    with zipfile.ZipFile(path, "w") as archive:
        for name, content in {**parts, "x\x1b[2J": b"x"}.items():
            archive.writestr(f"m/{name}", content)
    assert main(["export", str(path), "-o", str(tmp_path / "m.onnx")]) == 2
    text = capsys.readouterr().err
    assert "m/x\\x1b[2J holds more than" in text and "\x1b" not in text


@pytest.mark.parametrize(
    "text",
    [
        "Pow(10, 10**10)", "PowByNatural(10, Max(10**10, 1))", "LShift(1, 10**12)",
        "10**Max(9**12, 1)", "10**s0", "'a'*4000000000", "[0]*99999999", "(0,)*99999999",
        "Matrix(99999, 99999)", "Float('1e999999999')", "Float('1', precision=99999999)",
        "math.factorial(99999999)", "math.comb(s0, 2)", "Integral(x, (x, 0, 1))",
        "L['a\"); exit(); (\"'].size()[0] > 1", "L['a\\n'].size()[0] > 1",
    ],
)  # fmt: skip
def test_texts_that_never_end(text: str) -> None:
    assert not is_arithmetic(text)


class Structured(torch.nn.Module):
    """Has what the checks look at: constants, expanded buffers, odd names, symbols, branches."""

    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("expanded", torch.ones(1).expand(4))
        self.weights = torch.nn.ParameterDict({"a-b": torch.nn.Parameter(torch.ones(4))})

    def forward(self, x: torch.Tensor, pairs: Any, *, scales: Any) -> torch.Tensor:
        rows = torch.nn.functional.pad(x, (0, 0, 0, -x.shape[0] % 8)).view(-1, 8, 4)
        scaled = rows * self.expanded * self.weights["a-b"] + pairs["a b"] + scales["c"][0]
        branch = torch.cond(x.sum() > 0, lambda y: y + 1, lambda y: y * 2, (x,))
        return scaled.sum(0) + branch[: min(x.shape[0], 7)].sum(0) + torch.tensor([1.0, 2, 3, 4])


def test_a_sound_program_with_structures_is_read(tmp_path: Path) -> None:
    path = tmp_path / "m.pt2"
    arguments = (torch.rand(9, 4), defaultdict(list, {"a b": torch.ones(4)}))
    keywords = {"scales": OrderedDict(c=[torch.ones(4)])}
    shapes = {
        "x": {0: Dim.DYNAMIC},
        "pairs": defaultdict(list, {"a b": {}}),
        "scales": OrderedDict(c=[{}]),
    }
    program = torch.export.export(Structured(), arguments, keywords, dynamic_shapes=shapes)
    program.example_inputs = None  # a defaultdict is no plain value
    torch.export.save(program, path)
    assert ortable.to_onnx(load_program(path)).graph.node

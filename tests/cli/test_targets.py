"""TARGET and --inputs: functions, modules, classes and files; errors quote the invalid argument."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from pathlib import Path

import onnx
import pytest
import torch

from ortable.cli.arguments import Parser, parse_pairs
from ortable.cli.main import main
from ortable.cli.model_call import make_inputs
from ortable.errors import OptionError

from .conftest import GetError

pytestmark = pytest.mark.usefixtures("fresh_dynamo")

SOURCE = """
import torch
from beside import WIDTH

class Net(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.linear = torch.nn.Linear(WIDTH, 2)
        self.drop = torch.nn.Dropout(0.5)

    def forward(self, x, scale=1.0):
        return self.drop(torch.relu(self.linear(x))) * scale

class Known(Net):
    example_inputs = (torch.ones(2, 4),)

class Named(Net):
    def example_inputs(self):
        return {"x": torch.ones(2, 4), "scale": 2.0}

class Sized(Net):
    def __init__(self, width):
        super().__init__()

class Plain:
    pass

net = Known()
program = torch.export.export(net.eval(), (torch.ones(2, 4),))
number = 3
made = lambda: Net()
pair = lambda: (Net().eval(), torch.ones(2, 4))
nothing = lambda: None
single = lambda: 3
needs = lambda width: Net()
words = lambda: ("model", (1,))
keys = lambda: (Net().eval(), (torch.ones(2, 4),), [1])
"""


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    (tmp_path / "targets_of_the_shell.py").write_text(SOURCE)
    (tmp_path / "beside.py").write_text("WIDTH = 4")
    (tmp_path / "needs_another.py").write_text("import no_such_package_here")
    (tmp_path / "empty").mkdir()
    monkeypatch.chdir(tmp_path)
    path = list(sys.path)
    yield tmp_path
    sys.path[:] = path
    for name in ("targets_of_the_shell", "beside"):
        sys.modules.pop(name, None)


INPUT = ("--inputs", "x=f32[batch=2,4]")


@pytest.mark.parametrize(
    ("target", "inputs"),
    [
        ("Net", INPUT),
        ("Net", ("--inputs", "f32[2,4]", "scale=3.0")),
        ("Known", ()),
        ("Named", ()),
        ("net", ()),
        ("made", INPUT),
        ("program", ()),
    ],
)
@pytest.mark.parametrize("location", ["targets_of_the_shell", "targets_of_the_shell.py"])
def test_functions_modules_and_classes_are_exported(
    folder: Path,
    capsys: pytest.CaptureFixture[str],
    location: str,
    target: str,
    inputs: tuple[str, ...],
) -> None:
    flags = ["--json", "-o", "net.onnx"]
    assert main(["export", *inputs, *flags, f"{location}:{target}"]) == 0
    output = capsys.readouterr()
    report = json.loads(output.out)
    (shape,) = [entry["shape"] for entry in report["inputs"]]
    assert shape == (["batch", 4] if inputs == INPUT else [2, 4])
    assert report["largest_difference"] < 1e-6 and report["files"] == {
        "net.onnx": Path("net.onnx").stat().st_size
    }
    assert {"example"} <= {entry["inputs"] for entry in report["comparisons"]}
    # the model is in evaluation mode, without dropout
    assert not [n for n in onnx.load("net.onnx").graph.node if n.op_type == "RandomUniformLike"]


def test_dynamic_frees_every_size_that_the_model_leaves_free(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    target = "targets_of_the_shell.py:Known"
    assert main(["export", target, "--dynamic", "--json", "-o", "net.onnx"]) == 0
    (input_report,) = json.loads(capsys.readouterr().out)["inputs"]
    batch, width = input_report["shape"]
    assert isinstance(batch, str) and width == 4
    assert input_report["name"] == "x" and input_report["type"] == "float32"


@pytest.mark.parametrize(
    ("target", "text"),
    [
        ("targets_of_the_shell:Net", 'Give --inputs "x=f32[2,3]"'),
        ("targets_of_the_shell:Nat", "no callable 'Nat'. Did you mean 'Net'?"),
        ("targets_of_the_shell:Sized", "called without arguments, and needs width"),
        ("targets_of_the_shell:needs", "called without arguments, and needs width"),
        ("targets_of_the_shell:Plain", "is a class, and no torch.nn.Module"),
        ("targets_of_the_shell:number", "of type int, neither a function nor a module"),
        ("targets_of_the_shell:pair", "it returned (Net, Tensor)"),
        ("targets_of_the_shell:nothing", "it returned None"),
        ("targets_of_the_shell:single", "must return (model, args)"),
        ("targets_of_the_shell:words", "returned a str instead of a model"),
        ("targets_of_the_shell:keys", "kwargs is a dict, not a list"),
        ("targets_of_the_shell.py", "write targets_of_the_shell.py:NAME"),
        ("targets_of_the_shel.py:Net", "there is no file 'targets_of_the_shel.py'"),
        ("targets_of_the_shel:Net", "Cannot import 'targets_of_the_shel'"),
        ("needs_another.py:Net", "No module named 'no_such_package_here'"),
        ("needs_another:Net", "No module named 'no_such_package_here'"),
        ("empty", "the folder 'empty' has no config.json"),
        ("model.onnx", "is an ONNX model already"),
        ("nobody", "is not module:callable"),
    ],
)
def test_what_is_no_target_is_said(
    folder: Path, get_error: GetError, target: str, text: str
) -> None:
    assert text in get_error("export", target, "-o", "net.onnx")
    assert not Path("net.onnx").exists()


@pytest.mark.parametrize("flag", [["--task", "fill-mask"], ["--config", "hidden_size=8"]])
def test_flags_of_transformers_are_for_its_models(
    folder: Path, get_error: GetError, flag: list[str]
) -> None:
    message = get_error("export", "targets_of_the_shell:Net", "-o", "net.onnx", *flag)
    assert f"{flag[0]} is for models of transformers: a folder, or the name of a class" in message


@pytest.mark.parametrize(
    ("specs", "text"),
    [
        (["f3[2,4]"], "unknown dtype 'f3'"),
        (["f32[2,b]"], "'b' in 'f32[2,b]' is not a size"),
        (["f32[n=2,4]", "f32[n=3,4]"], "n is 2, and in 'f32[n=3,4]' 3"),
        (["x=f32[2]", "f32[2]"], "has no name, but follows an input with a name"),
        (["x=f32[2]", "x=f32[2]"], "'x' is given twice"),
        (["f32(2)"], "cannot read 'f32(2)'"),
        (["f32[n=2]", "x=f32[2]"], "give all inputs a name, or none"),
        (["f32[2n=4,3]"], "'2n' in 'f32[2n=4,3]' is not a valid dimension name"),
    ],
)
def test_wrong_inputs_are_said(specs: list[str], text: str) -> None:
    with pytest.raises(OptionError) as exc_info:
        make_inputs(specs)
    assert text in str(exc_info.value)


def test_inputs_are_tensors_and_numbers() -> None:
    call = make_inputs(["f32[2,3]", "i64[5] in 3..9", "b[2]", "2.5"])
    floats, integers, flags, number = call.args
    assert floats.shape == (2, 3) and floats.dtype == torch.float32
    assert integers.dtype == torch.int64 and 3 <= int(integers.min()) <= int(integers.max()) < 9
    assert flags.dtype == torch.bool and number == 2.5 and call.dynamic_shapes is None
    assert int(make_inputs(["i64[100]"]).args[0].max()) == 1
    named = make_inputs(["x=f32[n=2,3]", "y=f32[2]"])
    assert named.dynamic_shapes == {"x": {0: "n"}, "y": None} and list(named.kwargs) == ["x", "y"]
    assert torch.equal(make_inputs(["f32[2]"]).args[0], make_inputs(["f32[2]"]).args[0])


def test_pairs_are_names_and_values() -> None:
    pairs = parse_pairs(
        ["freeze=off", "optimize=False", "hints=true", "tune=2.5", "providers=['a']"]
    )
    assert pairs == {
        "freeze": "off", "optimize": False, "hints": True, "tune": 2.5, "providers": ["a"],
    }  # fmt: skip
    for texts, message in ((["freeze"], "is not NAME=VALUE"), (["a=1", "a=2"], "given twice")):
        with pytest.raises(OptionError, match=message):
            parse_pairs(texts)


def test_a_list_ends_where_another_word_begins() -> None:
    parser = Parser()
    parser.add_argument("target")
    parser.add_argument("--options", action="append", default=[])
    parser.add_argument("--inputs", action="append", default=[])
    arguments = ["--options", "a=1", "b=2", "m:f", "--inputs", "f32[2]", "x=i64[4] in 0..5"]
    parsed = parser.parse_args(arguments)
    assert parsed.target == "m:f" and parsed.options == ["a=1", "b=2"]
    assert parsed.inputs == ["f32[2]", "x=i64[4] in 0..5"]

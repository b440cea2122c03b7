"""Errors outside of ortable give one line and the location, or a traceback with --debug."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import onnx
import pytest

import ortable
from ortable.cli.main import EXAMPLES, _make_parser, main

from .conftest import GetError

FACTORY = """
import torch

def broken():
    raise ValueError("the weights are not there")

class Bad(torch.nn.Module):
    def forward(self, x):
        raise KeyError("inside forward")

def bad():
    return Bad(), (torch.rand(2),)
"""


@pytest.fixture
def factory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    (tmp_path / "models_that_fail.py").write_text(FACTORY)
    (tmp_path / "no_python.py").write_text("def f(:")
    monkeypatch.syspath_prepend(str(tmp_path))
    monkeypatch.chdir(tmp_path)
    yield "models_that_fail"
    sys.modules.pop("models_that_fail", None)


@pytest.mark.parametrize(
    ("arguments", "text"),
    [
        (["export", "{m}:broken", "-o", "x.onnx"], "ValueError: the weights are not there"),
        (["explain", "{m}:broken"], "at models_that_fail.py:5, in broken"),
        (["debug", "{m}:broken"], 'raise ValueError("the weights are not there")'),
        (["bench", "{m}:bad"], "at models_that_fail.py:9, in forward"),
        (["export", "no_python:f", "-o", "x.onnx"], "SyntaxError: "),
    ],
)
def test_exceptions_of_the_user_are_one_line_and_the_place(
    factory: str, get_error: GetError, arguments: list[str], text: str
) -> None:
    message = get_error(*(word.format(m=factory) for word in arguments))
    assert text in message and "--debug" in message


def test_debug_raises(factory: str) -> None:
    with pytest.raises(ValueError, match="not there"):
        main(["--debug", "export", f"{factory}:broken", "-o", "x.onnx"])


@pytest.mark.parametrize(
    ("arguments", "text"),
    [
        (["show", "text.onnx"], "'text.onnx' is not an ONNX model"),
        (["show", "."], "'.' is a folder"),
        (["show", "none.onnx"], "no file 'none.onnx'"),
        (["draw", "text.onnx", "-o", "x.dot"], "'text.onnx' is not an ONNX model"),
        (["draw", ".", "-o", "x.dot"], "'.' is a folder"),
        (["draw", "none.onnx", "-o", "x.dot"], "no file 'none.onnx'"),
        (["ops", "--missing", "text.onnx"], "is an ONNX model already"),
        (["ops", "--missing", "."], "'.' is a folder"),
        (["export", "text.pt2", "-o", "x.onnx"], "is not a zip archive"),
        (["show", "empty.onnx"], "'empty.onnx' is empty"),
    ],
)
def test_files_of_another_kind_are_named(
    factory: str, get_error: GetError, arguments: list[str], text: str
) -> None:
    for name in ("text.onnx", "text.pt2"):
        Path(name).write_text("hello")
    Path("empty.onnx").touch()
    assert text in get_error(*arguments)


@pytest.mark.parametrize(
    ("arguments", "text"),
    [
        (["profile", "{m}:bad", "--html", "x.html"], "'x.html' cannot be written"),
        (
            ["export", "{m}:bad", "-o", "x.onnx"],
            "'.', the location of the ONNX file to write (-o), is not writable",
        ),
    ],
)
def test_a_place_that_may_not_be_written_is_named_first(
    factory: str,
    get_error: GetError,
    monkeypatch: pytest.MonkeyPatch,
    arguments: list[str],
    text: str,
) -> None:
    monkeypatch.setattr(os, "access", lambda path, mode: mode != os.W_OK)  # tests may run as root
    assert text in get_error(*(word.format(m=factory) for word in arguments))


@pytest.mark.parametrize(
    ("arguments", "text"),
    [
        (["export", "--dynamic"], "has its dynamic sizes already: leave out --dynamic"),
        (["export", "--inputs", "f32[4,3]"], "has example inputs: leave out --inputs"),
        (["explain", "--train"], "runs in the mode of its export: leave out --train"),
        (["debug", "--train"], "runs in the mode of its export: leave out --train"),
        (["explain", "no_example"], "has no example inputs to call it with"),
        (["debug", "no_example"], "has no example inputs to call it with"),
        (["export", "no_example"], "or --no-validate"),
    ],
)
def test_what_a_saved_program_does_not_take(
    factory: str, get_error: GetError, arguments: list[str], text: str
) -> None:
    import torch

    program = torch.export.export(torch.nn.Linear(3, 2), (torch.randn(4, 3),))
    command, *flags = arguments
    if flags == ["no_example"]:
        program.example_inputs, flags = None, []
    torch.export.save(program, "linear.pt2")
    if command == "export":
        flags += ["-o", "x.onnx"]
    assert text in get_error(command, "linear.pt2", *flags)


def test_the_version(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as exit_info:
        main(["--version"])
    assert exit_info.value.code == 0
    assert capsys.readouterr().out == f"ortable {ortable.__version__}\n"


def test_every_command_has_two_examples_that_it_accepts() -> None:
    parser = _make_parser()
    (commands,) = parser._subparsers._group_actions
    missing = set(commands.choices) - set(EXAMPLES)
    assert not missing, f"add examples of {missing} to cli/main.py"
    for name, calls in EXAMPLES.items():
        help_text = commands.choices[name].format_help()
        for call in calls:
            assert f"  {call}\n" in help_text
            args = parser.parse_args(call.partition(" | ")[0].split()[1:])
            assert args.command == name and callable(args.run)


def test_help_and_version_need_no_library() -> None:
    code = (
        "import sys\nfrom ortable.cli.main import _make_parser\n_make_parser().format_help()\n"
        "print([each for each in ('torch', 'onnx', 'numpy', 'onnxruntime') if each in sys.modules])"
    )
    process = subprocess.run(
        [sys.executable, "-c", code],
        capture_output=True,
        text=True,
        env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)},
        timeout=60,
    )
    assert process.stdout.strip() == "[]", process.stderr


@pytest.mark.parametrize(
    ("arguments", "text"),
    [
        (["draw", "x.onnx", "-o", ""], "'' is no file to write"),
        (["ops", "--missing", ""], "''"),
        (["profile", "{m}:bad", "--trace", ""], "'' is no file to write"),
        (["debug", "{m}:bad", "--script", "none/x.py"], "folder 'none' does not exist"),
        (["debug", "{m}:bad", "--script", "folder"], "'folder' cannot be written: it is a folder"),
        (["tune", "{m}:bad", "--cache-dir", "file.py"], "'file.py' cannot be a folder: 'file.py'"),
        (["tune", "{m}:bad", "--cache-dir", "file.py/a"], "'file.py' is not a folder"),
        (["tune", "{m}:bad", "--cache-dir", ""], "'' cannot be a folder"),
        (["export", "file.py:net", "-o", "file.py"], "'file.py' is the file of the model itself"),
        (["export", "..net:Net", "-o", "x.onnx"], "the name of a module does not begin with a dot"),
        (["export", "zeros.py:Net", "-o", "x.onnx"], "null bytes\nWith --debug"),
        (
            ["export", "file.py:Net", "-o", "a", "--inputs", "i64[4] in 0..9999999999999999999"],
            "--inputs: no tensor can be made for 'i64[4] in 0..9999999999999999999': ",
        ),
        (
            ["export", "file.py:Net", "-o", "x.onnx", "--inputs", "f32[99999999,99999999]"],
            "--inputs: no tensor can be made for 'f32[99999999,99999999]': ",
        ),
    ],
)  # fmt: skip
def test_what_cannot_be_is_named_before_anything_runs(
    factory: str, get_error: GetError, arguments: list[str], text: str
) -> None:
    Path("file.py").write_text("import torch\nNet = torch.nn.ReLU\n")
    Path("zeros.py").write_bytes(b"a = 1\0")
    Path("folder").mkdir()
    Path("x.onnx").write_bytes(onnx.ModelProto(graph=onnx.GraphProto(name="g")).SerializeToString())
    message = get_error(*(word.format(m=factory) for word in arguments))
    assert text in message and len(message.splitlines()) <= 2
    assert Path("file.py").read_text().startswith("import torch")


@pytest.mark.parametrize(
    ("arguments", "text"),
    [
        (["bench", "m:f", "--rounds", "0"], "--rounds: '0' is no whole number of 1 or more"),
        (["bench", "m:f", "--rounds", "nan"], "--rounds: 'nan' is no whole number of 1 or more"),
        (["profile", "m:f", "--rows", "-1"], "--rows: '-1' is no whole number of 0 or more"),
        (["debug", "m:f", "--atol", "nan"], "--atol: 'nan' is no number of 0 or more"),
        (["debug", "m:f", "--atol", "-1"], "--atol: '-1' is no number of 0 or more"),
        (["debug", "m:f", "--rtol", "x"], "--rtol: 'x' is no number of 0 or more"),
    ],
)
def test_numbers_that_say_nothing_are_refused(
    capsys: pytest.CaptureFixture[str], arguments: list[str], text: str
) -> None:
    with pytest.raises(SystemExit) as exit_info:
        main(arguments)
    assert exit_info.value.code == 2
    assert text in capsys.readouterr().err


def test_torch_logs_no_traceback_of_an_error_that_is_said(tmp_path: Path) -> None:
    (tmp_path / "net.py").write_text(
        "import torch\n\n\ndef net():\n    return torch.nn.Linear(10, 4), (torch.rand(2, 11),)\n"
    )
    command = [sys.executable, "-m", "ortable", "export", "net.py:net", "-o", "x.onnx"]
    process = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True)
    assert process.returncode == 2
    assert "mat1 and mat2 shapes cannot be multiplied" in process.stderr
    assert "Traceback" not in process.stderr and "failed while attempting" not in process.stderr


def test_an_empty_example_is_compared_at_other_sizes_too(
    factory: str, capsys: pytest.CaptureFixture[str]
) -> None:
    Path("net.py").write_text("import torch\nNet = torch.nn.ReLU\n")
    assert main(["export", "net.py:Net", "-o", "x.onnx", "--inputs", "f32[b=0,10]"]) == 0
    shapes = {line.split()[0]: line for line in capsys.readouterr().out.splitlines()}
    assert "[0, 10]" in shapes["example"] and "[1, 10]" in shapes["b=1"]


@pytest.mark.alternates(parts=3)
@pytest.mark.parametrize("stream", ["1>&-", "2>&-", "1>&- 2>&-"])
def test_a_stream_may_be_closed(tmp_path: Path, stream: str) -> None:
    (tmp_path / "net.py").write_text(
        "import torch\n\n\ndef net():\n    return torch.nn.ReLU(), (torch.rand(2),)\n"
    )
    command = f"{sys.executable} -m ortable export net.py:net -o x.onnx {stream}"
    process = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, shell=True)
    assert (process.returncode, process.stderr) == (0, "")
    assert (tmp_path / "x.onnx").is_file()


def test_a_folder_whose_name_is_no_text_is_taken(tmp_path: Path) -> None:
    folder = os.path.join(os.fsencode(tmp_path), b"mod\xffels")
    os.mkdir(folder)
    with open(os.path.join(folder, b"net.py"), "w") as file:
        file.write(
            "import torch\n\n\nclass Net(torch.nn.Module):\n    def forward(self, x):\n"
            "        return x + 1 if x.shape[0] < 5 else x\n"
        )
    command = [sys.executable, "-m", "ortable", "export", "net.py:Net", "-o", "x.onnx"]
    command += ["--inputs", "f32[n=2,3]"]
    process = subprocess.run(command, cwd=folder, capture_output=True, text=True)
    assert process.returncode == 0, process.stderr
    model = onnx.load(os.path.join(folder, b"x.onnx").decode("utf-8", "surrogateescape"))
    assert any("net.py" in prop.value for prop in model.metadata_props)

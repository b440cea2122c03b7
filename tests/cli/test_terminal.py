"""The command as a process: progress, closed pipes, a full disk, Ctrl-C, and invalid arguments."""

from __future__ import annotations

import os
import pty
import re
import signal
import subprocess
import sys
import time
from pathlib import Path

import onnx
import pytest
from onnx import TensorProto, helper

from ortable.cli import main as command
from ortable.cli.main import main
from ortable.cli.progress import show_progress

from .conftest import GetError

pytestmark = pytest.mark.alternates(parts=3)

NET = """
import torch

class Net(torch.nn.Module):
    example_inputs = torch.ones(2, 3)

    def __init__(self):
        super().__init__()
        self.linear = torch.nn.Linear(3, 2)

    def forward(self, x):
        print("in forward")
        return torch.relu(self.linear(x))

def slow():
    import time
    print("started", flush=True)
    time.sleep(60)
"""
ENV = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path), "TERM": "xterm", "COLUMNS": "80"}


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    (tmp_path / "net.py").write_text(NET)
    values = [helper.make_tensor_value_info(n, TensorProto.FLOAT, ["n"]) for n in "xy"]
    nodes = [helper.make_node("Relu", ["x"], ["y0"])]
    nodes += [helper.make_node("Relu", [f"y{i}"], [f"y{i + 1}"]) for i in range(5000)]
    nodes += [helper.make_node("Relu", ["y5000"], ["y"])]
    graph = helper.make_graph(nodes, "g", values[:1], values[1:])
    onnx.save(helper.make_model(graph), tmp_path / "long.onnx")
    monkeypatch.chdir(tmp_path)
    return tmp_path


def run_on_terminal(*arguments: str) -> tuple[int, str]:
    """Run the command on a terminal and return the exit status and all output."""
    child, terminal = pty.fork()
    if child == 0:
        os.execve(sys.executable, [sys.executable, "-m", "ortable", *arguments], ENV)
    output = b""
    while True:
        try:
            chunk = os.read(terminal, 65536)
        except OSError:  # the process has closed the terminal
            break
        if not chunk:
            break
        output += chunk
    os.close(terminal)
    _, status = os.waitpid(child, 0)
    return os.waitstatus_to_exitcode(status), output.decode()


def test_a_terminal_sees_how_far_it_is(folder: Path) -> None:
    status, output = run_on_terminal("export", "net.py:Net", "-o", "net.onnx")
    assert status == 0, output
    text = re.sub(r"\x1b\[[0-9;?]*[a-zA-Z]", "", output)
    assert re.search(r"validate +\S* *\d/7", text)
    # the progress line is erased before results are printed
    results = output[output.rindex("\x1b[2K") :]
    assert re.search(r"example +output_0", results) and "wrote net.onnx" in results
    assert all(len(line) <= 80 for line in text.split("\r\n") if "\r" not in line)


def test_elsewhere_nothing_is_shown(folder: Path) -> None:
    process = subprocess.run(
        [sys.executable, "-m", "ortable", "bench", "net.py:Net", "--rounds", "2", "--json"],
        capture_output=True,
        text=True,
        env=ENV,
    )
    assert process.returncode == 0, process.stderr
    assert "compiling" not in process.stderr and "\x1b" not in process.stderr
    # the output of the model is not in the JSON
    assert process.stdout.startswith("{") and "in forward" in process.stderr


def test_a_pipe_that_closes_is_no_error(folder: Path) -> None:
    line = f"{sys.executable} -m ortable show long.onnx | head -n 1"
    process = subprocess.run(["sh", "-c", line], capture_output=True, text=True, env=ENV)
    assert len(process.stdout.splitlines()) == 1 and process.stderr == ""


def test_a_full_disk_is_one_line(folder: Path) -> None:
    line = f"{sys.executable} -m ortable show long.onnx > /dev/full"
    process = subprocess.run(["sh", "-c", line], capture_output=True, text=True, env=ENV)
    assert process.returncode == 2 and process.stderr == "error: No space left on device\n"


def test_ctrl_c_stops(folder: Path) -> None:
    command_line = [sys.executable, "-m", "ortable", "export", "net.py:slow", "-o", "x.onnx"]
    child = subprocess.Popen(
        command_line,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env=ENV,
        preexec_fn=lambda: signal.signal(
            signal.SIGINT, signal.SIG_DFL
        ),  # shells ignore it for background jobs
    )
    assert child.stdout is not None and child.stdout.readline() == "started\n"
    time.sleep(0.1)
    child.send_signal(signal.SIGINT)
    _, errors = child.communicate(timeout=60)
    assert child.returncode == 130 and errors.strip().splitlines()[-1] == "stopped"
    assert "Traceback" not in errors


def test_a_model_that_cannot_be_written_is_said(
    folder: Path, monkeypatch: pytest.MonkeyPatch, get_error: GetError
) -> None:
    def raise_disk_full(*_: object, **__: object) -> None:
        raise OSError(28, "No space left on device", "net.onnx")

    monkeypatch.setattr("ortable.ir.proto.atomic_files.FileSet.publish", raise_disk_full)
    assert "No space left on device" in get_error("export", "net.py:Net", "-o", "net.onnx")
    assert [path.name for path in folder.iterdir() if "net.onnx" in path.name] == []


def test_a_device_is_not_replaced_by_a_model(folder: Path, get_error: GetError) -> None:
    assert "is a device" in get_error("export", "net.py:Net", "-o", "/dev/null")
    assert not Path("/dev/null").is_file()


@pytest.mark.parametrize(
    ("arguments", "text"),
    [
        (["bnch", "m:f"], "there is no command 'bnch'. Did you mean 'bench'?"),
        (["bench", "m:f", "--optons", "a=1"], "'--optons'. Did you mean '--options'?"),
        (["bench", "m:f", "more"], "'more' is one word too many"),
        (["bench"], "required: TARGET"),
        (["bench", "m:f", "--rounds", "x"], "'x' is no whole number of 1 or more"),
        (["specs", "chck"], "there is no command 'chck'. Did you mean 'check'?"),
        (["export", "m:f"], "required: -o"),
    ],
)
def test_a_wrong_command_line_is_answered_in_two_lines(
    capsys: pytest.CaptureFixture[str], arguments: list[str], text: str
) -> None:
    with pytest.raises(SystemExit) as exit_info:
        main(arguments)
    errors = capsys.readouterr().err
    assert exit_info.value.code == 2 and text in errors
    assert errors.startswith("error: ") and len(errors.splitlines()) == 2 and "--help" in errors


def test_debug_stands_before_or_behind_the_command() -> None:
    parser = command._make_parser()
    assert parser.parse_args(["--debug", "show", "m"]).debug
    assert parser.parse_args(["show", "m", "--debug"]).debug
    assert parser.parse_args(["rewrites", "list", "--debug"]).debug
    assert not parser.parse_args(["show", "m"]).debug


def test_results_that_differ_are_status_1(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    net = NET.replace("torch.ones(2, 3)", "torch.rand(50, 3)")
    (folder / "net.py").write_text(net)
    assert main(["export", "net.py:Net", "-o", "net.onnx", "--atol", "1e-30"]) == 1
    errors = capsys.readouterr().err
    assert errors.startswith("error: validation failed") and not Path("net.onnx").exists()


def test_without_rich_nothing_is_shown(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(sys.stderr, "isatty", lambda: True, raising=False)
    monkeypatch.setitem(sys.modules, "rich.progress", None)
    with show_progress("converting", 2) as step:
        step("writing")
    assert capsys.readouterr().err == ""

"""Check on a machine that has not run ortable yet that its main parts work, and print what it is.

Compiles, trains, exports to a folder whose name has spaces and letters beyond ASCII, runs the shell
command and a spawned process. Exits with status 1, with a traceback for each part that fails.
Arguments select checks by their names.
"""

from __future__ import annotations

import multiprocessing
import platform
import subprocess
import sys
import tempfile
import traceback
import warnings
from collections.abc import Callable
from pathlib import Path

import numpy
import onnx
import onnxruntime
import torch

import ortable

NAME = "für ONNX 模型"
if sys.getfilesystemencoding() != "utf-8":  # Linux with LC_ALL=C
    NAME = "for ONNX"


class Net(torch.nn.Module):
    """Two weights whose names differ in case only, as two files of them would."""

    def __init__(self) -> None:
        super().__init__()
        self.A = torch.nn.Parameter(torch.randn(64, 64))
        self.a = torch.nn.Parameter(torch.randn(64, 64))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return torch.tanh(x @ self.A) + x @ self.a


def run_compiled(folder: str) -> torch.Tensor:
    """Compile the network with a folder for other processes, and return a result."""
    torch.manual_seed(0)
    model, x = Net().eval(), torch.linspace(-1, 1, 128).reshape(2, 64)
    fast = torch.compile(model, backend="ortable", options={"cache_dir": folder})
    with torch.no_grad():
        result: torch.Tensor = fast(x)
        torch.testing.assert_close(result, model(x))
    return result


def check_compile(folder: Path) -> None:
    """Compare a compiled call with eager."""
    run_compiled(str(folder / "cache"))


def check_spawn(folder: Path) -> None:
    """Compare the result of a process that is started anew and reads the same folder."""
    with multiprocessing.get_context("spawn").Pool(1) as pool:
        result = pool.apply(run_compiled, (str(folder / "cache"),))
    torch.testing.assert_close(result, run_compiled(str(folder / "cache")))


def check_training(folder: Path) -> None:
    """Compare gradients with eager."""
    model, x = Net(), torch.randn(2, 64)
    gradients = []
    for run in (model, torch.compile(model, backend="ortable")):
        model.zero_grad()
        run(x).square().mean().backward()
        gradients.append([parameter.grad for parameter in model.parameters()])
    torch.testing.assert_close(gradients[1], gradients[0])


def check_export(folder: Path) -> None:
    """Write a model with its weights in files beside it, twice, and run the files."""
    model, x = Net().eval(), torch.randn(2, 64)
    path = folder / f"{NAME}.onnx"
    program = ortable.export(model, (x,))
    for _ in range(2):  # the second one replaces files that exist
        program.save(path, external_data=True)
        session = onnxruntime.InferenceSession(path)
        (result,) = session.run(None, {session.get_inputs()[0].name: x.numpy()})
        torch.testing.assert_close(torch.from_numpy(result), model(x).detach())
    onnx.checker.check_model(path)
    proto = ortable.export(model, (x,), large_model=True)
    proto.save(folder / "shards.onnx", max_shard_bytes=1 << 14)
    assert len(list(folder.glob("shards.onnx.*"))) == 2


def check_command(folder: Path) -> None:
    """Print the exported model with the shell command."""
    command = [sys.executable, "-m", "ortable", "show", str(folder / f"{NAME}.onnx")]
    output = subprocess.run(command, capture_output=True, check=True).stdout
    assert b"MatMul" in output, output


CHECKS: dict[str, Callable[[Path], None]] = {
    "compile": check_compile,
    "spawned process": check_spawn,
    "training": check_training,
    "export": check_export,
    "shell command": check_command,
}


def main() -> int:
    """Run the checks and return the exit status."""
    warnings.simplefilter("ignore")
    libraries = [f"{lib.__name__} {lib.__version__}" for lib in (torch, onnx, onnxruntime, numpy)]
    print(platform.platform(), platform.machine(), f"Python {platform.python_version()}", sep=", ")
    print(*libraries, f"ortable {ortable.__version__}", sep=", ")
    failures = 0
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as place:
        folder = Path(place) / NAME
        folder.mkdir()
        for name in sys.argv[1:] or CHECKS:
            try:
                CHECKS[name](folder)
                print(f"{name}: passed")
            except Exception:
                traceback.print_exc()
                failures += 1
                print(f"{name}: failed")
    return int(failures > 0)


if __name__ == "__main__":
    sys.exit(main())

"""The runtimes of others: their packages, and a run of a model in a process of its own.

The packages of each version lie in a folder of their own, below ~/.cache/ortable/portable.
"""

from __future__ import annotations

import contextlib
import json
import os
import re
import select
import subprocess
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from examples.web import RUNTIME, install_packages
from tests.support.environment import cache_folder

from .run_python import write_arrays

HERE = Path(__file__).resolve().parent
SECONDS = 300


@dataclass(frozen=True)
class Runtime:
    """A runtime and its packages with versions; `is_node` says that they are node's.

    An importer (`is_importer`) compiles for minutes; its other packages are in NAME.txt, if it has
    any.
    """

    name: str
    packages: tuple[str, ...]
    is_node: bool = False
    is_importer: bool = False

    @property
    def folder(self) -> Path:
        """The folder of the packages."""
        python = f"python{sys.version_info.major}.{sys.version_info.minor}"
        return cache_folder() / "portable" / f"{self.packages[0]}-{python}"


RUNTIMES = (
    Runtime("openvino", ("openvino==2026.4.1", "openvino-telemetry==2025.2.0")),
    Runtime("tract", ("tract==0.23.9",)),
    Runtime("onnxruntime-web", RUNTIME, is_node=True),
    Runtime("tvm", ("apache-tvm==0.27.0.post1", "apache-tvm-ffi==0.1.15.post2"), is_importer=True),
    Runtime("onnx2tf", ("onnx2tf==1.29.24",), is_importer=True),
)


class RuntimeFailure(Exception):
    """A runtime cannot load or run a model."""


def install(runtime: Runtime) -> None:
    """Install the packages of a runtime, unless exactly these are installed."""
    target = runtime.folder
    if runtime.is_node:
        install_packages(target, runtime.packages)
        return
    stamp = target / "packages.txt"
    if stamp.exists() and stamp.read_text() == "\n".join(runtime.packages):
        return
    target.mkdir(parents=True, exist_ok=True)
    pip = [sys.executable, "-m", "pip", "install", "--quiet", "--upgrade", "--no-deps"]
    command = [*pip, "--target", str(target), *runtime.packages]
    others = HERE / f"{runtime.name}.txt"
    command += ["-r", str(others)] if others.exists() else []
    subprocess.run(command, check=True)
    stamp.write_text("\n".join(runtime.packages))


class RuntimeServer:
    """A process of a runtime, started at the first model and again when it ended.

    A model is run by one process, so a crash or a hang is the outcome of that model.
    """

    def __init__(self, runtime: Runtime) -> None:
        self.runtime = runtime
        self._process: subprocess.Popen[str] | None = None

    def run_model(self, folder: Path, inputs: Mapping[str, np.ndarray]) -> list[np.ndarray]:
        """Run `folder`/model.onnx and return its results.

        Raises:
            RuntimeFailure: the runtime fails; the message is its own.
        """
        write_arrays(folder, "input", inputs)
        process = self._process or self._start()
        assert process.stdin is not None and process.stdout is not None
        print(folder, file=process.stdin, flush=True)
        is_ready, _, _ = select.select([process.stdout], [], [], SECONDS)
        answer = process.stdout.readline() if is_ready else ""
        if not answer:
            status = self.close()
            raise RuntimeFailure(
                f"exit status {status}" if is_ready else f"no result after {SECONDS} s"
            )
        if error := json.loads(answer):
            raise RuntimeFailure(error_text(error))
        return read_results(folder)

    def _start(self) -> subprocess.Popen[str]:
        is_node, target = self.runtime.is_node, self.runtime.folder
        script = HERE / ("run_web.js" if is_node else "run_python.py")
        program = ["node", script] if is_node else [sys.executable, script, self.runtime.name]
        variable = "NODE_PATH" if is_node else "PYTHONPATH"
        self._process = subprocess.Popen(
            program,
            env={
                **os.environ,
                variable: str(target / "node_modules" if is_node else target),
                "RUST_BACKTRACE": "0",  # frames of a panic take seconds
            },
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            text=True,
        )
        return self._process

    def close(self) -> int:
        """End the process and return its exit status."""
        process, self._process = self._process, None
        if process is None:
            return 0
        assert process.stdin is not None
        with contextlib.suppress(BrokenPipeError):
            process.stdin.close()
        with contextlib.suppress(subprocess.TimeoutExpired):
            return process.wait(5)
        process.kill()
        return process.wait()


def error_text(text: str) -> str:
    """Return an error's message on one line, without the frames of a stack and places of C++."""
    message = " ".join(text.partition("Stack backtrace:")[0].split())
    return re.sub(r"(Exception from \S+ )|(Check '.*?' failed at \S+ )", "", message)[:300]


def read_results(folder: Path) -> list[np.ndarray]:
    """Read the results that a script wrote, in the order of the outputs."""
    return [
        np.frombuffer((folder / item["file"]).read_bytes(), np.dtype(item["type"])).reshape(
            item["dims"]
        )
        for item in json.loads((folder / "results.json").read_text())
    ]

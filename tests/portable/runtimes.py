"""The runtimes of others: their packages, and a run of a model in a process of its own.

The packages lie in build/portable, which nothing else reads.
"""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from examples.web import RUNTIME, install_packages

HERE = Path(__file__).resolve().parent
FOLDER = HERE.parents[1] / "build" / "portable"
SECONDS = 300


@dataclass(frozen=True)
class Runtime:
    """A runtime and its packages with versions; `is_node` says that they are node's."""

    name: str
    packages: tuple[str, ...]
    is_node: bool = False


RUNTIMES = (
    Runtime("openvino", ("openvino==2026.4.1", "openvino-telemetry==2025.2.0")),
    Runtime("tract", ("tract==0.23.9",)),
    Runtime("onnxruntime-web", RUNTIME, is_node=True),
)


class RuntimeFailure(Exception):
    """A runtime cannot load or run a model."""


def install(runtime: Runtime) -> None:
    """Install the packages of a runtime, unless exactly these are installed."""
    target = FOLDER / runtime.name
    if runtime.is_node:
        install_packages(target, runtime.packages)
        return
    stamp = target / "packages.txt"
    if stamp.exists() and stamp.read_text() == "\n".join(runtime.packages):
        return
    target.mkdir(parents=True, exist_ok=True)
    pip = [sys.executable, "-m", "pip", "install", "--quiet", "--upgrade", "--no-deps"]
    subprocess.run([*pip, "--target", str(target), *runtime.packages], check=True)
    stamp.write_text("\n".join(runtime.packages))


def run_model(runtime: Runtime, folder: Path, inputs: Mapping[str, np.ndarray]) -> list[np.ndarray]:
    """Run `folder`/model.onnx and return its results.

    Raises:
        RuntimeFailure: the runtime fails; the message is its own.
    """
    for path in [*folder.glob("result*"), *folder.glob("input*")]:
        path.unlink()
    write_inputs(folder, inputs)
    target = FOLDER / runtime.name
    script = HERE / ("run_web.js" if runtime.is_node else "run_python.py")
    program = ["node", script] if runtime.is_node else [sys.executable, script, runtime.name]
    variable = "NODE_PATH" if runtime.is_node else "PYTHONPATH"
    location = target / "node_modules" if runtime.is_node else target
    try:
        process = subprocess.run(
            [*program, folder],
            env={**os.environ, variable: str(location)},
            capture_output=True,
            text=True,
            timeout=SECONDS,
            check=False,
        )
    except subprocess.TimeoutExpired:
        raise RuntimeFailure(f"no result after {SECONDS} s") from None
    if process.returncode != 0:
        raise RuntimeFailure(error_text(process.stderr) or f"exit status {process.returncode}")
    return read_results(folder)


def error_text(text: str) -> str:
    """Return the message of the last error that a script printed, on one line."""
    message = re.split(r"\w*Error: ", text)[-1].partition("Stack backtrace:")[0]
    return " ".join(message.split())[:300]


def write_inputs(folder: Path, inputs: Mapping[str, np.ndarray]) -> None:
    """Write inputs as numpy's file, and as JSON with a file of bytes for each."""
    np.savez(folder / "inputs.npz", **inputs)
    listed = []
    for index, (name, array) in enumerate(inputs.items()):
        file = f"input{index}.bin"
        (folder / file).write_bytes(np.ascontiguousarray(array).tobytes())
        listed.append({"name": name, "type": array.dtype.name, "dims": array.shape, "file": file})
    (folder / "inputs.json").write_text(json.dumps(listed))


def read_results(folder: Path) -> list[np.ndarray]:
    """Read the results that a script wrote, in the order of the outputs."""
    if (folder / "results.npz").exists():
        with np.load(folder / "results.npz") as arrays:
            return [arrays[f"arr_{index}"] for index in range(len(arrays.files))]
    return [
        np.frombuffer((folder / item["file"]).read_bytes(), item["type"]).reshape(item["dims"])
        for item in json.loads((folder / "results.json").read_text())
    ]

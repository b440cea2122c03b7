"""Run a model: python run_python.py RUNTIME FOLDER, which has model.onnx and inputs.npz."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from pathlib import Path

import numpy as np

Arrays = Mapping[str, np.ndarray]


def run_openvino(path: Path, inputs: Arrays) -> list[np.ndarray]:
    import openvino

    compiled = openvino.Core().compile_model(path, "CPU", {"INFERENCE_PRECISION_HINT": "f32"})
    results = compiled.create_infer_request().infer(dict(inputs))
    return [np.asarray(results[port]) for port in compiled.outputs]


def run_tract(path: Path, inputs: Arrays) -> list[np.ndarray]:
    import tract

    model = tract.onnx().load(path)
    names = [model.input_name(index) for index in range(model.input_count())]
    results = model.into_model().into_runnable().run([inputs[name] for name in names])
    return [result.to_numpy() for result in results]


if __name__ == "__main__":
    run = {"openvino": run_openvino, "tract": run_tract}[sys.argv[1]]
    folder = Path(sys.argv[2])
    np.savez(folder / "results.npz", *run(folder / "model.onnx", np.load(folder / "inputs.npz")))

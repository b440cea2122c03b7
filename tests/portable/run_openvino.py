"""Run a model with OpenVINO: python run_openvino.py FOLDER, which has model.onnx and inputs.npz."""

from __future__ import annotations

import sys
from pathlib import Path

import numpy as np
import openvino


def main(folder: Path) -> None:
    core = openvino.Core()
    model = core.read_model(folder / "model.onnx")
    compiled = core.compile_model(model, "CPU", {"INFERENCE_PRECISION_HINT": "f32"})
    inputs = dict(np.load(folder / "inputs.npz"))
    results = compiled.create_infer_request().infer(inputs)
    np.savez(folder / "results.npz", *(np.asarray(results[port]) for port in compiled.outputs))


if __name__ == "__main__":
    main(Path(sys.argv[1]))

"""Run a model with tract: python run_tract.py FOLDER, which has model.onnx and inputs.npz."""

from __future__ import annotations

import sys
from pathlib import Path

import numpy as np
import tract


def main(folder: Path) -> None:
    model = tract.onnx().load(folder / "model.onnx")
    inputs = dict(np.load(folder / "inputs.npz"))
    names = [model.input_name(index) for index in range(model.input_count())]
    runnable = model.into_model().into_runnable()
    results = runnable.run([inputs[name] for name in names])
    np.savez(folder / "results.npz", *(result.to_numpy() for result in results))


if __name__ == "__main__":
    main(Path(sys.argv[1]))

"""The program of a process of its own that runs a model on a call with empty tensors, since some
kernels of ONNX Runtime end the process on those. In comes a folder with a model and feeds, out go
lines and a file of results. runners.py starts it, by its path: it imports neither torch nor the
rest of ortable, so that it starts at once."""

from __future__ import annotations

import sys

import numpy as np
import onnxruntime


def main(folder: str) -> None:
    """Say ``ready`` when the model is loaded; then ``done``, with ``found.npz`` written of
    ``feeds.npz``, or the first line of the error."""
    options = onnxruntime.SessionOptions()
    options.log_severity_level = 4
    model = f"{folder}/model.onnx"
    session = onnxruntime.InferenceSession(model, options, providers=["CPUExecutionProvider"])
    print("ready", flush=True)
    with np.load(f"{folder}/feeds.npz") as held:
        feeds = {str(name): held[f"feed{i}"] for i, name in enumerate(held["names"])}
    try:
        found = session.run(None, feeds)
    except Exception as error:  # onnxruntime's classes derive from Exception only
        print((str(error).splitlines() or [""])[0] or type(error).__name__)
        return
    np.savez(f"{folder}/found.npz", **{f"value{index}": each for index, each in enumerate(found)})
    print("done")


if __name__ == "__main__":
    main(sys.argv[1])

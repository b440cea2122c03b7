"""Run a model on calls with empty tensors, which crash some kernels of ONNX Runtime.

subprocess_runner.py starts this file by path as a subprocess. It imports neither torch nor ortable,
so that the subprocess starts fast.
"""

from __future__ import annotations

import sys

import numpy as np
import onnxruntime


def main(model: str) -> None:
    """Load the model, print ``ready``, and run it on each file whose path is a line of stdin.

    The outputs for ``1.npz`` are written to ``1.npz.out.npz``. The answer to each line is ``done``,
    or ``raised`` with the first line of the error.
    """
    options = onnxruntime.SessionOptions()
    options.log_severity_level = 4
    session = onnxruntime.InferenceSession(model, options, providers=["CPUExecutionProvider"])
    names = [output.name for output in session.get_outputs()]
    print("ready", flush=True)
    for line in sys.stdin:
        path = line.strip()
        try:
            with np.load(path) as archive:
                feeds = {str(name): archive[f"feed{i}"] for i, name in enumerate(archive["names"])}
            results = session.run(names, feeds)
            values = {f"value{index}": value for index, value in enumerate(results)}
            np.savez(f"{path}.out.npz", **values)
        except Exception as error:  # onnxruntime's classes derive from Exception only
            print("raised", (str(error).splitlines() or [""])[0], flush=True)
        else:
            print("done", flush=True)


if __name__ == "__main__":
    main(sys.argv[1])

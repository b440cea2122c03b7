"""The program of a process of its own that runs a model on calls with empty tensors, since some
kernels of ONNX Runtime end the process on those. In come the path of a model on the command line
and names of files on the input, one a line; out go files and a line for each. apart.py starts it,
by its path: it imports neither torch nor the rest of ortable, so that it starts at once."""

from __future__ import annotations

import sys

import numpy as np
import onnxruntime


def main(model: str) -> None:
    """Answers ``ready``; then for each line ``feeds.npz`` writes ``feeds.npz.out.npz`` and answers
    ``done``, or ``raised`` with the first line of the error."""
    options = onnxruntime.SessionOptions()
    options.log_severity_level = 4
    session = onnxruntime.InferenceSession(model, options, providers=["CPUExecutionProvider"])
    names = [each.name for each in session.get_outputs()]
    print("ready", flush=True)
    for line in sys.stdin:
        path = line.strip()
        try:
            with np.load(path) as held:
                feeds = {str(name): held[f"feed{i}"] for i, name in enumerate(held["names"])}
            found = session.run(names, feeds)
            values = {f"value{index}": value for index, value in enumerate(found)}
            np.savez(f"{path}.out.npz", **values)
        except Exception as error:  # onnxruntime's classes derive from Exception only
            print("raised", (str(error).splitlines() or [""])[0], flush=True)
        else:
            print("done", flush=True)


if __name__ == "__main__":
    main(sys.argv[1])

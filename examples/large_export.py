"""Export a model with more weights than protobuf's limit of 2 GiB, without copying them in memory.

    python examples/large_export.py                  # 50 MB, takes a second
    python examples/large_export.py --gigabytes 3    # needs 3 GB of memory, and 3 GB of disk space

You learn ``large_model=True``: the graph becomes a small file, and the weights are written to a
second file, piece by piece, from torch's memory. The script prints the memory that the export
needed besides the weights, which does not grow with them, and runs the files with ONNX Runtime.

Weights are random. Exits with status 1 if the result differs from eager's.
"""

from __future__ import annotations

import argparse
import resource
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path

import onnxruntime
import torch

import ortable

WIDTH = 1024


def make_model(gigabytes: float) -> torch.nn.Module:
    """Make linear layers of 4 MB each, with this size in total."""
    torch.manual_seed(0)
    count = max(1, round(gigabytes * 1e9 / (4 * WIDTH * WIDTH)))
    model = torch.nn.Sequential()
    for _ in range(count):
        model.append(torch.nn.Linear(WIDTH, WIDTH)).append(torch.nn.Tanh())
    return model.eval()


def get_peak() -> float:
    """Return the peak memory of this process, in megabytes."""
    size = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return size / (1e6 if sys.platform == "darwin" else 1e3)


def main(arguments: Sequence[str] | None = None) -> int:
    """Export, list the files, and run them; return 0 if the result equals eager's."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n")[0])
    parser.add_argument("--gigabytes", type=float, default=0.05, help="size of the weights")
    options = parser.parse_args(arguments)
    x = torch.randn(2, WIDTH)
    with tempfile.TemporaryDirectory() as folder:
        # a small export first, so that memory of Python, torch and ortable does not count
        ortable.to_onnx(make_model(0), (x,), large_model=True, filename=Path(folder, "first.onnx"))
        model = make_model(options.gigabytes)
        weights = sum(p.numel() * p.element_size() for p in model.parameters()) / 1e6
        with torch.no_grad():
            expected = model(x)
        before = get_peak()
        path = Path(folder, "model.onnx")
        ortable.to_onnx(model, (x,), large_model=True, filename=path)
        print(f"weights: {weights:.0f} MB")
        print(f"additional memory of the export: {get_peak() - before:.0f} MB")
        for file in sorted(Path(folder).glob("model.onnx*")):
            print(f"{file.name}: {file.stat().st_size / 1e6:.2f} MB")
        session = onnxruntime.InferenceSession(path, providers=["CPUExecutionProvider"])
        (result,) = session.run(None, {session.get_inputs()[0].name: x.numpy()})
    difference = float((torch.from_numpy(result) - expected).abs().max())
    print(f"ONNX Runtime, from the files: largest difference from eager {difference:.1e}")
    return int(difference > 1e-4)


if __name__ == "__main__":
    sys.exit(main())

"""Exports a model whose weights are larger than protobuf's 2 GiB, without a second copy of them.

    python examples/large_export.py                  # 50 MB, a second
    python examples/large_export.py --gigabytes 3    # needs 3 GB of memory, and of disk

You learn ``large_model=True``: the graph is a small file, the weights are written beside it piece
by piece from torch's own memory. The script prints how much memory the export took beyond the
weights, which does not grow with them, and runs the files with ONNX Runtime.

Weights are random. Ends with status 1 when the result differs from eager's.
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


def tower(gigabytes: float) -> torch.nn.Module:
    """Linear layers of 4 MB each, as many as it takes."""
    torch.manual_seed(0)
    layers = max(1, round(gigabytes * 1e9 / (4 * WIDTH * WIDTH)))
    model = torch.nn.Sequential()
    for _ in range(layers):
        model.append(torch.nn.Linear(WIDTH, WIDTH)).append(torch.nn.Tanh())
    return model.eval()


def peak() -> float:
    """The largest memory of this process so far, in megabytes."""
    found = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return found / (1e6 if sys.platform == "darwin" else 1e3)


def main(arguments: Sequence[str] | None = None) -> int:
    """Export, look at the files, run them; 0 when the result equals eager's."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n")[0])
    parser.add_argument("--gigabytes", type=float, default=0.05, help="size of the weights")
    options = parser.parse_args(arguments)
    x = torch.randn(2, WIDTH)
    with tempfile.TemporaryDirectory() as folder:
        # a first small export: what Python, torch and ortable themselves need is not the model's
        ortable.to_onnx(tower(0), (x,), large_model=True, filename=Path(folder, "first.onnx"))
        model = tower(options.gigabytes)
        weights = sum(p.numel() * p.element_size() for p in model.parameters()) / 1e6
        with torch.no_grad():
            expected = model(x)
        before = peak()
        path = Path(folder, "model.onnx")
        ortable.to_onnx(model, (x,), large_model=True, filename=path)
        print(f"weights: {weights:.0f} MB")
        print(f"memory beyond what the process had with them: {peak() - before:.0f} MB")
        for file in sorted(Path(folder).glob("model.onnx*")):
            print(f"{file.name}: {file.stat().st_size / 1e6:.2f} MB")
        session = onnxruntime.InferenceSession(path, providers=["CPUExecutionProvider"])
        (found,) = session.run(None, {session.get_inputs()[0].name: x.numpy()})
    difference = float((torch.from_numpy(found) - expected).abs().max())
    print(f"ONNX Runtime, from the files: largest difference from eager {difference:.1e}")
    return int(difference > 1e-4)


if __name__ == "__main__":
    sys.exit(main())

"""Steps of benchmarks.large_model: measure the export and its memory, then run the file.

Only the export imports torch and ortable, so that the run does not have them in memory.
"""

from __future__ import annotations

import argparse
import gc
import re
import time
from pathlib import Path
from typing import Any

VOCABULARY = 512
STATUS_FILE = Path("/proc/self/status")


def build(megabytes: int, width: int) -> Any:
    """Build square layers between a tied embedding and head; every fourth weight is transposed."""
    import torch

    class Layers(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            count = max(4, round((megabytes * 1e6 - VOCABULARY * width * 4) / (width * width * 4)))
            self.embedding = torch.nn.Embedding(VOCABULARY, width)
            self.layers = torch.nn.ModuleList(
                torch.nn.Linear(width, width, bias=False, device="meta") for _ in range(count)
            )
            for index, layer in enumerate(self.layers):
                weight = torch.empty(width, width).uniform_(-1, 1).mul_(width**-0.5)
                layer.weight = torch.nn.Parameter(weight.t() if index % 4 == 3 else weight)
            self.head = torch.nn.Linear(width, VOCABULARY, bias=False, device="meta")
            self.head.weight = self.embedding.weight

        def forward(self, tokens: torch.Tensor) -> torch.Tensor:
            x = self.embedding(tokens)
            for layer in self.layers:
                x = x + torch.tanh(layer(x))
            return self.head(x)

    torch.manual_seed(0)
    return Layers().eval()


def read_status(key: str) -> int:
    """Return the bytes of an entry of /proc/self/status."""
    match = re.search(rf"^{key}:\s+(\d+) kB$", STATUS_FILE.read_text(), re.MULTILINE)
    assert match is not None
    return int(match[1]) * 1024


def export_step(folder: Path, options: argparse.Namespace) -> dict[str, float]:
    """Export in this process; write the model, the example input and eager's result."""
    import numpy as np
    import torch

    import ortable

    tokens = torch.arange(6).reshape(2, 3)
    dims = {"tokens": {0: "batch", 1: "length"}}
    ortable.to_onnx(
        build(1, 128), (tokens,), dynamic_shapes=dims, filename=folder / "warm.onnx",
        large_model=True,
    )  # fmt: skip
    module = build(options.megabytes, options.width)
    with torch.no_grad():
        expected = module(tokens)
    np.savez(folder / "example.npz", tokens=tokens.numpy(), expected=expected.numpy())
    weights = sum(p.numel() * p.element_size() for p in module.parameters())
    gc.collect()
    Path("/proc/self/clear_refs").write_text("5")  # resets the peak
    before = read_status("VmRSS")
    start = time.perf_counter()
    model = ortable.to_onnx(
        module, (tokens,), dynamic_shapes=dims, large_model=True, verbose=options.verbose
    )
    converted = time.perf_counter()
    model.save(folder / "model.onnx", max_shard_bytes=options.shard_bytes)
    saved = time.perf_counter()
    return {
        "weights": weights,
        "extra": read_status("VmHWM") - before,
        "convert_s": converted - start,
        "save_s": saved - converted,
        "files": len(list(folder.glob("model.onnx*"))),
    }


def run_step(folder: Path, options: argparse.Namespace) -> dict[str, float]:
    """Check the file, load it in ONNX Runtime, run it, and compare it with eager's result."""
    import numpy as np
    import onnx
    import onnxruntime

    path = folder / "model.onnx"
    onnx.checker.check_model(path)
    example = np.load(folder / "example.npz")
    start = time.perf_counter()
    session = onnxruntime.InferenceSession(path, providers=["CPUExecutionProvider"])
    loaded = time.perf_counter()
    (result,) = session.run(None, {"tokens": example["tokens"]})
    expected = example["expected"]
    assert result.dtype == expected.dtype and result.shape == expected.shape
    difference = float(np.abs(result - expected).max() / np.abs(expected).max())
    return {"load_s": loaded - start, "difference": difference, "peak": read_status("VmHWM")}


STEPS = {"export": export_step, "run": run_step}

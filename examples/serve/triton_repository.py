"""Writes a model in the folders that Triton Inference Server loads, and answers as it would.

    python examples/serve/triton_repository.py --folder models
    docker run --rm -p 8000:8000 -v $PWD/models:/models nvcr.io/nvidia/tritonserver:<version>-py3 \\
        tritonserver --model-repository /models

You learn what a server needs from an export: fixed names of inputs and outputs, a batch of free
size, and a configuration that says so. With dynamic batching Triton puts requests that arrive
together into one call; the script does the same with ONNX Runtime, the engine that Triton runs the
file with, and shows that each caller gets the answer of a call alone.

Weights are random. Ends with status 1 when an answer differs from eager's.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import onnx
import onnxruntime
import torch
from torch import nn

import ortable

NAME, LARGEST_BATCH = "classifier", 32
# Triton's name for each of ONNX's types that it knows; the names of integers are the same.
TYPES = {
    onnx.TensorProto.DataType.Value(name): f"TYPE_{theirs}"
    for name, theirs in (
        *((f"{sign}INT{bits}",) * 2 for sign in ("", "U") for bits in (8, 16, 32, 64)),
        ("BOOL", "BOOL"),
        ("FLOAT16", "FP16"),
        ("BFLOAT16", "BF16"),
        ("FLOAT", "FP32"),
        ("DOUBLE", "FP64"),
        ("STRING", "STRING"),
    )
}


def classifier() -> nn.Module:
    """A small network in place of yours."""
    torch.manual_seed(0)
    layers = (nn.Linear(16, 64), nn.GELU(), nn.LayerNorm(64), nn.Linear(64, 4), nn.Softmax(-1))
    return nn.Sequential(*layers).eval()


def tensors(values: Sequence[onnx.ValueInfoProto]) -> str:
    """Entries of config.pbtxt. The batch is not among their dims: ``max_batch_size`` stands for it,
    so each value must have it, and of free size. A value of one number a row has to have a size
    there, which `reshape` takes away again."""
    entries = []
    for value in values:
        batch, *rest = value.type.tensor_type.shape.dim or [None]
        if batch is None or not batch.dim_param:
            raise ValueError(f"{value.name} has no batch of free size: declare it in the export")
        dims = ", ".join(str(d.dim_value or -1) for d in rest) or "1"
        kind = TYPES[value.type.tensor_type.elem_type]
        reshape = "" if rest else " reshape { shape: [ ] }"
        entries.append(f'  {{ name: "{value.name}" data_type: {kind} dims: [ {dims} ]{reshape} }}')
    return ",\n".join(entries)


def config(model: onnx.ModelProto) -> str:
    """config.pbtxt, from the model's own inputs and outputs."""
    return f"""name: "{NAME}"
backend: "onnxruntime"
max_batch_size: {LARGEST_BATCH}
input [
{tensors(model.graph.input)}
]
output [
{tensors(model.graph.output)}
]
dynamic_batching {{
  preferred_batch_size: [ 8, {LARGEST_BATCH} ]
  max_queue_delay_microseconds: 500
}}
"""


def write(folder: Path, external_data: bool | None = None) -> Path:
    """The repository: <folder>/classifier/config.pbtxt and 1/model.onnx, with 1/model.onnx.data
    beside it where the weights are large, or ``external_data`` asks for it; the model's path."""
    path = folder / NAME / "1" / "model.onnx"  # 1 is the version
    path.parent.mkdir(parents=True, exist_ok=True)
    program = ortable.export(
        classifier(),
        (torch.randn(2, 16),),
        dynamic_shapes=({0: torch.export.Dim("batch", max=LARGEST_BATCH)},),
        input_names=["features"],
        output_names=["probabilities"],
    )
    program.validate().check()  # equal to eager, at other batch sizes too
    program.save(path, external_data=external_data)
    graph = onnx.load(path, load_external_data=False)
    (folder / NAME / "config.pbtxt").write_text(config(graph))
    return path


def answer_together(path: Path, requests: Sequence[torch.Tensor]) -> list[np.ndarray]:
    """One call for all requests, and each one's rows of the result."""
    session = onnxruntime.InferenceSession(path, providers=["CPUExecutionProvider"])
    joined = np.concatenate([request.numpy() for request in requests])
    (rows,) = session.run(["probabilities"], {"features": joined})
    return np.split(rows, np.cumsum([len(request) for request in requests])[:-1])


def show(folder: Path, path: Path) -> float:
    """The files, and requests answered together; the largest difference from eager."""
    for file in sorted(file for file in folder.rglob("*") if file.is_file()):
        print(f"{file.relative_to(folder)}: {file.stat().st_size} bytes")
    print("\n" + (folder / NAME / "config.pbtxt").read_text())

    requests = [torch.randn(rows, 16) for rows in (1, 3, 1, 2)]
    answers = answer_together(path, requests)
    with torch.no_grad():
        alone = [classifier()(request).numpy() for request in requests]
    largest = max(float(abs(a - b).max()) for a, b in zip(answers, alone, strict=True))
    print(f"{len(requests)} requests in one batch of {sum(map(len, requests))}:")
    print(f"largest difference from eager, each alone: {largest:.1e}")
    return largest


def main(arguments: Sequence[str] | None = None) -> int:
    """Writes, prints and tries the repository; 0 when all answers equal eager's."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n")[0])
    parser.add_argument("--folder", type=Path, help="where to write (default: nothing is kept)")
    given = parser.parse_args(arguments).folder
    with tempfile.TemporaryDirectory() as temporary:
        folder = given or Path(temporary)
        largest = show(folder, write(folder))
    return int(largest > 1e-5)


if __name__ == "__main__":
    sys.exit(main())

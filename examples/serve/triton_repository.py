"""Write a model repository for Triton Inference Server, and run batched requests as it would.

    python examples/serve/triton_repository.py --folder models
    docker run --rm -p 8000:8000 -v $PWD/models:/models nvcr.io/nvidia/tritonserver:<version>-py3 \\
        tritonserver --model-repository /models

You learn what a server needs from an export: fixed names of inputs and outputs, a dynamic batch,
and a configuration that declares both. With dynamic batching, Triton joins concurrent requests into
one call. The script does the same with ONNX Runtime, which Triton uses to run the file, and shows
that each request gets the same answer as in a separate call.

Weights are random. Exits with status 1 if an answer differs from eager's.
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
# Triton's names of ONNX's types; only those of integers are the same in both.
TYPES = {
    onnx.TensorProto.DataType.Value(name): f"TYPE_{triton_name}"
    for name, triton_name in (
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
    """Build a small network in place of yours."""
    torch.manual_seed(0)
    layers = (nn.Linear(16, 64), nn.GELU(), nn.LayerNorm(64), nn.Linear(64, 4), nn.Softmax(-1))
    return nn.Sequential(*layers).eval()


def tensors(values: Sequence[onnx.ValueInfoProto]) -> str:
    """Format inputs or outputs for config.pbtxt.

    Each value must have a dynamic batch, which ``max_batch_size`` replaces in the dims. Dims must
    not be empty: a scalar per row has dims of 1, which ``reshape`` removes.
    """
    entries = []
    for value in values:
        batch, *other_dims = value.type.tensor_type.shape.dim or [None]
        if batch is None or not batch.dim_param:
            raise ValueError(f"{value.name} has no batch of free size: declare it in the export")
        dims = ", ".join(str(d.dim_value or -1) for d in other_dims) or "1"
        kind = TYPES[value.type.tensor_type.elem_type]
        reshape = "" if other_dims else " reshape { shape: [ ] }"
        entries.append(f'  {{ name: "{value.name}" data_type: {kind} dims: [ {dims} ]{reshape} }}')
    return ",\n".join(entries)


def config(model: onnx.ModelProto) -> str:
    """Format config.pbtxt from the inputs and outputs of the model."""
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
    """Write <folder>/classifier/config.pbtxt and 1/model.onnx, and return the path of the model.

    Large weights, or any with ``external_data``, are written to 1/model.onnx.data.
    """
    path = folder / NAME / "1" / "model.onnx"  # 1 is the version
    path.parent.mkdir(parents=True, exist_ok=True)
    program = ortable.export(
        classifier(),
        (torch.randn(2, 16),),
        dynamic_shapes=({0: torch.export.Dim("batch", max=LARGEST_BATCH)},),
        input_names=["features"],
        output_names=["probabilities"],
    )
    program.validate().check()  # equal to eager, also at other batch sizes
    program.save(path, external_data=external_data)
    graph = onnx.load(path, load_external_data=False)
    (folder / NAME / "config.pbtxt").write_text(config(graph), encoding="utf-8")
    return path


def answer_together(path: Path, requests: Sequence[torch.Tensor]) -> list[np.ndarray]:
    """Run all requests in one call, and return the results of each request."""
    session = onnxruntime.InferenceSession(path, providers=["CPUExecutionProvider"])
    batch = np.concatenate([request.numpy() for request in requests])
    (rows,) = session.run(["probabilities"], {"features": batch})
    return np.split(rows, np.cumsum([len(request) for request in requests])[:-1])


def show(folder: Path, path: Path) -> float:
    """Print the files, run requests in one batch, and return the largest difference from eager."""
    for file in sorted(file for file in folder.rglob("*") if file.is_file()):
        print(f"{file.relative_to(folder)}: {file.stat().st_size} bytes")
    print("\n" + (folder / NAME / "config.pbtxt").read_text(encoding="utf-8"))

    requests = [torch.randn(rows, 16) for rows in (1, 3, 1, 2)]
    answers = answer_together(path, requests)
    with torch.no_grad():
        expected = [classifier()(request).numpy() for request in requests]
    largest = max(float(abs(a - b).max()) for a, b in zip(answers, expected, strict=True))
    print(f"{len(requests)} requests in one batch of {sum(map(len, requests))}:")
    print(f"largest difference from eager, each alone: {largest:.1e}")
    return largest


def main(arguments: Sequence[str] | None = None) -> int:
    """Write, print and test the repository; return 0 if all answers equal eager's."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n")[0])
    parser.add_argument("--folder", type=Path, help="folder to write to; default: a temporary one")
    chosen_folder = parser.parse_args(arguments).folder
    with tempfile.TemporaryDirectory() as temporary:
        folder = chosen_folder or Path(temporary)
        largest = show(folder, write(folder))
    return int(largest > 1e-5)


if __name__ == "__main__":
    sys.exit(main())

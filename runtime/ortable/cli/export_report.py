"""What `ortable export` says of the model that it wrote, as text and as JSON. In come the model,
its builder and its path, out goes a dict whose entry ``text`` is the lines to print."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any


def report_of(made: Any, builder: Any, output: str) -> dict[str, Any]:
    """Everything that is known about an exported model.

    Args:
        made: a ModelProto or LargeModel.
        builder: what to_onnx returns with it.
        output: where the model was written.
    """
    from ortable.debug.rewrites_text import fired_lines, summary

    proto = getattr(made, "proto", made)
    record = builder.record
    rewrites = record.rewrites.counts()
    about = f"{len(builder.nodes)} nodes, opset {builder.opset}, {summary(rewrites)}"
    lines = [f"wrote {output}: {about}", *(f"  {line}" for line in fired_lines(rewrites, proto))]
    if record.weights is not None:
        lines += [f"  {line}".rstrip() for line in str(record.weights).splitlines()]
    return {
        "model": output,
        "files": file_sizes([output, f"{output}.data"]),
        "opset": builder.opset,
        "nodes": len(builder.nodes),
        "inputs": described_values(proto.graph.input),
        "outputs": described_values(proto.graph.output),
        "strategy": record.strategy,
        "seconds": dict(record.seconds),
        "rewrites": dict(rewrites),
        "guards": [guard.short() for guard in record.guards],
        "largest_difference": largest_difference(record.comparisons),
        "comparisons": [_compared(each) for each in record.comparisons],
        "text": lines,
    }


def largest_difference(comparisons: Iterable[Any]) -> float | None:
    """The largest difference from eager in any call; None where nothing was compared."""
    gaps = [each.largest for each in comparisons if each.largest is not None]
    return max(gaps, default=None)


def _compared(each: Any) -> dict[str, Any]:
    gap = each.largest
    return {
        "inputs": each.inputs,
        "output": each.output,
        "dtype": each.dtype,
        "shape": each.shape,
        "largest_difference": gap if gap is None or math.isfinite(gap) else str(gap),
        "problem": each.problem,
    }


def described_values(values: Iterable[Any]) -> list[dict[str, Any]]:
    """Name, type and shape of inputs or outputs of a graph; a free dimension has its name."""
    from ortable import dtypes

    found = []
    for value in values:
        tensor = value.type.tensor_type
        shape = [dim.dim_param or dim.dim_value for dim in tensor.shape.dim]
        found.append({"name": value.name, "type": dtypes.name(tensor.elem_type), "shape": shape})
    return found


def file_sizes(paths: Sequence[str | Path]) -> dict[str, int]:
    """Bytes of the files that are there."""
    return {str(path): Path(path).stat().st_size for path in paths if Path(path).is_file()}


def shown_inputs(found: dict[str, Any]) -> str:
    """``input_ids [2, 8], attention_mask [2, 8]``."""
    return ", ".join(f"{each['name']} {each['shape']}" for each in found["inputs"])

"""What `ortable export` says of the model that it wrote, as text and as JSON. In come the model,
its builder and its path, out goes a dict whose entry ``text`` is the lines to print."""

from __future__ import annotations

from collections.abc import Sequence
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
    from ortable.exporter.account.report import facts_of

    record = builder.record
    facts = facts_of(record, made)
    rewrites = facts["rewrites"]
    about = f"{facts['nodes']} nodes, opset {facts['opset']}, {summary(rewrites)}"
    fired = fired_lines(rewrites, getattr(made, "proto", made))
    lines = [f"wrote {output}: {about}", *(f"  {line}" for line in fired)]
    if record.weights is not None:
        lines += [f"  {line}".rstrip() for line in str(record.weights).splitlines()]
    files = file_sizes([output, f"{output}.data"])
    return {"model": output, "files": files, **facts, "text": lines}


def file_sizes(paths: Sequence[str | Path]) -> dict[str, int]:
    """Bytes of the files that are there."""
    return {str(path): Path(path).stat().st_size for path in paths if Path(path).is_file()}


def shown_inputs(found: dict[str, Any]) -> str:
    """``input_ids [2, 8], attention_mask [2, 8]``."""
    return ", ".join(f"{each['name']} {each['shape']}" for each in found["inputs"])

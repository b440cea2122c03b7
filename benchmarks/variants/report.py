"""Markdown report of benchmarks.variants."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from benchmarks.report import made_of, number, percent, table

from .layers import LAYERS

_COMPARED = {"eager": "of eager", "torch.onnx": "of torch.onnx", "operator": "of ONNX Runtime's"}
_MAX_DIFFERENCE = 1e-3  # more than rounding


def markdown(run: Mapping[str, Any]) -> str:
    """Format the report of one run: a row for each layer, then failures and wrong results."""
    header = [
        "layer", "is", "eager, ms", "compiled, ms", "session, ms", *_COMPARED.values(), "band",
        "kernels of ONNX Runtime",
    ]  # fmt: skip
    rows = [
        [
            record["layer"],
            LAYERS[record["layer"]].description,
            *(number(record["ms"].get(name), 2) for name in ("eager", "ortable", "our session")),
            *(number(record["ratio"].get(name), 2) for name in _COMPARED),
            "-" if record["band"] is None else percent(record["band"]),
            ", ".join(record["kernels"]) or "-",
        ]
        for record in run["layers"]
    ]
    failed = [
        f"- `{record['layer']}`, {name}: {error}"
        for record in run["layers"]
        for name, error in record["failed"].items()
    ]
    failed += [f"- `{record['layer']}`: {record['failed']}" for record in run["failed"]]
    failed += [
        f"- `{record['layer']}`, {name}: another result, off by {diff:.2g} of the largest value"
        for record in run["layers"]
        for name, diff in record["differences"].items()
        if diff > _MAX_DIFFERENCE
    ]
    parts = [made_of(run), f"{run['machine']}.", table(header, rows)]
    return "\n\n".join([*parts, "\n".join(failed)] if failed else parts)

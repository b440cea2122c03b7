"""The table of benchmarks.variants, in Markdown."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from benchmarks.report import made_of, number, percent, table

from .layers import LAYERS

_OTHERS = {"eager": "of eager", "torch.onnx": "of torch.onnx", "operator": "of ONNX Runtime's"}
_WRONG = 1e-3  # more than rounding


def markdown(run: Mapping[str, Any]) -> str:
    """The page of one run: a row for each layer, what has no figures, and wrong results."""
    head = [
        "layer", "is", "eager, ms", "compiled, ms", "session, ms", *_OTHERS.values(), "band",
        "kernels of ONNX Runtime",
    ]  # fmt: skip
    rows = [
        [
            each["layer"],
            LAYERS[each["layer"]].what,
            *(number(each["ms"].get(name), 2) for name in ("eager", "ortable", "our session")),
            *(number(each["ratio"].get(name), 2) for name in _OTHERS),
            "-" if each["band"] is None else percent(each["band"]),
            ", ".join(each["kernels"]) or "-",
        ]
        for each in run["layers"]
    ]
    failed = [
        f"- `{each['layer']}`, {name}: {why}"
        for each in run["layers"]
        for name, why in each["failed"].items()
    ]
    failed += [f"- `{each['layer']}`: {each['failed']}" for each in run["failed"]]
    failed += [
        f"- `{each['layer']}`, {name}: another result, off by {gap:.2g} of the largest value"
        for each in run["layers"]
        for name, gap in each["differences"].items()
        if gap > _WRONG
    ]
    parts = [made_of(run), f"{run['machine']}.", table(head, rows)]
    return "\n\n".join([*parts, "\n".join(failed)] if failed else parts)

"""Write the table of operators that torch's kernels run in compiled models, from measured rows."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import yaml

from ortable_generated.aten.traits import COMPUTE_BOUND, VIEW
from ortablegen.source.layout import format_yaml

TABLE = Path(__file__).parents[2] / "specs" / "runtime" / "operator_cost.yaml"

_CROSSING_MS = 0.15  # about what it costs to leave a session and to come back
# below the limits of the report (2 times, 0.3 ms), so that noise moves few calls above these
_MAX_RATIO = 1.8
_MIN_LOSS_MS = 0.25
_MIN_LOSS_MB = 100
_REPORTED = 10  # times torch's; reports of exports name calls above
_HEADER = """\
# Operators whose nodes take more than twice the time of torch's CPU kernel in ONNX Runtime, or far
# more memory, by the dtype of the first tensor; 'a to b' is the dtype of the result, too. `from`:
# in torch.compile torch runs a call whose largest argument has so many elements or more; a row
# without it says `why` ONNX Runtime runs the operator all the same. `ratio`: our time over torch's
# at the largest size, 999 at most; reports of exports name calls above 10. A row of '*' is for all
# operators that have none of that dtype. Written by `make bench TOPIC=op_cost ARGS=--place`, which
# keeps rows with a `why`.
"""


def is_costly(row: Mapping[str, Any]) -> bool:
    """Tell whether a call of a session takes about twice eager's time, or a multiple of its memory.

    Losses that a user cannot feel (a quarter of a millisecond, 100 MB) do not count.
    """
    if "session" not in row.get("ms", {}):  # it crashed, or took too long
        return "died" in row
    eager, session = row["ms"]["eager"], row["ms"]["session"]
    slower = session > _MAX_RATIO * eager and session - eager > _MIN_LOSS_MS
    used, taken = row["mb"]["eager"], row["mb"]["session"]
    return slower or (taken > 3 * used and taken - used > _MIN_LOSS_MB)


def choose_threshold(large: Mapping[str, Any], small: Mapping[str, Any] | None) -> int | None:
    """Return from how many elements on torch should run a call; None where it should not.

    The time that a call loses is taken as linear between the two measured sizes.
    """
    if not is_costly(large) or "eager" not in large.get("ms", {}):
        return None
    size, loss = large["elements"], _loss(large)
    smaller, little = 0, 0.0
    if small and "session" in small.get("ms", {}):
        smaller, little = small["elements"], _loss(small)
    if little >= _CROSSING_MS:
        return _round(smaller * _CROSSING_MS / little)
    if loss <= _CROSSING_MS:  # it is the memory that counts
        return _round(size / 4)
    share = (_CROSSING_MS - little) / (loss - little)
    return _round(smaller + share * (size - smaller))


def _loss(row: Mapping[str, Any]) -> float:
    return float(row["ms"].get("session", 1e3) - row["ms"]["eager"])


def _round(elements: float) -> int:
    """Round to two digits, so that another run changes few rows."""
    return int(float(f"{max(elements, 1):.1e}"))


def write_placement(rows: Mapping[str, Mapping[str, Any]], path: Path = TABLE) -> None:
    """Write the table that codegen reads, with the rows of it that give a reason as they are."""
    kept = [row for row in yaml.safe_load(path.read_text()) if "why" in row]
    reasoned = {(row["op"], row["dtype"].split()[0]) for row in kept}
    general = {row["dtype"]: row["from"] for row in kept if row["op"] == "*"}
    table = [*kept]
    for name, row in rows.items():
        operator, dtype, size = name.split()
        if size != "large" or (operator, dtype) in reasoned or operator in VIEW:
            continue
        if operator in COMPUTE_BOUND and dtype.startswith(("float", "bfloat")):
            continue  # sessions gain more around it
        threshold = choose_threshold(row, rows.get(f"{operator} {dtype} small"))
        if threshold is not None:
            ratio = row["ms"].get("session", float("inf")) / row["ms"]["eager"]
            if dtype in general and threshold > general[dtype] / 2 and ratio <= _REPORTED:
                continue
            table.append(
                {"op": operator, "dtype": dtype, "from": threshold, "ratio": round(min(ratio, 999))}
            )
    table.sort(key=lambda row: (row["op"], row["dtype"]))
    lines = [
        yaml.safe_dump(row, default_flow_style=True, sort_keys=False, width=1e9) for row in table
    ]
    path.write_text(format_yaml(_HEADER + "".join(f"- {line}" for line in lines)))

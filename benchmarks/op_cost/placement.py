"""Write the table of operators that torch's kernels run in compiled models, from measured rows."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import yaml

from ortable_generated.aten.traits import COMPUTE_BOUND, VIEW
from ortablegen.source.layout import format_yaml

TABLE = Path(__file__).parents[2] / "specs" / "runtime" / "operator_cost.yaml"

_TRANSITION_MS = 0.15  # approximate cost of leaving a session and returning to it
# slightly below the limits of the report (2 times, 0.3 ms), so that noise lifts few calls over them
_MAX_RATIO = 1.8
_MIN_LOSS_MS = 0.25
_MIN_LOSS_MB = 100
_REPORT_ABOVE = 10  # ratio; reports of exports list the calls above it
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
    """Return whether a session takes about twice eager's time, or three times its memory.

    Small losses (a quarter of a millisecond, 100 MB) do not count.
    """
    if "session" not in row.get("ms", {}):  # the session crashed or timed out
        return "died" in row
    eager, session = row["ms"]["eager"], row["ms"]["session"]
    is_slower = session > _MAX_RATIO * eager and session - eager > _MIN_LOSS_MS
    eager_mb, session_mb = row["mb"]["eager"], row["mb"]["session"]
    return is_slower or (session_mb > 3 * eager_mb and session_mb - eager_mb > _MIN_LOSS_MB)


def choose_threshold(large: Mapping[str, Any], small: Mapping[str, Any] | None) -> int | None:
    """Return the number of elements from which torch should run a call, or None.

    The lost time is interpolated linearly between the two measured sizes.
    """
    if not is_costly(large) or "eager" not in large.get("ms", {}):
        return None
    size, loss = large["elements"], _get_loss(large)
    small_size, small_loss = 0, 0.0
    if small and "session" in small.get("ms", {}):
        small_size, small_loss = small["elements"], _get_loss(small)
    if small_loss >= _TRANSITION_MS:
        return _round_to_two_digits(small_size * _TRANSITION_MS / small_loss)
    if loss <= _TRANSITION_MS:  # only the memory is too large
        return _round_to_two_digits(size / 4)
    share = (_TRANSITION_MS - small_loss) / (loss - small_loss)
    return _round_to_two_digits(small_size + share * (size - small_size))


def _get_loss(row: Mapping[str, Any]) -> float:
    return float(row["ms"].get("session", 1e3) - row["ms"]["eager"])


def _round_to_two_digits(elements: float) -> int:
    """Round to two digits, so that a new run changes few rows."""
    return int(float(f"{max(elements, 1):.1e}"))


def write_placement(rows: Mapping[str, Mapping[str, Any]], path: Path = TABLE) -> None:
    """Write the table that codegen reads; rows with a `why` stay unchanged."""
    explained_rows = [row for row in yaml.safe_load(path.read_text()) if "why" in row]
    explained_keys = {(row["op"], row["dtype"].split()[0]) for row in explained_rows}
    defaults = {row["dtype"]: row["from"] for row in explained_rows if row["op"] == "*"}
    table = [*explained_rows]
    for name, row in rows.items():
        operator, dtype, size = name.split()
        if size != "large" or (operator, dtype) in explained_keys or operator in VIEW:
            continue
        if operator in COMPUTE_BOUND and dtype.startswith(("float", "bfloat")):
            continue  # a session gains more from the nodes around it
        threshold = choose_threshold(row, rows.get(f"{operator} {dtype} small"))
        if threshold is not None:
            ratio = row["ms"].get("session", float("inf")) / row["ms"]["eager"]
            if dtype in defaults and threshold > defaults[dtype] / 2 and ratio <= _REPORT_ABOVE:
                continue
            table.append(
                {"op": operator, "dtype": dtype, "from": threshold, "ratio": round(min(ratio, 999))}
            )
    table.sort(key=lambda row: (row["op"], row["dtype"]))
    lines = [
        yaml.safe_dump(row, default_flow_style=True, sort_keys=False, width=1e9) for row in table
    ]
    path.write_text(format_yaml(_HEADER + "".join(f"- {line}" for line in lines)))

"""What was seen, as a table for people: arguments with the names of their dimensions, the sizes of
each dimension, constants. In come calls and what they say, out goes text. Called by
`observe.py`."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any

from .calls import Seen, SeenCall, short
from .dims import Dimension, Seeing

_MOST_SIZES = 6  # of a dimension, in the order in which they came
_CONSTANT = "constant, the same in every call"


def table(model: Any, calls: Sequence[SeenCall], seen: Seeing) -> str:
    """The text of an Observation."""
    given = set().union(*(call.given for call in calls))
    shown = [path for path in seen.leaves if _argument(path) in given]
    rows: list[tuple[str, str, str]] = []
    for paths in _alike(seen, shown):
        rows.append(("arguments", _listed(paths), _described(seen, paths[0])))
    for each in sorted(seen.dimensions, key=lambda one: one.derived):
        rows.append(("dimensions", each.name, _sizes(each)))
    if not seen.dimensions:
        rows.append(("dimensions", "none", "every size is the same in every call"))
    wide = max(len(row[1]) for row in rows)
    lines, last = [f"{type(model).__name__}, {len(calls)} calls"], ""
    for head, name, text in rows:
        lines.append(f"  {'' if head == last else head:<12}{name:<{wide}}  {text}".rstrip())
        last = head
    return "\n".join(lines)


def _argument(path: str) -> str:
    """The argument of forward that a leaf is in."""
    return re.split(r"[.\[]", path, maxsplit=1)[0]


def _alike(seen: Seeing, paths: Sequence[str]) -> list[list[str]]:
    """The leaves, those together that stand in a row in one argument and are described alike."""
    found: list[list[str]] = []
    for path in paths:
        last = found[-1][-1] if found else ""
        same = (
            last
            and _argument(last) == _argument(path) != path
            and _described(seen, last) == _described(seen, path)
        )
        if same:
            found[-1].append(path)
        else:
            found.append([path])
    return found


def _listed(paths: Sequence[str]) -> str:
    return paths[0] if len(paths) == 1 else f"{paths[0]} and {len(paths) - 1} more"


def _described(seen: Seeing, path: str) -> str:
    leaf: Seen = seen.leaves[path]
    if leaf.dtype is not None:
        return f"{short(leaf.dtype)}[{', '.join(map(str, seen.shape(path)))}]"
    name = seen.by_place.get((path, None))
    return f"{leaf.words()}, {_CONSTANT}" if name is None else f"an int, {name}"


def _sizes(dimension: Dimension) -> str:
    shown = ", ".join(map(str, dimension.sizes[:_MOST_SIZES]))
    more = "..." if len(dimension.sizes) > _MOST_SIZES else ""
    text = f"{shown}{more}"
    if dimension.fitting:
        text += f"  (fits {' and '.join(dimension.fitting)}: taken for independent)"
    return text

"""Words of shape rules that serve ATen and ONNX alike: broadcasting, reduction, permutation,
concatenation, unification.
A shape is a tuple of dims (ints or symbolic), or None when nothing is known; unknown in gives
unknown out."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ortable import dims
from ortable.dims import Dim
from ortable.errors import BuilderError

Shape = tuple[Dim, ...]


def show(shape: Sequence[Dim] | None) -> str:
    """A shape as people write it, for messages: ``[batch, 3]``."""
    return "unknown" if shape is None else "[" + ", ".join(str(d) for d in shape) + "]"


class ValueInfo:
    """What is known of one result of a graph; `ir` keeps one for each, and rules read it.

    ``dtype``: ONNX element type; ``shape``: tuple of dims; ``rank``: known even where the shape is
    not; ``value``: known content of an int32 or int64 result of rank 0 (a dim) or 1 (a tuple of
    dims); ``constant``: the array of a constant (anything with ``tolist()``); ``producer``: the
    node that makes it. None everywhere means unknown.
    """

    __slots__ = ("constant", "dtype", "name", "producer", "rank", "shape", "value")

    def __init__(
        self,
        name: str = "",
        dtype: int | None = None,
        shape: Shape | None = None,
        rank: int | None = None,
        value: Any = None,
        constant: Any = None,
        producer: Any = None,
    ) -> None:
        self.name = name
        self.dtype = dtype
        self.shape = shape
        self.rank = len(shape) if rank is None and shape is not None else rank
        self.value = value
        self.constant = constant
        self.producer = producer

    def __repr__(self) -> str:
        return f"ValueInfo({self.name!r}, {self.dtype}, {show(self.shape)}, value={self.value})"


def differ(a: Dim, b: Dim) -> bool:
    """True when two dims can be proven to be different."""
    if a is b:
        return False
    if type(a) is int and type(b) is int:
        return a != b
    return dims.differs(a, b)


def all_known(sizes: Sequence[Dim | None]) -> Shape | None:
    """The sizes as a shape; None when one of them is unknown."""
    known = tuple(size for size in sizes if size is not None)
    return known if len(known) == len(sizes) else None


def merge_dim(a: Dim, b: Dim) -> Dim | None:
    """One dim for two that must be equal, an int if either is one; None when they are provably
    different."""
    if a is b or a == b:
        return a
    if differ(a, b):
        return None
    return b if type(b) is int else a


def normalize_axis(axis: int, rank: int, what: str = "axis") -> int:
    """``axis`` counted from the front.

    Raises:
        BuilderError: ``axis`` is not in ``[-rank, rank - 1]``.
    """
    if not -rank <= axis < rank:
        raise BuilderError(
            f"{what} {axis} is out of range for rank {rank}: it must be in [{-rank}, {rank - 1}]"
        )
    return axis + rank if axis < 0 else axis


def normalize_axes(axes: Sequence[int], rank: int) -> list[int]:
    """Every axis counted from the front. Raises BuilderError for one out of range or given
    twice."""
    found = [normalize_axis(int(axis), rank) for axis in axes]
    if len(set(found)) != len(found):
        raise BuilderError(f"axes {list(axes)} name one axis twice (rank {rank})")
    return found


def _broadcast_dim(candidates: set[Dim]) -> Dim | None:
    """The common size of one position, 1s removed; None when it cannot be told. Raises ValueError
    when impossible."""
    ints = [d for d in candidates if type(d) is int]
    if len(ints) > 1:
        raise ValueError
    others = [d for d in candidates if type(d) is not int]
    if ints:
        # legal only if every symbol turns out to be 1 or this size, so this size it is (0 against
        # 1 gives 0)
        chosen: Dim | None = ints[0]
    elif len(others) == 1:
        return others[0]
    else:
        chosen = next((d for d in others if d >= 2), None)
        if chosen is None:
            return None
    for other in others:
        if chosen is not None and differ(other, chosen) and differ(other, 1):
            raise ValueError
    return chosen


def broadcast(*shapes: Shape | None) -> Shape | None:
    """Shape of an elementwise operation with numpy's rules (ONNX "multidirectional broadcasting").

    None when a shape is unknown, or when two symbolic sizes meet of which either could be the 1
    that stretches.

    Raises:
        BuilderError: two sizes are provably different and neither can be 1.
    """
    first = shapes[0]
    if first is None or None in shapes:
        return None
    if all(shape == first for shape in shapes):
        return first
    known: list[Shape] = shapes  # type: ignore[assignment]
    rank = max(len(shape) for shape in known)
    result: list[Dim] = []
    unknown = False
    for position in range(-rank, 0):
        candidates = {shape[position] for shape in known if len(shape) >= -position}
        candidates.discard(1)
        if len(candidates) <= 1:
            result.append(candidates.pop() if candidates else 1)
            continue
        try:
            size = _broadcast_dim(candidates)
        except ValueError:
            names = " and ".join(show(s) for s in known)
            raise BuilderError(
                f"Shapes {names} cannot be broadcast together: "
                f"sizes {show(sorted(candidates, key=str))} meet at axis {position}, "
                "and none of them is 1"
            ) from None
        unknown = unknown or size is None
        result.append(1 if size is None else size)
    return None if unknown else tuple(result)


def reduce_shape(
    shape: Shape | None, dims: int | Sequence[int] | None = None, keepdim: object = False
) -> Shape | None:
    """Shape after reducing ``dims`` (an axis, axes, or None or empty for all of them, as in torch).

    Raises:
        BuilderError: an axis is out of range or given twice.
    """
    if shape is None:
        return None
    if dims is None or (not isinstance(dims, int) and len(dims) == 0):
        return (1,) * len(shape) if keepdim else ()
    axes = (dims,) if isinstance(dims, int) else dims
    if not shape and all(a in (0, -1) for a in axes):
        return ()  # torch accepts axis 0 of a scalar
    gone = normalize_axes(axes, len(shape))
    if keepdim:
        return tuple(1 if i in gone else d for i, d in enumerate(shape))
    return tuple(d for i, d in enumerate(shape) if i not in gone)


def permute(shape: Shape | None, perm: Sequence[int] | None = None) -> Shape | None:
    """Axes in the order ``perm`` (None: reversed).

    Raises:
        BuilderError: ``perm`` is not a permutation of the axes.
    """
    if shape is None:
        return None
    if perm is None:
        return shape[::-1]
    order = [axis + len(shape) if axis < 0 else axis for axis in perm]
    if sorted(order) != list(range(len(shape))):
        raise BuilderError(f"perm {list(perm)} is not a permutation of the axes of {show(shape)}")
    return tuple(shape[axis] for axis in order)


def concat(shapes: Sequence[Shape | None], axis: int = 0) -> Shape | None:
    """Shape of a concatenation along ``axis``; empty vectors are skipped next to higher ranks, as
    torch does.

    Raises:
        BuilderError: ranks differ, the axis is out of range, or another axis is provably different.
    """
    if None in shapes or not shapes:
        return None
    rank = max(len(shape) for shape in shapes if shape is not None)
    known = [shape for shape in shapes if shape is not None and not (rank != 1 and shape == (0,))]
    if not known:
        return shapes[0]
    axis = normalize_axis(axis, rank)
    result = list(known[0])
    for shape in known[1:]:
        merged = [merge_dim(a, b) for a, b in zip(result, shape, strict=False)]
        merged[axis : axis + 1] = [1]
        if len(shape) != rank or len(result) != rank or None in merged:
            listed = ", ".join(show(s) for s in known)
            raise BuilderError(f"Shapes {listed} cannot be concatenated along axis {axis}")
        merged[axis] = result[axis] + shape[axis]
        result = merged  # type: ignore[assignment]
    return tuple(result)


def keep_leading(shape: Shape | None, n: int, tail: Shape | None = ()) -> Shape | None:
    """The first ``n`` dims (a negative ``n`` drops from the end), followed by ``tail``."""
    if shape is None or tail is None:
        return None
    return shape[:n] + tuple(tail)


def unify(
    patterns: Sequence[Sequence[str]],
    results: Sequence[Sequence[str]],
    shapes: Sequence[Shape | None],
) -> tuple[Shape | None, ...]:
    """Shapes of the results when dims of the arguments that carry one name must be equal.

    A pattern is a tuple of dim names: ``("m", "k")``. ``("*",)`` stands for any shape, a leading
    ``"..."`` for batch
    dims that broadcast together, digits for that size. A result that needs an unknown name is None.

    Raises:
        BuilderError: a rank does not fit, or one name stands for two sizes that are provably
        different.
    """
    bound: dict[str, Dim] = {}
    batches: list[Shape] = []
    batch_known = True
    for pattern, shape in zip(patterns, shapes, strict=True):
        batched = bool(pattern) and pattern[0] == "..."
        if tuple(pattern) == ("*",):
            continue
        if shape is None:
            batch_known = batch_known and not batched
            continue
        names = pattern[1:] if batched else pattern
        if len(shape) < len(names) or (len(shape) > len(names) and not batched):
            raise _does_not_fit(
                patterns, shapes, f"rank {len(shape)} where ({', '.join(pattern)}) is needed"
            )
        if batched:
            batches.append(shape[: len(shape) - len(names)])
        for name, size in zip(names, shape[len(shape) - len(names) :], strict=True):
            expected = int(name) if name.isdigit() else bound.get(name, size)
            merged = merge_dim(expected, size)
            if merged is None:
                raise _does_not_fit(patterns, shapes, f"{name} is both {expected} and {size}")
            bound[name] = merged
    batch = broadcast(*batches) if batches and batch_known else None
    return tuple(_unified(result, bound, batch) for result in results)


def _unified(result: Sequence[str], bound: dict[str, Dim], batch: Shape | None) -> Shape | None:
    batched = bool(result) and result[0] == "..."
    names = result[1:] if batched else result
    sizes = [int(name) if name.isdigit() else bound.get(name) for name in names]
    if None in sizes or (batched and batch is None):
        return None
    return ((batch or ()) if batched else ()) + tuple(sizes)  # type: ignore[arg-type]


def _does_not_fit(
    patterns: Sequence[Sequence[str]], shapes: Sequence[Shape | None], why: str
) -> BuilderError:
    wanted = ", ".join("(" + ", ".join(p) + ")" for p in patterns)
    given = ", ".join(show(s) for s in shapes)
    return BuilderError(f"Shapes {given} do not fit {wanted}: {why}")

"""Shape rules shared by ATen and ONNX: broadcasting, reduction, permutation, concatenation.

A shape is a tuple of dims (ints or symbolic), or None if nothing is known. Unknown inputs give an
unknown result.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ortable import dims
from ortable.dims import Dim
from ortable.errors import BuilderError

Shape = tuple[Dim, ...]


def shape_str(shape: Sequence[Dim] | None) -> str:
    """Format a shape for messages: ``[batch, 3]``."""
    return "unknown" if shape is None else "[" + ", ".join(str(d) for d in shape) + "]"


class ValueInfo:
    """The known facts about one result of a graph.

    `ir` stores one for each result, and rules read it. ``dtype``: the ONNX element type; ``shape``:
    a tuple of dims; ``rank``: may be known if the shape is not; ``value``: the known content of an
    int32 or int64 result of rank 0 (a dim) or 1 (a tuple of dims); ``constant``: the array of a
    constant (anything with ``tolist()``); ``producer``: the node that computes the result. None
    means unknown.
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
        return (
            f"ValueInfo({self.name!r}, {self.dtype}, {shape_str(self.shape)}, value={self.value})"
        )


def dims_differ(a: Dim, b: Dim) -> bool:
    """Whether two dims are provably different."""
    if a is b:
        return False
    if type(a) is int and type(b) is int:
        return a != b
    return dims.always_differ(a, b)


def all_known(sizes: Sequence[Dim | None]) -> Shape | None:
    """Return the sizes as a shape; None if one of them is unknown."""
    result = tuple(size for size in sizes if size is not None)
    return result if len(result) == len(sizes) else None


def merge_dim(a: Dim, b: Dim) -> Dim | None:
    """Merge two dims that must be equal, preferring an int; None if they are provably different."""
    if a is b or a == b:
        return a
    if dims_differ(a, b):
        return None
    return b if type(b) is int else a


def normalize_axis(axis: int, rank: int, what: str = "axis") -> int:
    """Return ``axis`` counted from the front.

    Raises:
        BuilderError: ``axis`` is not in ``[-rank, rank - 1]``.
    """
    if not -rank <= axis < rank:
        raise BuilderError(
            f"{what} {axis} is out of range for rank {rank}: it must be in [{-rank}, {rank - 1}]"
        )
    return axis + rank if axis < 0 else axis


def normalize_axes(axes: Sequence[int], rank: int) -> list[int]:
    """Return every axis counted from the front.

    Raises:
        BuilderError: an axis is out of range or repeated.
    """
    result = [normalize_axis(int(axis), rank) for axis in axes]
    if len(set(result)) != len(result):
        raise BuilderError(f"axes {list(axes)} contain one axis twice (rank {rank})")
    return result


def _broadcast_dim(candidates: set[Dim]) -> Dim | None:
    """Return the broadcast size of an axis whose sizes, except 1, are ``candidates``.

    Returns None if the candidates do not determine the size.

    Raises:
        ValueError: the sizes cannot broadcast.
    """
    ints = [dim for dim in candidates if type(dim) is int]
    if len(ints) > 1:
        raise ValueError
    symbolic = [dim for dim in candidates if type(dim) is not int]
    if ints:
        # In a valid model every symbol is 1 or this size, so the result has this size.
        size: Dim | None = ints[0]
    elif len(symbolic) == 1:
        return symbolic[0]
    else:
        size = next((dim for dim in symbolic if dim >= 2), None)
        if size is None:
            return None
    for symbol in symbolic:
        if size is not None and dims_differ(symbol, size) and dims_differ(symbol, 1):
            raise ValueError
    return size


def broadcast(*shapes: Shape | None) -> Shape | None:
    """Broadcast shapes with numpy's rules (ONNX "multidirectional broadcasting").

    Returns None if a shape is unknown, or if an axis has two symbolic sizes and either may be 1.

    Raises:
        BuilderError: two sizes are provably different and neither can be 1.
    """
    first = shapes[0]
    if first is None or None in shapes:
        return None
    if all(shape == first for shape in shapes):
        return first
    known_shapes: list[Shape] = shapes  # type: ignore[assignment]
    rank = max(len(shape) for shape in known_shapes)
    result: list[Dim] = []
    has_unknown_size = False
    for position in range(-rank, 0):
        candidates = {shape[position] for shape in known_shapes if len(shape) >= -position}
        candidates.discard(1)
        if len(candidates) <= 1:
            result.append(candidates.pop() if candidates else 1)
            continue
        try:
            size = _broadcast_dim(candidates)
        except ValueError:
            names = " and ".join(shape_str(s) for s in known_shapes)
            raise BuilderError(
                f"Shapes {names} cannot be broadcast together: "
                f"sizes {shape_str(sorted(candidates, key=str))} meet at axis {position}, "
                "and none of them is 1"
            ) from None
        has_unknown_size = has_unknown_size or size is None
        result.append(1 if size is None else size)
    return None if has_unknown_size else tuple(result)


def reduce_shape(
    shape: Shape | None, dims: int | Sequence[int] | None = None, keepdim: object = False
) -> Shape | None:
    """Return the shape after reducing ``dims``: an axis or axes; None or empty means all axes.

    Raises:
        BuilderError: an axis is out of range or repeated.
    """
    if shape is None:
        return None
    if dims is None or (not isinstance(dims, int) and len(dims) == 0):
        return (1,) * len(shape) if keepdim else ()
    axes = (dims,) if isinstance(dims, int) else dims
    if not shape and all(a in (0, -1) for a in axes):
        return ()  # torch accepts axis 0 of a scalar
    reduced = normalize_axes(axes, len(shape))
    if keepdim:
        return tuple(1 if i in reduced else d for i, d in enumerate(shape))
    return tuple(d for i, d in enumerate(shape) if i not in reduced)


def permute_shape(shape: Shape | None, perm: Sequence[int] | None = None) -> Shape | None:
    """Return the shape with the axes in the order of ``perm`` (None: reversed).

    Raises:
        BuilderError: ``perm`` is not a permutation of the axes.
    """
    if shape is None:
        return None
    if perm is None:
        return shape[::-1]
    order = [axis + len(shape) if axis < 0 else axis for axis in perm]
    if sorted(order) != list(range(len(shape))):
        raise BuilderError(
            f"perm {list(perm)} is not a permutation of the axes of {shape_str(shape)}"
        )
    return tuple(shape[axis] for axis in order)


def concat_shape(shapes: Sequence[Shape | None], axis: int = 0) -> Shape | None:
    """Return the shape of a concatenation along ``axis``.

    Empty vectors are skipped if other shapes have a higher rank, as in torch.

    Raises:
        BuilderError: ranks differ, the axis is out of range, or another axis is provably different.
    """
    if None in shapes or not shapes:
        return None
    rank = max(len(shape) for shape in shapes if shape is not None)
    nonempty = [
        shape for shape in shapes if shape is not None and not (rank != 1 and shape == (0,))
    ]
    if not nonempty:
        return shapes[0]
    axis = normalize_axis(axis, rank)
    result = list(nonempty[0])
    for shape in nonempty[1:]:
        merged = [merge_dim(left, right) for left, right in zip(result, shape, strict=False)]
        merged[axis : axis + 1] = [1]
        if len(shape) != rank or len(result) != rank or None in merged:
            listed = ", ".join(shape_str(s) for s in nonempty)
            raise BuilderError(f"Shapes {listed} cannot be concatenated along axis {axis}")
        merged[axis] = result[axis] + shape[axis]
        result = merged  # type: ignore[assignment]
    return tuple(result)


def keep_leading(shape: Shape | None, n: int, tail: Shape | None = ()) -> Shape | None:
    """Return the first ``n`` dims (a negative ``n`` drops from the end), followed by ``tail``."""
    if shape is None or tail is None:
        return None
    return shape[:n] + tuple(tail)


def unify_shapes(
    patterns: Sequence[Sequence[str]],
    results: Sequence[Sequence[str]],
    shapes: Sequence[Shape | None],
) -> tuple[Shape | None, ...]:
    """Compute result shapes from argument shapes in which dims with the same name must be equal.

    A pattern is a tuple of dim names: ``("m", "k")``. ``("*",)`` matches any shape, a leading
    ``"..."`` matches batch dims that broadcast together, and a number matches that size. The shape
    of a result is None if the size of one of its names is unknown.

    Raises:
        BuilderError: a rank does not fit, or a name stands for two sizes that are provably
            different.
    """
    bound: dict[str, Dim] = {}
    batches: list[Shape] = []
    batch_known = True
    for pattern, shape in zip(patterns, shapes, strict=True):
        has_batch = bool(pattern) and pattern[0] == "..."
        if tuple(pattern) == ("*",):
            continue
        if shape is None:
            batch_known = batch_known and not has_batch
            continue
        names = pattern[1:] if has_batch else pattern
        if len(shape) < len(names) or (len(shape) > len(names) and not has_batch):
            raise _unify_error(
                patterns, shapes, f"rank {len(shape)} where ({', '.join(pattern)}) is needed"
            )
        if has_batch:
            batches.append(shape[: len(shape) - len(names)])
        for name, size in zip(names, shape[len(shape) - len(names) :], strict=True):
            expected = int(name) if name.isdigit() else bound.get(name, size)
            merged = merge_dim(expected, size)
            if merged is None:
                raise _unify_error(patterns, shapes, f"{name} is both {expected} and {size}")
            bound[name] = merged
    batch = broadcast(*batches) if batches and batch_known else None
    return tuple(_result_shape(result, bound, batch) for result in results)


def _result_shape(
    result: Sequence[str], bound: dict[str, Dim], batch: Shape | None
) -> Shape | None:
    has_batch = bool(result) and result[0] == "..."
    names = result[1:] if has_batch else result
    sizes = [int(name) if name.isdigit() else bound.get(name) for name in names]
    if None in sizes or (has_batch and batch is None):
        return None
    return ((batch or ()) if has_batch else ()) + tuple(sizes)  # type: ignore[arg-type]


def _unify_error(
    patterns: Sequence[Sequence[str]], shapes: Sequence[Shape | None], why: str
) -> BuilderError:
    expected = ", ".join("(" + ", ".join(p) + ")" for p in patterns)
    actual = ", ".join(shape_str(s) for s in shapes)
    return BuilderError(f"Shapes {actual} do not fit {expected}: {why}")

"""What is known of one result of a graph; the rules read it, `ir` keeps one per result."""

from __future__ import annotations

from typing import Any

from .shape import Shape, show


class ValueInfo:
    """What is known of one result of a graph.

    ``dtype``: ONNX element type; ``shape``: tuple of dims; ``rank``: known even where the shape is
    not; ``value``: known
    content of an int32 or int64 result of rank 0 (a dim) or 1 (a tuple of dims); ``constant``: the
    array of a constant
    (anything with ``tolist()``); ``producer``: the node that makes it. None everywhere means
    unknown.
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

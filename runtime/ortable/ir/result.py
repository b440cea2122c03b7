"""Names, dtypes and shapes of the results of the torch call being converted.

The interpreter passes a `ResultSpec` to each converter as its parameter `res`.
"""

from __future__ import annotations

from collections.abc import Sequence

from ortable.dims import Shape


class ResultSpec:
    """Names, dtypes and shapes of the results of one torch call.

    Args:
        outputs: names of the results, in torch's order; ``""`` for a result that is not used.
        dtypes: ONNX element types; None for a result that is not a tensor or has no known dtype.
        shapes: shapes; None for an unknown rank.
    """

    __slots__ = ("dtypes", "outputs", "shapes")

    def __init__(
        self,
        outputs: Sequence[str],
        dtypes: Sequence[int | None],
        shapes: Sequence[Shape | None],
    ) -> None:
        self.outputs = list(outputs)
        self.dtypes = tuple(dtypes)
        self.shapes = tuple(shapes)

    @property
    def name(self) -> str:
        """Name of the first result."""
        return self.outputs[0]

    @property
    def dtype(self) -> int | None:
        """Element type of the first result."""
        return self.dtypes[0]

    @property
    def shape(self) -> Shape | None:
        """Shape of the first result."""
        return self.shapes[0]

    def is_used(self, index: int) -> bool:
        """Whether the FX graph uses this result.

        Args:
            index: position of the result in torch's order.
        """
        return self.outputs[index] != ""

    def __len__(self) -> int:
        return len(self.outputs)

    def __getitem__(self, index: int) -> ResultSpec:
        """Return the spec of one result; raise IndexError if ``index`` is out of range."""
        return ResultSpec([self.outputs[index]], (self.dtypes[index],), (self.shapes[index],))

    def __repr__(self) -> str:
        return f"ResultSpec({self.outputs}, dtypes={self.dtypes}, shapes={self.shapes})"

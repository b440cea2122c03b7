"""What torch expects of the node being converted: names, types and shapes of its results.

Converters receive one as `res`.
"""

from __future__ import annotations

from collections.abc import Sequence

from ortable.dims import Shape


class ResultSpec:
    """Results of one torch call. ``outputs[i]`` is the name to use, ``""`` when nobody reads
    result i.

    A dtype of None is a result that is no tensor (or of which torch says nothing).

    Args:
        outputs: names of the results, in torch's order.
        dtypes: their ONNX element types.
        shapes: their shapes; None for an unknown rank.
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
        """Name of result 0."""
        return self.outputs[0]

    @property
    def dtype(self) -> int | None:
        """Element type of result 0."""
        return self.dtypes[0]

    @property
    def shape(self) -> Shape | None:
        """Shape of result 0."""
        return self.shapes[0]

    def is_used(self, index: int) -> bool:
        """True when somebody reads this result.

        Args:
            index: of the result.
        """
        return self.outputs[index] != ""

    def __len__(self) -> int:
        return len(self.outputs)

    def __getitem__(self, index: int) -> ResultSpec:
        """The record of one result alone; IndexError past the end."""
        return ResultSpec([self.outputs[index]], (self.dtypes[index],), (self.shapes[index],))

    def __repr__(self) -> str:
        return f"ResultSpec({self.outputs}, dtypes={self.dtypes}, shapes={self.shapes})"

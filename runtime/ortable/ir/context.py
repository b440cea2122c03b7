"""What lowerings get besides the graph: target, converters, and the record of the conversion.

`interpreter` fills it in, the exporter adds its record; lowerings read it as ``graph.ctx``, which
the children of a graph share.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Generic, NoReturn, Protocol, TypeVar

from ortable.errors import BuilderError

if TYPE_CHECKING:
    from torch.fx import GraphModule

    from ortable.compat.torch import HigherOrderOperator, OpOverload

# The class of graph, which imports this module.
G = TypeVar("G")
G_co = TypeVar("G_co", covariant=True)
G_contra = TypeVar("G_contra", contravariant=True)

# converter(graph, res, *args, **kwargs) -> the result, or a list of results
Converter = Callable[..., Any]


class ConvertSubgraph(Protocol[G_co]):
    """Makes a branch: a child graph whose outputs are those of ``graph_module`` for ``operands``.

    Operands are results of the graph around it, numbers and dimensions.
    """

    def __call__(
        self, graph_module: GraphModule, operands: Sequence[Any], *, name: str = "subgraph"
    ) -> G_co: ...


class ConvertInto(Protocol[G_contra]):
    """Converts ``graph_module`` on ``operands`` into nodes of ``graph``; declares no output.

    Operands and results are results, numbers and dimensions. ``rename`` maps symbols of the graph
    module to names in ``graph``.
    """

    def __call__(
        self,
        graph: G_contra,
        graph_module: GraphModule,
        operands: Sequence[Any],
        rename: Mapping[str, str] | None = None,
    ) -> list[Any]: ...


class FindConverter(Protocol):
    """Finds the converter of an operator that is an argument of another one, or None."""

    def __call__(self, target: OpOverload | HigherOrderOperator) -> Converter | None: ...


class ConversionRecord(Protocol):
    """What the exporter wrote down (``export.request.record.ExportRecord`` says what each is)."""

    strategy: str
    steps: list[str]
    seconds: dict[str, float]
    assertions: list[str]

    def phase(self, name: str) -> AbstractContextManager[None]:
        """Adds the seconds of the block to a phase."""
        ...

    def log_phase(self, phase: str, *parts: str) -> None:
        """Prints a line about a phase that has ended, when the user asked for it."""
        ...


def _not_converting(*args: object, **kwargs: object) -> NoReturn:
    raise BuilderError(
        "This graph is not being converted from a torch graph, so nothing can convert a graph "
        "inside it or find the converter of a torch operator; DynamoInterpreter does both."
    )


@dataclass(frozen=True)
class LoweringContext(Generic[G]):
    """``target`` is what the model is made for (None: any runtime). The three callables are the
    interpreter's; they raise BuilderError on a graph that no interpreter fills. ``record`` is the
    exporter's account, None elsewhere."""

    target: str | None = None
    convert_subgraph: ConvertSubgraph[G] = _not_converting
    convert_into: ConvertInto[G] = _not_converting
    find_converter: FindConverter = _not_converting
    record: ConversionRecord | None = None

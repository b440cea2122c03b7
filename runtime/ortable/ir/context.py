"""What lowerings read besides the graph: target, converters, and the record of the conversion.

A `Graph` makes a `LoweringContext` of its target; the interpreter replaces it by one with
converters, and the exporter by one with its record. Lowerings read the context as ``graph.ctx``,
which subgraphs inherit.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Generic, NoReturn, Protocol, TypeVar

from ortable.errors import BuilderError

if TYPE_CHECKING:
    from torch.fx import GraphModule

    from ortable import dims
    from ortable.compat.torch import HigherOrderOperator, OpOverload

# The type of graph: `Graph` imports this module, which therefore cannot import `Graph`.
G = TypeVar("G")
G_co = TypeVar("G_co", covariant=True)
G_contra = TypeVar("G_contra", contravariant=True)

# converter(graph, res, *args, **kwargs) -> the result, or a list of results; `res`: ResultSpec
Converter = Callable[..., Any]


class ConvertSubgraph(Protocol[G_co]):
    """Converts a call of ``graph_module`` with ``operands`` into a new child graph.

    Operands are results of the enclosing graph, numbers and dimensions.
    """

    def __call__(
        self, graph_module: GraphModule, operands: Sequence[Any], *, name: str = "subgraph"
    ) -> G_co:
        """Return the child graph."""
        ...


class ConvertInto(Protocol[G_contra]):
    """Converts a call of ``graph_module`` with ``operands`` into nodes of ``graph``.

    It adds no outputs to ``graph``. Operands and returned values are results of ``graph``,
    numbers and dimensions. ``rename`` maps symbols of the graph module to names in ``graph``.
    """

    def __call__(
        self,
        graph: G_contra,
        graph_module: GraphModule,
        operands: Sequence[Any],
        rename: dims.Names | None = None,
    ) -> list[Any]:
        """Return the values of the graph module's outputs."""
        ...


class FindConverter(Protocol):
    """Finds the converter of an operator that is an argument of another operator."""

    def __call__(self, target: OpOverload | HigherOrderOperator) -> Converter | None:
        """Return the converter of ``target``, or None."""
        ...


class ConversionRecord(Protocol):
    """Part of the exporter's record, `ExportRecord`, that the conversion fills in."""

    strategy: str
    steps: list[str]
    seconds: dict[str, float]
    assertions: list[str]

    def phase(self, name: str) -> AbstractContextManager[None]:
        """Return a context manager that adds the seconds its block takes to a phase."""
        ...

    def log_phase(self, phase: str, *parts: str) -> None:
        """Print a line about a phase that has ended, if logging is enabled."""
        ...


def _not_converting(*args: object, **kwargs: object) -> NoReturn:
    raise BuilderError(
        "This graph is not being converted from a torch graph, so it has no converters for torch "
        "subgraphs and operators; convert it with DynamoInterpreter."
    )


@dataclass(frozen=True)
class LoweringContext(Generic[G]):
    """Target, converters and record of one conversion.

    ``target`` is the runtime that the model is for (None: any runtime). The interpreter sets the
    three callables, whose defaults raise BuilderError, and ``values``: the values of the FX nodes
    that are converted. It adds the results of the program's own casts to ``casts``. Only the
    exporter sets ``record``.
    """

    target: str | None = None
    convert_subgraph: ConvertSubgraph[G] = _not_converting
    convert_into: ConvertInto[G] = _not_converting
    find_converter: FindConverter = _not_converting
    values: Mapping[Any, Any] = field(default_factory=dict)
    casts: set[str] = field(default_factory=set)
    record: ConversionRecord | None = None

"""Containers of a graph under construction, and the known facts of its results.

Facts are type, shape, rank and value. Subclasses add the methods that make nodes, inputs, outputs
and initializers.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any

from ortable import dims, dtypes
from ortable.dims import Dim, Shape, SymDim
from ortable.errors import BuilderError
from ortable.inference.shape import ValueInfo

from .node import Node


class Names:
    """Names that the results, or the nodes, of a graph and its subgraphs have taken."""

    __slots__ = ("_next", "taken")

    def __init__(self) -> None:
        self.taken: set[str] = set()
        self._next: dict[str, int] = {}

    def reserve(self, name: str) -> None:
        """Reserve a name that was chosen elsewhere."""
        self.taken.add(name)

    def release(self, name: str) -> None:
        """Release a name that is no longer used."""
        self.taken.discard(name)

    def make_unique(self, prefix: str) -> str:
        """Reserve and return the prefix, with a number from 2 appended if the prefix is taken."""
        names = self.taken
        if prefix not in names:
            names.add(prefix)
            return prefix
        number = self._next.get(prefix, 2)
        name = f"{prefix}{number}"
        while name in names:
            number += 1
            name = f"{prefix}{number}"
        self._next[prefix] = number + 1
        names.add(name)
        return name


class ScopedValues(dict[str, ValueInfo]):
    """Results of a subgraph by name; lookups also find results of the enclosing graphs."""

    def __init__(self, outer: dict[str, ValueInfo]) -> None:
        super().__init__()
        self.outer = outer

    def get(self, key: str, default: Any = None) -> Any:
        """Return the result named ``key`` of this graph or an enclosing one."""
        info = super().get(key)
        return info if info is not None else self.outer.get(key, default)

    def __missing__(self, key: str) -> ValueInfo:
        return self.outer[key]

    def __contains__(self, key: object) -> bool:
        return super().__contains__(key) or key in self.outer


class GraphState:
    """Base class of `Graph`: containers, names and facts; shapes are tuples of dims."""

    opsets: dict[str, int]
    functions: dict[tuple[str, str], Any]
    function_tensors: dict[str, Any]
    origin_metadata: Callable[[Any], dict[str, str]] | None

    def __init__(self, parent: GraphState | None, tag: str) -> None:
        self.parent = parent
        self.name = "ortable"
        self.tag = tag
        self.values: dict[str, ValueInfo] = {} if parent is None else ScopedValues(parent.values)
        self.nodes: list[Node] = []
        self.inputs: list[ValueInfo] = []
        self.outputs: list[ValueInfo] = []
        self.initializers_dict: dict[str, Any] = {}
        self.sparse_initializers: list[Any] = []  # of a model that was read; never edited
        self.rename_dims: dict[str, str | dims.SymDim] = (
            {} if parent is None else parent.rename_dims
        )
        # results that represent Python numbers -> dtype that torch gives the number
        self.numbers: dict[str, int] = {} if parent is None else parent.numbers
        self.brief_errors = False  # True while callers catch errors about unknown facts
        # whether the caller makes numbers of dynamic sizes that a converter refuses (torch.compile)
        self.specializes_sizes: bool = parent is not None and parent.specializes_sizes
        self.use_index: Any = None  # an `editing.UseIndex`, built at the first query
        # whether rewrite rules may store results computed from weights
        self.stores_weights = True
        # the `weight_quantization.QuantizationRun` while rules that quantize weights run
        self.rounding: Any = None
        # results of analyses while rules run; cleared when the graph changes
        self.analysis_results: dict[Any, dict[Any, Any]] | None = None
        self.debug_sections: list[Callable[[], str]] = []  # texts that `debug_message` includes
        self.result_names: Names = Names() if parent is None else parent.result_names
        self.node_names: Names = Names() if parent is None else parent.node_names
        self.constant_names: set[str] = set()
        self.computed_constants: dict[str, Any] = {}
        # removed results -> equal results that replace them; see `passes.result_names`
        self.successors: dict[str, str] = {}
        # inputs and outputs: shape as the user wrote it, or TypeProto of a model that was read
        self.declared_types: dict[str, Any] = {}
        # build steps as (step name, subject) for messages, until the graph is edited
        self.history: list[tuple[str, Any]] = []
        self.edited = False

    # -- names

    def unique_name(self, prefix: str) -> str:
        """Reserve and return an unused result name: the prefix, with a number if it is taken."""
        return self.result_names.make_unique(prefix)

    def has_name(self, name: str) -> bool:
        """Whether the graph, or an enclosing one, has the result."""
        return name in self.values

    def is_own(self, name: str) -> bool:
        """Whether the result belongs to this graph, not to an enclosing one."""
        return dict.__contains__(self.values, name)

    def outdate_uses(self) -> None:
        """Discard the index of readers of this graph and the enclosing ones.

        Code that changes nodes without `editing` must call this; the next query builds the index
        again.
        """
        graph: GraphState | None = self
        while graph is not None:
            if graph.use_index is not None and not graph.use_index.is_managed:
                graph.use_index = None
            graph = graph.parent

    def _get_info(self, name: str) -> ValueInfo:
        info = self.values.get(name)
        if info is None:
            raise BuilderError(
                f"The graph has no result {name!r} ({self.tag}){self.get_debug_msg()}"
            )
        return info

    # -- types

    def has_type(self, name: str) -> bool:
        """Whether the element type of the result is known."""
        return bool(self._get_info(name).dtype)

    def get_type(self, name: str) -> int:
        """Return the element type of a result; raise BuilderError if it is unknown."""
        dtype = self._get_info(name).dtype
        if not dtype:
            raise BuilderError(
                f"Type is unknown for result {name!r}; set it with set_type"
                f" ({self.tag}){self.get_debug_msg()}"
            )
        return dtype

    def set_type(self, name: str, dtype: int) -> None:
        """Set the element type of a result.

        Raises:
            BuilderError: the type is invalid, or a different type is known.
        """
        info = self._get_info(name)
        check_element_type(name, dtype)
        if info.dtype and info.dtype != dtype:
            raise BuilderError(
                f"Result {name!r} is {dtypes.name(info.dtype)}: its type cannot be set to "
                f"{dtypes.name(dtype)} ({self.tag}){self.get_debug_msg()}"
            )
        info.dtype = dtype

    # -- shapes

    def to_shape(self, shape: Iterable[Any], owner: str = "") -> Shape:
        """Convert a sequence of sizes to a shape.

        Args:
            shape: ints, names of dimensions, torch.SymInts, SymDims, or None for an unknown size.
            owner: the result that has the shape; names of unknown sizes start with it.

        Raises:
            BuilderError: ``shape`` is not a sequence of sizes, or a size is negative.
        """
        if isinstance(shape, str) or not isinstance(shape, Iterable):
            raise BuilderError(
                f"{shape!r} is not a valid shape for {owner!r}: give a tuple of sizes, as ('n', 3)"
            )
        sizes = tuple(
            dim if type(dim) is int else self.to_dim(dim, f"{owner}_dim_{axis}")
            for axis, dim in enumerate(shape)
        )
        for dim in sizes:
            if type(dim) is int and dim < 0:
                raise BuilderError(
                    f"{dim} is not a size, in shape {describe_shape(sizes)} of {owner!r}; "
                    "write a name or None for an unknown one."
                )
        return sizes

    def to_dim(self, value: Any, unknown: str = "") -> Dim:
        """Convert a size to a dimension.

        Args:
            value: an int, a name, a torch.SymInt, a SymDim, or None for an unknown size.
            unknown: prefix of the name of an unknown size.
        """
        if isinstance(value, SymDim):
            return value
        if isinstance(value, str):
            return dims.make_symbol(value)
        if value is None:
            return dims.make_symbol(self.result_names.make_unique(unknown))
        return dims.from_torch(value, self.rename_dims)

    def has_shape(self, name: str) -> bool:
        """Whether the shape of the result is known; its sizes may be symbolic."""
        return self._get_info(name).shape is not None

    def get_shape(self, name: str) -> Shape:
        """Return the shape of a result; raise BuilderError if it is unknown."""
        shape = self._get_info(name).shape
        if shape is None:
            raise self._unknown_error(
                f"Shape is unknown for result {name!r}; set it with set_shape"
            )
        return shape

    def set_shape(self, name: str, shape: Iterable[Any]) -> None:
        """Set the shape of a result; known static sizes stay, known symbolic sizes are replaced.

        Raises:
            BuilderError: the shape contradicts the known shape or rank.
        """
        info = self._get_info(name)
        sizes = self.to_shape(shape, name)
        if info.rank is not None and info.rank != len(sizes):
            raise self._shape_error(name, sizes, f"its rank is {info.rank}")
        if info.shape is not None:
            if any(
                dims.always_differ(old_size, size)
                for old_size, size in zip(info.shape, sizes, strict=True)
            ):
                raise self._shape_error(name, sizes, f"its shape is {describe_shape(info.shape)}")
            sizes = tuple(
                old_size if isinstance(old_size, int) else size
                for old_size, size in zip(info.shape, sizes, strict=True)
            )
        info.shape = sizes
        info.rank = len(sizes)
        self._shape_known(name, sizes)

    def _unknown_error(self, message: str) -> BuilderError:
        error = BuilderError(f"{message} ({self.tag}){self.get_debug_msg()}")
        error.without_shape = True
        return error

    def _shape_error(self, name: str, sizes: Shape, reason: str) -> BuilderError:
        return BuilderError(
            f"Shape of {name!r} cannot be set to {describe_shape(sizes)}: {reason}"
            f" ({self.tag}){self.get_debug_msg()}"
        )

    def _shape_known(self, name: str, shape: Shape) -> None:
        """Record a result as source of the sizes in its shape; subclasses override this."""

    def has_rank(self, name: str) -> bool:
        """Whether the rank of the result is known."""
        return self._get_info(name).rank is not None

    def get_rank(self, name: str) -> int:
        """Return the rank of a result; raise BuilderError if it is unknown."""
        rank = self._get_info(name).rank
        if rank is None:
            suffix = "" if self.brief_errors else f", known_ranks={self.known_ranks}"
            raise self._unknown_error(f"Rank is unknown for result {name!r}{suffix}")
        return rank

    def set_rank(self, name: str, rank: int) -> None:
        """Set the rank of a result.

        Raises:
            BuilderError: the rank is invalid, or a different rank is known.
        """
        info = self._get_info(name)
        if type(rank) is not int or rank < 0:
            raise BuilderError(f"{rank!r} is not a valid rank for {name!r} ({self.tag})")
        if info.rank is not None and info.rank != rank:
            raise BuilderError(
                f"Result {name!r} has rank {info.rank}: its rank cannot be set to {rank}"
                f" ({self.tag}){self.get_debug_msg()}"
            )
        info.rank = rank

    # -- values

    def value_shape(self, name: str) -> Any:
        """Return the known value of an integer result: a dim, a tuple of dims, or None."""
        return self._get_info(name).value

    def set_value_shape(self, name: str, value: Any) -> None:
        """Set the value of an int64 result to a dim (rank 0) or a tuple of dims (rank 1)."""
        info = self._get_info(name)
        if isinstance(value, (tuple, list)):
            info.value = tuple(size if type(size) is int else self.to_dim(size) for size in value)
        else:
            info.value = value if type(value) is int else self.to_dim(value)

    # -- tables of known facts

    @property
    def known_types(self) -> dict[str, int]:
        """Known element types by the name of the result."""
        return {name: info.dtype for name, info in self.values.items() if info.dtype}

    @property
    def known_shapes(self) -> dict[str, tuple[int | str, ...]]:
        """Known shapes by the name of the result; symbolic dimensions are texts."""
        return {
            name: describe_shape(info.shape)
            for name, info in self.values.items()
            if info.shape is not None
        }

    @property
    def known_ranks(self) -> dict[str, int]:
        """Ranks of results whose shape is not known."""
        return {
            name: info.rank
            for name, info in self.values.items()
            if info.rank is not None and info.shape is None
        }

    @property
    def known_values(self) -> dict[str, Any]:
        """Known values of integer results by name; symbolic dimensions are texts."""
        return {
            name: describe_value(info.value)
            for name, info in self.values.items()
            if info.value is not None
        }

    @property
    def constants_(self) -> dict[str, Any]:
        """Values of constant results; None for initializers and for values not computed yet."""
        return {
            name: self.computed_constants.get(name)
            for name in self.values
            if name in self.constant_names
        }

    def get_debug_msg(self) -> str:
        """Return text to append to an error message; subclasses override this."""
        return ""


def check_element_type(name: str, dtype: Any) -> None:
    """Raise BuilderError if ``dtype`` is known but is no ONNX element type (``torch.float32``)."""
    if dtype and (isinstance(dtype, bool | float) or dtype not in dtypes.NAMES):
        raise BuilderError(
            f"{dtype!r} is not a valid type for {name!r}: give a number of onnx.TensorProto, "
            f"such as TensorProto.FLOAT ({dtypes.float32})"
        )


def describe_shape(shape: Sequence[Dim]) -> tuple[int | str, ...]:
    """Return the shape with symbolic sizes as text."""
    return tuple(dim if isinstance(dim, int) else str(dim) for dim in shape)


def describe_value(value: Any) -> Any:
    """Return a known value with symbolic sizes as text."""
    if isinstance(value, tuple):
        return tuple(dim if isinstance(dim, int) else str(dim) for dim in value)
    return value if isinstance(value, int) else str(value)

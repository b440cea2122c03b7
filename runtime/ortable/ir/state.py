"""Containers of a graph under construction, and the known facts of its results.

Facts are type, shape, rank and value. `Graph` adds the making of nodes, inputs, outputs and
initializers.
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
    """Unique names for results or for nodes, shared by a graph and its subgraphs."""

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
        """Reserve and return the prefix, with the first free number appended if it is taken."""
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
    """Results of a subgraph: its own, and through lookups those of the graphs around it."""

    def __init__(self, outer: dict[str, ValueInfo]) -> None:
        super().__init__()
        self.outer = outer

    def get(self, key: str, default: Any = None) -> Any:
        info = super().get(key)
        return info if info is not None else self.outer.get(key, default)

    def __missing__(self, key: str) -> ValueInfo:
        return self.outer[key]

    def __contains__(self, key: object) -> bool:
        return super().__contains__(key) or key in self.outer


class GraphState:
    """Base of Graph: containers, names, knowledge about results. Shapes are tuples of
    dims."""

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
        self.sparse_initializers: list[Any] = []  # of a model that was read; kept as they are
        self.rename_dims: dict[str, str] = {} if parent is None else parent.rename_dims
        # results that stand for Python numbers, and the dtype that torch gives such a number
        self.numbers: dict[str, int] = {} if parent is None else parent.numbers
        self.brief_errors = False  # while errors about unknown facts are caught
        self.use_index: Any = None  # an `editing.Uses`, built at the first query
        self.stores_weights = (
            True  # while rules run: whether results computed from weights are stored
        )
        self.rounding: Any = None  # while rules about weights run: a `weight_quantization.Rounding`
        # results of analyses while rules run; cleared whenever the graph changes
        self.analysed: dict[Any, dict[Any, Any]] | None = None
        self.debug_sections: list[Callable[[], str]] = []
        self.result_names: Names = Names() if parent is None else parent.result_names
        self.node_names: Names = Names() if parent is None else parent.node_names
        self.constant_names: set[str] = set()
        self.computed_constants: dict[str, Any] = {}
        # removed results -> equal results that remain: `passes.result_names`
        self.successors: dict[str, str] = {}
        self.declared_shapes: dict[str, Any] = {}  # inputs and outputs: shape as the user wrote it
        # inputs, initializers, nodes in order, for messages, until the graph is edited
        self.history: list[tuple[str, Any]] = []
        self.edited = False

    # -- names

    def unique_name(self, prefix: str) -> str:
        """Takes a result name that nobody has: the prefix itself if it is free, else with a
        number."""
        return self.result_names.make_unique(prefix)

    def has_name(self, name: str) -> bool:
        """True when the graph, or a graph around it, has this result."""
        return name in self.values

    def is_own(self, name: str) -> bool:
        """True when the result belongs to this graph, not to one around it."""
        return dict.__contains__(self.values, name)

    def outdate_uses(self) -> None:
        """Says that nodes were changed by something else than `editing`: who reads what, here and
        in the graphs around, is worked out again when it is asked for."""
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
        """True when the element type of the result is known."""
        return bool(self._get_info(name).dtype)

    def get_type(self, name: str) -> int:
        """Element type of a result. BuilderError when it is unknown."""
        dtype = self._get_info(name).dtype
        if not dtype:
            raise BuilderError(
                f"Type is unknown for result {name!r}; set it with set_type"
                f" ({self.tag}){self.get_debug_msg()}"
            )
        return dtype

    def set_type(self, name: str, dtype: int) -> None:
        """Sets the element type. BuilderError when it is none, or another one is known already."""
        info = self._get_info(name)
        check_element_type(name, dtype)
        if info.dtype and info.dtype != dtype:
            raise BuilderError(
                f"Result {name!r} is {dtypes.name(info.dtype)}, it cannot be set to "
                f"{dtypes.name(dtype)} ({self.tag}){self.get_debug_msg()}"
            )
        info.dtype = dtype

    # -- shapes

    def to_shape(self, shape: Iterable[Any], owner: str = "") -> Shape:
        """Shape made of ints, names of dimensions, torch.SymInts, SymDims, and None for an
        unknown size.

        Args:
            owner: the result that has the shape, for names of its unknown sizes.

        Raises:
            BuilderError: it is no list of sizes, or a size is below 0.
        """
        if isinstance(shape, str) or not isinstance(shape, Iterable):
            raise BuilderError(
                f"{shape!r} is no shape, for {owner!r}: give a tuple of sizes, ('n', 3) for example"
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
        """A dimension; ``unknown`` is the prefix of the name given to a size that is None.

        Args:
            unknown: how the name given to a size that is None begins.
        """
        if isinstance(value, SymDim):
            return value
        if isinstance(value, str):
            return dims.make_symbol(value)
        if value is None:
            return dims.make_symbol(self.result_names.make_unique(unknown))
        return dims.from_torch(value, self.rename_dims)

    def has_shape(self, name: str) -> bool:
        """True when the shape of the result is known (its sizes may be symbolic)."""
        return self._get_info(name).shape is not None

    def get_shape(self, name: str) -> Shape:
        """Shape of a result. BuilderError when it is unknown."""
        shape = self._get_info(name).shape
        if shape is None:
            raise self._unknown_error(
                f"Shape is unknown for result {name!r}; set it with set_shape"
            )
        return shape

    def set_shape(self, name: str, shape: Iterable[Any]) -> None:
        """Sets the shape; sizes already known as ints stay ints, other names of a size are
        replaced.

        BuilderError when the known shape is provably another one."""
        info = self._get_info(name)
        sizes = self.to_shape(shape, name)
        if info.rank is not None and info.rank != len(sizes):
            raise self._shape_error(name, sizes, f"its rank is {info.rank}")
        if info.shape is not None:
            if any(dims.always_differ(a, b) for a, b in zip(info.shape, sizes, strict=True)):
                raise self._shape_error(name, sizes, f"its shape is {describe_shape(info.shape)}")
            sizes = tuple(
                a if isinstance(a, int) else b for a, b in zip(info.shape, sizes, strict=True)
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
            f"Shape of {name!r} cannot be set to {describe_shape(sizes)}, {reason}"
            f" ({self.tag}){self.get_debug_msg()}"
        )

    def _shape_known(self, name: str, shape: Shape) -> None:
        """Hook: sizes in a shape that was just set can be read from the result."""

    def has_rank(self, name: str) -> bool:
        """True when the number of dimensions of the result is known."""
        return self._get_info(name).rank is not None

    def get_rank(self, name: str) -> int:
        """Number of dimensions of a result. BuilderError when it is unknown."""
        rank = self._get_info(name).rank
        if rank is None:
            suffix = "" if self.brief_errors else f", known_ranks={self.known_ranks}"
            raise self._unknown_error(f"Rank is unknown for result {name!r}{suffix}")
        return rank

    def set_rank(self, name: str, rank: int) -> None:
        """Sets the number of dimensions. BuilderError when it is none, or another one is known
        already."""
        info = self._get_info(name)
        if type(rank) is not int or rank < 0:
            raise BuilderError(f"{rank!r} is no rank, for result {name!r} ({self.tag})")
        if info.rank is not None and info.rank != rank:
            raise BuilderError(
                f"Result {name!r} has rank {info.rank}, it cannot be set to {rank}"
                f" ({self.tag}){self.get_debug_msg()}"
            )
        info.rank = rank

    # -- contents

    def value_shape(self, name: str) -> Any:
        """Known content of an integer result: a dim (rank 0), a tuple of dims (rank 1), or None."""
        return self._get_info(name).value

    def set_value_shape(self, name: str, value: Any) -> None:
        """Sets the content of an int64 result of rank 0 (a dim) or 1 (a tuple of dims)."""
        info = self._get_info(name)
        if isinstance(value, (tuple, list)):
            info.value = tuple(v if type(v) is int else self.to_dim(v) for v in value)
        else:
            info.value = value if type(value) is int else self.to_dim(value)

    # -- tables of what is known

    @property
    def known_types(self) -> dict[str, int]:
        """Element types by result."""
        return {name: info.dtype for name, info in self.values.items() if info.dtype}

    @property
    def known_shapes(self) -> dict[str, tuple[int | str, ...]]:
        """Shapes by result, dimensions as text."""
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
        """Known contents of integer results, dimensions as text."""
        return {
            name: describe_value(info.value)
            for name, info in self.values.items()
            if info.value is not None
        }

    @property
    def constants_(self) -> dict[str, Any]:
        """Constant results with their values; None for an initializer or a value nobody asked for
        yet."""
        return {
            name: self.computed_constants.get(name)
            for name in self.values
            if name in self.constant_names
        }

    def get_debug_msg(self) -> str:
        """Everything known so far, as text, for an error message: `Graph` has it."""
        return ""


def check_element_type(name: str, dtype: Any) -> None:
    """Check that a result's type is an ONNX element type.

    Raises:
        BuilderError: it is one of torch or numpy, for example.
    """
    if dtype and (isinstance(dtype, bool | float) or dtype not in dtypes.NAMES):
        raise BuilderError(
            f"{dtype!r} is no element type of ONNX, for result {name!r}: give a number of "
            f"onnx.TensorProto, TensorProto.FLOAT ({dtypes.float32}) for example"
        )


def describe_shape(shape: Sequence[Dim]) -> tuple[int | str, ...]:
    """Shape with symbolic sizes as text."""
    return tuple(dim if isinstance(dim, int) else str(dim) for dim in shape)


def describe_value(value: Any) -> Any:
    """Known content with symbolic sizes as text."""
    if isinstance(value, tuple):
        return tuple(dim if isinstance(dim, int) else str(dim) for dim in value)
    return value if isinstance(value, int) else str(value)

"""What each argument, each result and each operator of a compiled graph is, decided once when it is
compiled: made by `lower` and `partition`, kept by `cache`, read by the call path and the records;
names are for people."""

from __future__ import annotations

import enum
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from onnx import ModelProto, NodeProto

from ortable.dims import Dim

DATA_CHECKS = "data_checks"  # the output of the ONNX graph that stops it; no call fetches it


class InputRoleKind(enum.Enum):
    """What the caller passes at this position."""

    TENSOR = "tensor"
    DIMENSION = "dimension"  # a Python int whose value changes from call to call
    NUMBER = "number"  # a Python float or bool whose value changes from call to call
    CONSTANT = "constant"  # a Python value known when the graph was compiled, or None
    UNUSED = "unused"  # a tensor that nothing in the ONNX graph reads


class OutputRoleKind(enum.Enum):
    """Where the result at this position comes from."""

    TENSOR = "tensor"  # an output of the ONNX graph
    VIEW = "view"  # torch views of an output of the ONNX graph or of an argument
    INPUT = "input"  # the argument itself
    DUPLICATE = "duplicate"  # the same object as an earlier result
    DIMENSION = "dimension"  # a Python int computed from the arguments
    NUMBER = "number"  # a Python float or bool that the ONNX graph computes
    CONSTANT = "constant"  # a Python value known when the graph was compiled
    NONE = "none"


@dataclass(frozen=True)
class InputRole:
    """One argument: position, kind, name of the ONNX input, element type and shape.

    `name` is empty when the argument never reaches ONNX Runtime; `value` is the Python constant, or
    the dimension that an int stands for.  `permutation` is applied to the tensor before it is fed.
    `dense` says that the tensor, so permuted, was contiguous when torch traced the graph.
    `static` tells parameters and buffers that the graph only reads: the same tensor at every call.
    `untracked_writes` says of one that its owner writes it without a trace: it stays an input.
    """

    index: int
    kind: InputRoleKind
    name: str
    elem_type: int | None = None
    shape: tuple[Dim, ...] | None = None
    value: Any = None
    permutation: tuple[int, ...] | None = None
    static: bool = False
    untracked_writes: bool = False
    dense: bool = True
    device: str = "cpu"

    @property
    def is_tensor(self) -> bool:
        return self.kind is InputRoleKind.TENSOR


@dataclass(frozen=True)
class ViewStep:
    """One torch view operator; the tensor goes in front of `args`.  Symbolic ints in the arguments
    are evaluated at each call when `symbolic` is set."""

    op: Any
    args: tuple[Any, ...]
    kwargs: Mapping[str, Any]
    symbolic: bool = False


@dataclass(frozen=True)
class OutputRole:
    """One result: position, kind, readable name, and where it is found.

    `fetch` is a position among the outputs of the ONNX graph (TENSOR, NUMBER, or VIEW of one),
    `source` a position among the arguments (INPUT, or VIEW of one) or among the results
    (DUPLICATE), `value` the constant or the dimension, `steps` the views to apply; `alone` says of
    a VIEW of an output that no other result shares its memory.  `strides` are set when the result
    has other strides than AOTAutograd traced: some tensors saved for the backward do.
    """

    index: int
    kind: OutputRoleKind
    name: str
    fetch: int = -1
    source: int = -1
    value: Any = None
    steps: tuple[ViewStep, ...] = ()
    elem_type: int | None = None
    shape: tuple[Dim, ...] | None = None
    strides: tuple[int, ...] | None = None
    alone: bool = False


@dataclass(frozen=True)
class Fetch:
    """One output of the ONNX graph: its name, whether it holds booleans (they come back as uint8),
    and how to give it the strides that torch promised.

    `permutation` is applied to the fetched tensor (a view, no copy); `strides`, when not None, are
    strides that no permutation gives: the result is copied into them.  A complex result comes back
    as a real one with a last dimension of 2.  `device` is where torch promised it.  `float8` is the
    element type of 8-bit floats, which dlpack does not know.
    """

    name: str
    is_bool: bool = False
    permutation: tuple[int, ...] | None = None
    strides: tuple[Dim, ...] | None = None
    is_complex: bool = False
    device: str = "cpu"
    float8: int | None = None


@dataclass(frozen=True)
class Check:
    """An assertion of the graph: the output of the ONNX graph that must be true, and what is raised
    (RuntimeError, as torch does) before anything is handed out or written where it is not."""

    fetch: int
    message: str


@dataclass(frozen=True)
class RangeCheck:
    """What an operator demands of a tensor, `low <= values < high`: which inputs of the node that
    joins all demands hold the distances to the bounds (-1: that bound is met anyhow), and what is
    raised, with the line of the user's model, where one is negative. Several demands share an
    input, the smallest element of a vector: `element` is the position in that (-1: none)."""

    low_at: int
    high_at: int
    element: int
    low: Any
    high: Any
    error: str
    message: str
    line: str = ""


@dataclass(frozen=True)
class DimSource:
    """Where the value of a symbol is found at call time: an int argument (`axis` None), or a
    dimension of a tensor argument."""

    symbol: str
    index: int
    axis: int | None = None


@dataclass(frozen=True, repr=False)
class CompiledGraph:
    """What one graph became: the model, the roles, and where symbols are found at call time.

    `inputs` and `outputs` follow the arguments and the results; `mutations` copy hidden results
    (those of `outputs` past `n_results`) into arguments, after the `checks` held; the
    session itself stops where one of the `data_checks` does not hold.  `fed` holds the
    names of the ONNX inputs that a node reads.  `device` is where it runs.  `is_partition` tells a
    partition of a graph, around which torch runs the rest, `is_short` one that a single thread
    computes in no time.  `timings` are seconds per phase,
    `rewrites` tells how often each rule of rewriting fired, `refused` why rules did not.
    `fx_names` tells which FX node a result of the ONNX graph is the value of, for those that have
    one (`fft.real` and `fft.imag`: the parts of a complex one), `cases` which case of its entry an
    FX node took (`aten::addmm/2`), where there are several.
    `key` is a digest of all that the conversion read, None where there is none; `cache` says
    where the conversion was found: `miss` (nowhere), `memory` or `disk`.  `label` says to people
    which graph this is; like `timings`, it is that of one graph of those that share the rest.
    """

    model: ModelProto
    kind: str
    inputs: tuple[InputRole, ...]
    outputs: tuple[OutputRole, ...]
    n_results: int
    fetches: tuple[Fetch, ...]
    mutations: tuple[Mutation, ...]
    sources: Mapping[str, DimSource]
    fed: frozenset[str]
    device: str = "cpu"
    is_partition: bool = False
    is_short: bool = False
    timings: dict[str, float] = field(default_factory=dict)
    rewrites: Mapping[str, int] = field(default_factory=dict)
    refused: Mapping[str, Mapping[str, int]] = field(default_factory=dict)
    fx_names: Mapping[str, str] = field(default_factory=dict)
    cases: Mapping[str, str] = field(default_factory=dict)
    checks: tuple[Check, ...] = ()
    data_checks: tuple[RangeCheck, ...] = ()
    key: str | None = None
    cache: str = "miss"
    label: str = ""

    @property
    def is_checked(self) -> bool:
        """Whether a call may raise an error of torch's for its data."""
        return bool(self.checks or self.data_checks)

    def __repr__(self) -> str:
        nodes = len(self.model.graph.node)
        sizes = f"{len(self.inputs)} inputs, {self.n_results} outputs"
        return f"CompiledGraph({self.kind}: {nodes} ONNX nodes, {sizes}, cache={self.cache!r})"


@dataclass(frozen=True)
class Mutation:
    """An argument that the graph overwrites: torch copies the result at `result` into it at the
    end."""

    source: int
    result: int


@dataclass(frozen=True)
class Placement:
    """One operator call of a graph: `where` is "onnx" or "torch"; `why` and the user's `line` are
    given for what runs in torch, and `by` is "fallback" where only that option lets it. `draft` is
    then the YAML of an entry to start from, where the specs have none for the operator."""

    node: str
    operator: str
    where: str
    why: str = ""
    line: str = ""
    by: str = ""
    draft: str = ""


def names_read(nodes: Iterable[NodeProto]) -> Iterator[str]:
    """Names that nodes of ONNX read, once for each reading, in inner graphs too; the outputs of
    those are readings."""
    for node in nodes:
        yield from node.input
        for attribute in node.attribute:
            for inner in (attribute.g, *attribute.graphs):
                yield from names_read(inner.node)
                yield from (value.name for value in inner.output)

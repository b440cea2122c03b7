"""Roles of the arguments, results and operators of a compiled graph, decided at compile time.

`lower` and `partition` make them, `cache` stores them, the call path and the records read them.
Names in them are for messages.
"""

from __future__ import annotations

import enum
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from onnx import ModelProto, NodeProto

from ortable.dims import Dim

DATA_CHECKS = "data_checks"  # an output of the ONNX graph that no call fetches; it stops a run


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
    the dimension that an int stands for. `permutation` is applied to the tensor before it is fed.
    `dense`: the tensor, so permuted, was contiguous when torch traced the graph. `static`: a
    parameter or buffer that the graph only reads, the same tensor at every call.
    `untracked_writes`: its owner writes it without a version change, so it stays an input.
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
    """One torch view operator; the tensor is passed before `args`.

    Symbolic ints in the arguments are evaluated at each call when `symbolic` is set.
    """

    op: Any
    args: tuple[Any, ...]
    kwargs: Mapping[str, Any]
    symbolic: bool = False


@dataclass(frozen=True)
class OutputRole:
    """One result: position, kind, readable name, and its source.

    `fetch` is a position among the outputs of the ONNX graph (TENSOR, NUMBER, or VIEW of one),
    `source` a position among the arguments (INPUT, or VIEW of one) or among the results
    (DUPLICATE), `value` the constant or the dimension, `steps` the views to apply. `alone`: no
    other result shares the memory of this VIEW of an output. `strides` are set when the result has
    other strides than AOTAutograd traced: some tensors saved for the backward do.
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
    """One output of the ONNX graph, and how to convert it to what torch expects.

    `is_bool`: it holds booleans, which come back as uint8. `permutation` is applied to the fetched
    tensor (a view, no copy); `strides`, when not None, are strides that no permutation gives: the
    result is copied into them. A complex result comes back as a real one with a last dimension of
    2. `device` is where torch expects it. `float8` is the element type of 8-bit floats, which
    dlpack does not support.
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
    """An assertion of the graph: the ONNX output that must be true, and the message of the error.

    As in torch it is a RuntimeError, raised before any result is returned or written.
    """

    fetch: int
    message: str


@dataclass(frozen=True)
class RangeCheck:
    """A requirement of an operator on a tensor, `low <= values < high`.

    `low_at` and `high_at` are the inputs of the node that joins all requirements which hold the
    distances to the bounds (-1: that bound holds anyhow). Where one is negative, `error` is raised,
    with the line of the user's model. Several requirements share an input, the smallest element of
    a vector: `element` is the position in that (-1: none).
    """

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
    """Where the value of a symbol comes from at call time.

    It is an int argument (`axis` None), or a dimension of a tensor argument.
    """

    symbol: str
    index: int
    axis: int | None = None


@dataclass(frozen=True, repr=False)
class CompiledGraph:
    """One converted graph: the model, the roles, and where symbols come from at call time.

    `inputs` and `outputs` follow the arguments and the results; `mutations` copy hidden results
    (those of `outputs` past `n_results`) into arguments, after the `checks` passed; the session
    itself stops where one of the `data_checks` fails. `fed` holds the names of the ONNX inputs that
    a node reads. `device` is where it runs. `is_partition`: torch runs the rest of the graph;
    `is_short`: a single thread computes it in no time. `timings` are seconds per phase, `rewrites`
    counts how often each rewrite rule fired, `refused` the reasons why rules did not. `fx_names`
    maps results of the ONNX graph to FX nodes, for those that have one (`fft.real` and `fft.imag`:
    the parts of a complex one), `cases` maps an FX node to the case of its entry (`aten::addmm/2`),
    where there are several. `key` is a digest of all that the conversion read, None where there is
    none; `cache` is where the conversion was found: `miss` (nowhere), `memory` or `disk`. `label`
    names the graph in messages; like `timings`, it is that of one graph of those that share the
    rest.
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
    """An argument that the graph overwrites: torch copies `result` into it at the end."""

    source: int
    result: int


@dataclass(frozen=True)
class Placement:
    """One operator call of a graph, and where it runs: `where` is "onnx" or "torch".

    For torch, `why` and the user's `line` are set, and `by` is "fallback" where only that option
    allows it. `draft` is then the YAML of an entry to start from, where the specs have none.
    """

    node: str
    operator: str
    where: str
    why: str = ""
    line: str = ""
    by: str = ""
    draft: str = ""


def names_read(nodes: Iterable[NodeProto]) -> Iterator[str]:
    """Yield the names that ONNX nodes read, once per use, including inner graphs and their
    outputs.
    """
    for node in nodes:
        yield from node.input
        for attribute in node.attribute:
            for inner in (attribute.g, *attribute.graphs):
                yield from names_read(inner.node)
                yield from (value.name for value in inner.output)

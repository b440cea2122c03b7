"""Roles of the arguments, results and operators of a compiled graph, assigned at compile time.

`lower` and `partition` create the roles, `cache` stores them, and `execute` and `aot.records` read
them. Names of input roles and fetches are those of the ONNX model.
"""

from __future__ import annotations

import enum
import operator
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from onnx import ModelProto, NodeProto
from torch import Tensor

from ortable.dims import Dim

DATA_CHECKS = "data_checks"  # an output that no call fetches; its node can fail a run


class InputRoleKind(enum.Enum):
    """How the argument at a position is passed to ONNX Runtime."""

    TENSOR = "tensor"
    DIMENSION = "dimension"  # a Python int whose value changes from call to call
    NUMBER = "number"  # a Python float or bool whose value changes from call to call
    CONSTANT = "constant"  # a Python value known when the graph was compiled, or None
    UNUSED = "unused"  # a tensor that nothing in the ONNX graph reads


class OutputRoleKind(enum.Enum):
    """The source of the result at a position."""

    TENSOR = "tensor"  # an output of the ONNX graph
    VIEW = "view"  # torch views of an output of the ONNX graph or of an argument
    INPUT = "input"  # the argument itself
    DUPLICATE = "duplicate"  # the same object as an earlier result
    DIMENSION = "dimension"  # a Python int computed from the arguments
    NUMBER = "number"  # a Python float or bool that the ONNX graph computes
    CONSTANT = "constant"  # a Python value known when the graph was compiled
    NONE = "none"  # None


@dataclass(frozen=True)
class InputRole:
    """One argument: position, kind, name of the ONNX input, element type and shape.

    `name` is empty if the argument is not passed to ONNX Runtime. `value` is the Python constant,
    or the dimension that an int stands for. `permutation` is applied to the tensor before it is
    fed. `dense`: the permuted tensor was contiguous when torch traced the graph. `static`: the
    argument is a parameter or buffer that the graph only reads, the same tensor at every call.
    `untracked_writes`: torch may write to the tensor without a version change, so that it cannot
    become a constant.
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
        """Whether the argument is fed as a tensor."""
        return self.kind is InputRoleKind.TENSOR


@dataclass(frozen=True)
class ViewStep:
    """One torch view operator, called with the tensor followed by `args`.

    If `symbolic` is set, symbolic ints in the arguments are evaluated at each call.
    """

    op: Any
    args: tuple[Any, ...]
    kwargs: Mapping[str, Any]
    symbolic: bool = False


@dataclass(frozen=True)
class OutputRole:
    """One result: position, kind, a name for messages, and its source.

    `fetch` is a position among the outputs of the ONNX graph (TENSOR, NUMBER, or VIEW of an
    output). `source` is a position among the arguments (INPUT, or VIEW of an argument) or among the
    results (DUPLICATE). `value` is the constant or the dimension, `steps` are the views to apply.
    `alone`: the result is a VIEW of an output whose memory no other result shares. `strides` are
    set if the result has other strides than AOTAutograd traced, as some tensors saved for the
    backward graph do.
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
    """One output of the ONNX graph, and its conversion to the tensor that torch expects.

    `is_bool`: a bool tensor, which ONNX Runtime returns as uint8. `permutation` is applied to the
    fetched tensor (a view, no copy). `strides`, if not None, are strides that no permutation gives:
    the result is copied into a tensor with these strides. `is_complex`: the ONNX output is real,
    with a last dimension of 2. `device` is where torch expects the result. `float8` is the element
    type of 8-bit floats, which dlpack does not support, and None for other types.
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
    """An assertion of the graph: the ONNX output that must be true, and the error message.

    With a ``comparison``, the output's value, or its size along ``dim``, is compared to ``bound``.
    As in torch, a failure is a RuntimeError, raised before any result is returned or written.
    """

    fetch: int
    message: str
    comparison: str = ""
    bound: int = 0
    dim: int | None = None

    def is_satisfied(self, output: Tensor) -> bool:
        """Return whether the output, a tensor, passes the check."""
        value = output.item() if self.dim is None else output.shape[self.dim]
        return bool(
            getattr(operator, self.comparison)(value, self.bound) if self.comparison else value
        )


@dataclass(frozen=True)
class RangeCheck:
    """A requirement of an operator on a tensor, `low <= values < high`.

    One Min node checks all requirements of the graph. `low_at` and `high_at` are the indices of its
    inputs that hold the distances to the bounds (-1: this bound always holds). If a distance is
    negative, `error` is raised with the line of the user's model. If `element` is not -1, several
    requirements share the input: their distances are the elements of a vector, at `element` for
    this requirement, and the input is the smallest element.
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
    """The source of a symbol's value at call time.

    It is an int argument (`axis` None), or a dimension of a tensor argument.
    """

    symbol: str
    index: int
    axis: int | None = None


@dataclass(frozen=True, repr=False)
class CompiledGraph:
    """One converted graph: the ONNX model, the roles, and the sources of symbols at call time.

    `kind` is "forward", "backward" or "inference". `inputs` and `outputs` are in the order of the
    arguments and the results. After the `checks` have passed, `mutations` copy hidden results
    (`outputs` from `n_results` on) into arguments. A failing check of `data_checks` makes the run
    of the session fail. `fed` holds all names that nodes read, and the outputs: an input of another
    name is not fed. `device` is where the graph runs. `is_partition`: torch runs the rest of the
    graph. `is_short`: the graph has so little work that a single thread suffices. `timings` are
    seconds per phase. `rewrites` counts how often each rewrite rule fired, `refused` how often a
    rule did not fire, for each reason. `fx_names` maps results of the ONNX graph to their FX nodes,
    if any (`fft.real` and `fft.imag` are the parts of a complex result). `cases` maps FX nodes to
    the case of the operator's entry (`aten::addmm/2`) if the entry has several. `key` is a digest
    of everything that the conversion read, or None. `cache` is where the conversion was found:
    `miss` (nowhere), `memory` or `disk`. `label` names the graph in messages. Cached conversions
    share all fields except `label` and `timings`.
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
        """Whether a call may raise a torch error because of its data."""
        return bool(self.checks or self.data_checks)

    def __repr__(self) -> str:
        nodes = len(self.model.graph.node)
        sizes = f"{len(self.inputs)} inputs, {self.n_results} outputs"
        return f"CompiledGraph({self.kind}: {nodes} ONNX nodes, {sizes}, cache={self.cache!r})"


@dataclass(frozen=True)
class Mutation:
    """An argument that the graph overwrites: torch copies `result` into it after the run."""

    source: int
    result: int


@dataclass(frozen=True)
class Placement:
    """One operator call of a graph, and where it runs: `where` is "onnx" or "torch".

    If it runs in torch, `why` and the user's `line` are set, and `by` is "fallback" if option
    `fallback` caused it. If the specs have no entry for the operator, `draft` is the YAML of an
    entry to start from.
    """

    node: str
    operator: str
    where: str
    why: str = ""
    line: str = ""
    by: str = ""
    draft: str = ""


def names_read(nodes: Iterable[NodeProto]) -> Iterator[str]:
    """Yield the names that ONNX nodes read, once per use, including those in subgraphs."""
    for node in nodes:
        yield from node.input
        for attribute in node.attribute:
            for subgraph in (attribute.g, *attribute.graphs):
                yield from names_read(subgraph.node)
                yield from (value.name for value in subgraph.output)

"""One view of everything that to_onnx takes: a graph to convert, where its weights are, and what
its inputs and outputs mean. Also the request that leads to it: the arguments of to_onnx. Made by
conversion.py and `capture`, read by every part of `exporter`."""

from __future__ import annotations

import enum
import linecache
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import KW_ONLY, dataclass, field
from pathlib import Path
from typing import Any, Literal

from torch.export import ExportedProgram
from torch.fx import GraphModule, Node

from ortable.exporter.request.module_calls import FunctionChoices
from ortable.exporter.request.options import ExportOptions
from ortable.interpreter import results
from ortable.interpreter.tables import ConverterTables
from ortable.passes.pipeline import PassOptions
from ortable.passes.rewrite.record import RewriteRecord
from ortable.passes.weight_codes import Stored, WeightOptions

# In the order in which they happen; a phase that did not happen is absent from ``seconds``.
PHASES = (
    "export", "decompose", "convert", "rewrite", "round weights", "serialise", "validate", "write",
)  # fmt: skip


@dataclass
class ExportRecord:
    """The account of a conversion, at ``builder.record`` when ``return_builder=True``.

    ``strategy``: how the torch graph was made; empty when the caller gave one. ``steps``: what
    torch did to the graph before it was converted, in words. ``seconds``: wall-clock seconds by
    phase, see ``PHASES``. ``guards``: conditions on sizes under which the model is the module.
    ``comparisons``: what ``validate=True`` compared; ``accepted``: the largest difference that
    ``validate=0.001`` asked for. ``rewrites``: which rules fired where, how often each was
    tried, and why it was refused. ``assertions``: what the program checks when it
    runs (``assert``, ``torch._check``) and the model does not, since ONNX has no operator that
    raises. ``weights``: the WeightReport or StoredWeights of ``weights=``, None without. ``sides``:
    how many programs the model chooses among, by branches on sizes; 1 where there is no choice.
    """

    strategy: str = ""
    steps: list[str] = field(default_factory=list)
    seconds: dict[str, float] = field(default_factory=dict)
    guards: list[Guard] = field(default_factory=list)
    comparisons: list[Any] = field(default_factory=list)
    accepted: float | None = None
    rewrites: RewriteRecord = field(default_factory=RewriteRecord)
    assertions: list[str] = field(default_factory=list)
    weights: Any = None
    sides: int = 1
    verbose: int = 0
    progress: Callable[[str, float], None] | None = None

    @contextmanager
    def phase(self, name: str) -> Iterator[None]:
        """Add the seconds of the block to a phase, and tell ``progress`` when it ended well."""
        start = time.perf_counter()
        try:
            yield
        finally:
            taken = time.perf_counter() - start
            self.seconds[name] = self.seconds.get(name, 0.0) + taken
        if self.progress is not None:
            self.progress(name, taken)

    def say(self, phase: str, *parts: str) -> None:
        """Print a line about a phase that has ended, when ``verbose`` asks for it."""
        if self.verbose:
            seconds = self.seconds.get(phase, 0.0)
            print(f"[to_onnx] {'; '.join((phase, *parts))} ({seconds:.3f} s)")


@dataclass(frozen=True)
class Guard:
    """A condition on sizes, in words of the caller (``batch % 8 == 7``), and the line of the model
    that decides; None where torch's own code does and dynamo did not read the line, and in a
    program that was saved. ``holds`` says whether it is met, given the values of torch's symbols by
    their names. ``condition`` is the same as an expression of these symbols, None in a program that
    was saved."""

    text: str
    line: UserLine | None
    holds: Callable[[Mapping[str, int]], bool]
    condition: Any = None

    def __str__(self) -> str:
        return self.text if self.line is None else f"{self.text}\n    at {self.line}"

    def short(self) -> str:
        """In one line, for metadata and reports."""
        if self.line is None:
            return self.text
        return f"{self.text} ({Path(self.line.file).name}:{self.line.line})"


@dataclass(frozen=True)
class UserLine:
    """A line of the user's model, or of a library that it is made of."""

    file: str
    line: int
    function: str
    text: str = ""

    @property
    def code(self) -> str:
        """The text of the line, empty when the source is not there."""
        return self.text or linecache.getline(self.file, self.line).strip()

    def __str__(self) -> str:
        text = f"{self.file}:{self.line}, in {self.function}"
        return f"{text}\n    {self.code}" if self.code else text


ProgramOutputKind = Literal["user", "buffer", "input"]


@dataclass(frozen=True)
class ProgramOutput:
    """One entry of the flattened FX output: a result of the user's forward, or the new value of a
    buffer or of an input. ``label`` is the way to a result in what the forward returns."""

    kind: ProgramOutputKind
    target: str = ""
    is_none: bool = False
    label: str = ""


@dataclass(frozen=True)
class SmallestSize:
    """The smallest size of a dimension for which a program is proved to hold, and why it does not
    hold below."""

    size: int
    reason: str = ""


@dataclass
class Program:
    """A graph ready to be converted.

    ``graph_module``: the graph; ``weights``: placeholder name -> tensor; ``paths``: placeholder
    name -> name in the state_dict; ``fakes``: ONNX input -> names in the state_dict, of weights
    without data once they are inputs; ``user_inputs``: the placeholders that are inputs of the
    user's forward; ``outputs``: the results, and what it writes; ``output_structure``: what the
    forward returns, a TreeSpec; ``symbol_names``: torch's symbols -> names of dimensions, of which
    ``users_dims`` are the caller's; ``open_dims``: symbols for which the caller gave no smallest
    size, ``open_tops``: those with no largest; ``notes``: what was done to get here; ``exported``:
    torch's program, None where a graph was given; ``guards``: conditions on sizes that the program
    needs; ``initializers``: initializer -> its names in the state_dict (several for tied weights),
    filled by the conversion; ``tied``: placeholder -> the first placeholder of the same weight;
    ``results``: result of the graph -> the FX node whose value it is, filled by the conversion
    where no module becomes a function, and so is ``cases``: FX node -> the case of its entry that
    converted it, where there are several; ``ranges``: torch's symbols -> ranges, where these are
    not those of ``exported``; ``smallest``: torch's symbols -> the smallest size, where 1 or 0 was
    proved or refused.
    """

    graph_module: GraphModule
    weights: dict[str, Any] = field(default_factory=dict)
    paths: dict[str, str] = field(default_factory=dict)
    fakes: dict[str, list[str]] = field(default_factory=dict)
    user_inputs: list[Node] = field(default_factory=list)
    outputs: list[ProgramOutput] = field(default_factory=list)
    output_structure: Any = None
    symbol_names: dict[str, str] = field(default_factory=dict)
    users_dims: frozenset[str] = frozenset()
    open_dims: set[str] = field(default_factory=set)
    open_tops: set[str] = field(default_factory=set)
    notes: list[str] = field(default_factory=list)
    exported: ExportedProgram | None = None
    guards: list[Guard] = field(default_factory=list)
    initializers: dict[str, list[str]] = field(default_factory=dict)
    tied: dict[str, str] = field(default_factory=dict)
    results: dict[str, str] = field(default_factory=dict)
    cases: dict[str, str] = field(default_factory=dict)
    ranges: dict[Any, Any] | None = None
    smallest: dict[str, SmallestSize] = field(default_factory=dict)

    def retrieve(self, node: Node) -> Any:
        """The weight that a placeholder stands for, None when it is an input."""
        return self.weights.get(node.name)

    def onnx_inputs(self) -> list[Node]:
        """The user's inputs that become ONNX inputs: tensors and symbolic integers, not numbers,
        strings, members of enumerations or None."""
        constants = (bool, int, float, str, type(None), enum.Enum)
        return [
            node for node in self.user_inputs if not isinstance(results.node_value(node), constants)
        ]


@dataclass(frozen=True)
class Request:
    """What the caller of to_onnx asks for, checked by `exporter/arguments.py`.

    ``model`` is the module, program or graph; ``args`` and ``kwargs`` the example call.
    ``extra_inputs`` are torch's AdditionalInputs, which the exported program has to take as well.
    ``record`` is filled on the way. ``passes`` run on the graph; ``functions`` says what becomes a
    local function, None for nothing. ``outgrown``: weights of so many bytes make a LargeModel;
    None: those that no protobuf file holds, where there is a file to write. The others are
    arguments of to_onnx.
    """

    model: Any
    args: tuple[Any, ...]
    kwargs: dict[str, Any]
    dynamic_shapes: Any
    options: ExportOptions
    tables: ConverterTables
    dispatcher: Any
    record: ExportRecord
    _: KW_ONLY
    extra_inputs: Any
    opsets: int | dict[str, int]
    target: str | None
    passes: PassOptions
    functions: FunctionChoices | None
    weights: WeightOptions | Stored | None
    max_error: float | None
    input_names: Any
    output_names: Any
    output_dynamic_shapes: Any
    inline: bool
    large_model: bool
    external_threshold: int
    outgrown: int | None
    filename: Any
    validate: bool | float
    report: Any
    return_builder: bool

    @property
    def opset(self) -> int:
        """The opset of the main domain."""
        return self.opsets if isinstance(self.opsets, int) else self.opsets[""]

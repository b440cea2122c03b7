"""Define the state of a conversion: options, request, program and record.

`ExportOptions` holds options of the caller, `Request` the checked arguments of to_onnx, `Program`
the graph to convert with its weights, inputs and outputs, and `ExportRecord` the log. All of
`exporter` reads them.
"""

from __future__ import annotations

import enum
import linecache
import os
import time
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import KW_ONLY, dataclass, field, fields, replace
from pathlib import Path
from types import NoneType
from typing import Any, Literal

import torch
from torch.export import ExportedProgram
from torch.fx import GraphModule, Node

from ortable.compat.torch import OperatorBase, decomposition_table
from ortable.errors import OptionError
from ortable.exporter.frontend.module_calls import FunctionChoices, checked_functions
from ortable.interpreter import results
from ortable.interpreter.tables import ConverterTables
from ortable.ir.versions import OLDEST_TARGET_OPSET
from ortable.passes.pipeline import PassOptions
from ortable.passes.rewrite.record import RewriteRecord
from ortable.passes.weight_quantization import Stored, WeightOptions
from ortable_generated.aten import traits

Undo = Callable[[], None]


# Patches of bypass_export_some_errors that are active in this thread; None outside of
# that context manager.
ACTIVE_PATCHES: ContextVar[tuple[str, ...] | None] = ContextVar(
    "ortable_bypass_patches", default=None
)


def is_bypass_active() -> bool:
    """Whether this thread is inside bypass_export_some_errors."""
    return ACTIVE_PATCHES.get() is not None


def active_patches() -> tuple[str, ...]:
    """Return the patches that are active in this thread, in the order of the documentation."""
    return ACTIVE_PATCHES.get() or ()


TABLE_NAMES = (None, "none", "default", "all")
DecompositionTable = dict[Any, Callable[..., Any]]


def _check_table(table: Any) -> None:
    if not isinstance(table, Mapping):
        if table not in TABLE_NAMES:
            raise OptionError(
                f"ExportOptions.decomposition_table is one of {TABLE_NAMES} or a dict from "
                "overload to function, "
                f"not {table!r}"
            )
        return
    for overload, function in table.items():
        if not isinstance(overload, OperatorBase) or not callable(function):
            raise OptionError(
                "ExportOptions.decomposition_table as a dict maps overloads to functions, for "
                "example {torch.ops.aten.relu.default: f}, not "
                f"{overload!r} to {function!r}"
            )


def _resolve_table(
    option: str | Mapping[Any, Callable[..., Any]] | None,
) -> DecompositionTable | None:
    """Return the decomposition table of the option as a new dict.

    None and ``"none"``: None, which keeps every operator that has a converter. ``"default"``:
    torch.export's table. ``"all"``: torch.export's table, and every decomposition that torch
    registers except incorrect ones (the trait `never_decompose`). A dict: a copy of it.
    """
    if option is None or option == "none":
        return None
    if isinstance(option, Mapping):
        return dict(option)
    table = torch.export.default_decompositions()
    if option == "default":
        return table
    all_decompositions = {**decomposition_table, **dict(table.items())}
    return {
        op: decomposition
        for op, decomposition in all_decompositions.items()
        if op.name() not in traits.NEVER_DECOMPOSE
    }


def _is_instance(*types: type) -> Callable[[Any], bool]:
    return lambda value: isinstance(value, types)


def _accept_values(*values: str) -> tuple[Callable[[Any], bool], str]:
    return values.__contains__, f"one of {values}"


# Checks of single options: a predicate for values, and a text that describes accepted values.
_OPTION_CHECKS: dict[str, tuple[Callable[[Any], bool], str]] = {
    **dict.fromkeys(
        ("constant_folding", "fallback", "tracing", "loops", "validate", "value_info"),
        (_is_instance(bool), "True or False"),
    ),
    "strict": (_is_instance(bool, NoneType), "True, False or None"),
    "save_ep": (
        lambda value: (
            value is None or (_is_instance(str, os.PathLike)(value) and os.fspath(value) != "")
        ),
        "the name of a .pt2 file or None",
    ),
    "progress": (
        lambda value: value is None or callable(value),
        "called with a phase and its seconds, or None",
    ),
    "doc_string": (_is_instance(str, NoneType), "a text or None"),
    "guards": _accept_values("warn", "error", "ignore"),
    "initializer_names": _accept_values("placeholders", "state_dict"),
    "function_weights": _accept_values("auto", "inputs", "constants"),
    "metadata": (_is_instance(Mapping, NoneType), "a dict from text to text or None"),
}


@dataclass(frozen=True)
class ExportOptions:
    """Options of an export, most of them for the capture of the torch graph.

    Args:
        strict: the mode of ``torch.export``: False runs the Python code with fake tensors, True
            traces it with dynamo; None, the default, uses dynamo only if False fails.
        decomposition_table: None or ``"none"`` decomposes no operator that has a converter;
            ``"default"`` is torch.export's table; ``"all"`` adds every decomposition that torch
            registers; a dict maps overloads to functions. The backend has the same option.
        constant_folding: with ``optimize``, compute at export the results that depend only on
            constants, up to 1 MiB each. A weight that is only used transposed is stored
            transposed, as ``<name>_transposed``, and rewrite rules replace weights of any size by
            computed ones, ``<name>_scaled``. False keeps all weights as in the state_dict; so
            does ``large_model``.
        fallback: if torch cannot capture the graph, try other strategies in the order of
            docs/export-failures.md; ``record.strategy`` and the model's metadata list the
            strategy that worked and the errors of the others.
        tracing: capture both sides of every branch on a tensor (``if x.sum() > 0``) in an If.
        loops: capture every Python loop over a dynamic size as a Scan, instead of unrolling it to
            the number of steps of the example.
        save_ep: a file (``.pt2``) to which the exported program is also saved by
            torch.export.save, before decompositions; ``<save_ep>.graph`` has its graph as text.
        validate: compare the exported program with the module on the example call before the
            conversion.
        progress: a function that is called at the end of each phase with its name and seconds.
        initializer_names: ``"state_dict"`` names weights as the module does (``linear.weight``),
            ``"placeholders"`` as torch.export's inputs (``p_linear_weight``).
        metadata: additional entries for the model's ``metadata_props``.
        value_info: also write type and shape of every intermediate result into the model.
        doc_string: the text that describes the model; by default the docstring of the module's
            class, unless it is a class of torch.
        function_weights: how local functions get the weights of their modules: as ``"inputs"``
            (equal modules then share a function) or ``"constants"``; ``"auto"`` uses inputs for
            modules of torch and constants for yours. Weights that ``large_model`` keeps outside
            are always inputs.
        functions: further parts that become local functions: ``"autocast"`` (regions),
            ``"subgraphs"`` (``torch.compiler.nested_compile_region``) and ``"custom_ops"`` (the
            Python bodies of operators of ``torch.library`` that have no converter);
            ``export_modules_as_functions=True`` includes the first two.
        guards: how to report conditions on dynamic sizes, such as ``if x.shape[0] % 8 == 7``, for
            which the graph contains only the side that the example takes: ``"warn"``, ``"error"``
            or ``"ignore"``. The model's metadata (``ortable.guards``) always lists them.

    Raises:
        OptionError: an option has an invalid value.
    """

    strict: bool | None = None
    decomposition_table: (
        Literal["none", "default", "all"] | Mapping[Any, Callable[..., Any]] | None
    ) = None
    constant_folding: bool = True
    fallback: bool = False
    tracing: bool = False
    loops: bool = False
    save_ep: str | os.PathLike[str] | None = None
    validate: bool = False
    progress: Callable[[str, float], None] | None = None
    initializer_names: Literal["state_dict", "placeholders"] = "state_dict"
    metadata: Mapping[str, str] | None = None
    value_info: bool = True
    doc_string: str | None = None
    function_weights: Literal["auto", "inputs", "constants"] = "auto"
    functions: Collection[Literal["autocast", "subgraphs", "custom_ops"]] = ()
    guards: Literal["warn", "error", "ignore"] = "warn"

    def __post_init__(self) -> None:
        for name, (accepts, accepted_text) in _OPTION_CHECKS.items():
            value = getattr(self, name)
            if not accepts(value):
                raise OptionError(f"ExportOptions.{name} is {accepted_text}, not {value!r:.80}")
        if self.tracing and self.loops:
            raise OptionError("ExportOptions accepts either tracing or loops, not both")
        object.__setattr__(self, "functions", checked_functions(self.functions))
        _check_table(self.decomposition_table)
        for key, value in (self.metadata or {}).items():
            if not isinstance(key, str) or not key or not isinstance(value, str):
                raise OptionError(
                    f"ExportOptions.metadata maps texts to texts, not {key!r} to {value!r}"
                )
            if key.startswith("ortable.") or key == "torch.version":
                raise OptionError(
                    f"the key '{key}' in ExportOptions.metadata is reserved: to_onnx writes it"
                )

    @classmethod
    def names(cls) -> tuple[str, ...]:
        """Return the names of the options."""
        return tuple(field.name for field in fields(cls))

    def table(self) -> dict[Any, Callable[..., Any]] | None:
        """Return the decompositions to apply; None keeps every operator that has a converter."""
        return _resolve_table(self.decomposition_table)


def checked_options(options: Any) -> ExportOptions:
    """Return ``options``, or the defaults for None.

    Inside bypass_export_some_errors the result has ``fallback=True``. Raises OptionError for other
    types.
    """
    if options is None:
        options = ExportOptions()
    if isinstance(options, ExportOptions):
        return replace(options, fallback=True) if is_bypass_active() else options
    raise OptionError(
        f"export_options is an ExportOptions or None, not {type(options).__name__}; "
        f"its fields are {', '.join(ExportOptions.names())}"
    )


# Phases in the order in which they run; ``seconds`` lacks a phase that did not run.
PHASES = (
    "export", "decompose", "convert", "rewrite", "round weights", "serialise", "validate", "write",
)  # fmt: skip


@dataclass
class ExportRecord:
    """Log of a conversion, at ``builder.record`` with ``return_builder=True``.

    ``strategy`` says how torch captured the graph; it is empty if the caller gave a graph.
    ``steps`` has one note for each step of the export. ``seconds`` maps phases, see ``PHASES``, to
    wall-clock seconds. ``guards`` are conditions on sizes under which the model equals the module.
    ``comparisons`` are the results of ``validate``, and ``accepted`` is its tolerance, None unless
    it is a float. ``rewrites`` says where each rule fired, how often it was tried, and why it was
    rejected. ``assertions`` are runtime checks of the program (``assert``, ``torch._check``), which
    the model lacks because ONNX has no operator that raises. ``weights`` is the WeightReport or
    StoredWeights of ``weights=``, or None. ``sides`` is the number of programs among which branches
    on sizes select in the model, 1 without such branches. ``verbose`` and ``progress`` are options.
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
        """Add the seconds of the block to a phase; if it does not raise, call ``progress``."""
        start = time.perf_counter()
        try:
            yield
        finally:
            elapsed = time.perf_counter() - start
            self.seconds[name] = self.seconds.get(name, 0.0) + elapsed
        if self.progress is not None:
            self.progress(name, elapsed)

    def log_phase(self, phase: str, *parts: str) -> None:
        """Print a line about a phase that has ended if ``verbose`` is set."""
        if self.verbose:
            seconds = self.seconds.get(phase, 0.0)
            print(f"[to_onnx] {'; '.join((phase, *parts))} ({seconds:.3f} s)")


@dataclass(frozen=True)
class Guard:
    """A condition on sizes, with the caller's names (``batch % 8 == 7``).

    ``line`` is the line of the model that branches on the condition. It is None in a saved program,
    and if the branch is in torch's code and dynamo did not record the line. ``holds`` takes values
    of torch's symbols by name and returns whether the condition holds. ``condition`` is the
    condition as an expression of these symbols, None in a saved program. ``is_stated`` marks a
    condition that the caller stated, or that the program asserts; no warning names it.
    """

    text: str
    line: UserLine | None
    holds: Callable[[Mapping[str, int]], bool]
    condition: Any = None
    is_stated: bool = False

    def __str__(self) -> str:
        return self.text if self.line is None else f"{self.text}\n    at {self.line}"

    def one_line(self) -> str:
        """Return the guard as a single line for metadata and reports."""
        if self.line is None:
            return self.text
        return f"{self.text} ({Path(self.line.file).name}:{self.line.line})"


@dataclass(frozen=True)
class Assumption:
    """A condition on sizes that the caller states.

    ``text`` has the caller's names; ``expression`` is a relation of sympy, whose symbols have
    these names.
    """

    text: str
    expression: Any

    @property
    def names(self) -> set[str]:
        """Names of the dimensions in the condition."""
        return {str(symbol) for symbol in self.expression.free_symbols}

    def holds(self, sizes: Mapping[str, int]) -> bool:
        """Whether the condition holds for sizes by name; true if a size is missing."""
        if not self.names <= sizes.keys():
            return True
        values = {symbol: sizes[str(symbol)] for symbol in self.expression.free_symbols}
        try:
            return bool(self.expression.subs(values))
        except ZeroDivisionError:
            return False


@dataclass(frozen=True)
class UserLine:
    """A line of the user's model, or of a library that the model uses."""

    file: str
    line: int
    function: str
    text: str = ""

    @property
    def code(self) -> str:
        """Source text of the line; empty if the source is not available."""
        return self.text or linecache.getline(self.file, self.line).strip()

    def __str__(self) -> str:
        text = f"{self.file}:{self.line}, in {self.function}"
        return f"{text}\n    {self.code}" if self.code else text


ProgramOutputKind = Literal["user", "buffer", "input"]


@dataclass(frozen=True)
class ProgramOutput:
    """An element of the flattened output of the FX graph.

    The element is a result of the user's forward, or the new value of the buffer or input
    ``target``. ``label`` is the path of the result in the structure that forward returns.
    """

    kind: ProgramOutputKind
    target: str = ""
    is_none: bool = False
    label: str = ""


@dataclass(frozen=True)
class SmallestSize:
    """The smallest size that a program supports, and the reason why it rejects smaller ones."""

    size: int
    reason: str = ""


@dataclass
class Program:
    """A graph that is ready for conversion.

    ``weights`` maps placeholder names to tensors, ``paths`` placeholder names to names in the
    state_dict, and ``tied`` placeholders to the first placeholder of the same weight.
    ``fake_weight_inputs`` maps ONNX inputs that were weights without data to names in the
    state_dict. ``user_inputs`` are the placeholders that are inputs of the user's forward.
    ``outputs`` are results and mutations, and ``output_structure`` is the TreeSpec of forward's
    result. ``symbol_names`` maps torch's symbols to names of dimensions; the caller gave those in
    ``user_dims``. For the symbols in ``open_dims`` and ``open_maximums`` the caller gave no
    smallest or no largest size. ``ranges`` maps torch's symbols to ranges, if these differ from
    those of ``exported``; ``smallest`` maps torch's symbols to the smallest size, if 0 and 1 were
    tried. ``notes`` has one note for each step so far. ``exported`` is torch's program, None if the
    caller gave a graph. ``guards`` are conditions on sizes that the program requires.

    The conversion fills ``initializers``, which maps initializers to names in the state_dict
    (several for tied weights). If no module becomes a function, it also fills ``results``, which
    maps results of the graph to FX nodes with the same value, and ``cases``, which maps FX nodes to
    the case of their entry that converted them, if the entry has several.
    """

    graph_module: GraphModule
    weights: dict[str, Any] = field(default_factory=dict)
    paths: dict[str, str] = field(default_factory=dict)
    fake_weight_inputs: dict[str, list[str]] = field(default_factory=dict)
    user_inputs: list[Node] = field(default_factory=list)
    outputs: list[ProgramOutput] = field(default_factory=list)
    output_structure: Any = None
    symbol_names: dict[str, str] = field(default_factory=dict)
    user_dims: frozenset[str] = frozenset()
    open_dims: set[str] = field(default_factory=set)
    open_maximums: set[str] = field(default_factory=set)
    notes: list[str] = field(default_factory=list)
    exported: ExportedProgram | None = None
    guards: list[Guard] = field(default_factory=list)
    initializers: dict[str, list[str]] = field(default_factory=dict)
    tied: dict[str, str] = field(default_factory=dict)
    results: dict[str, str] = field(default_factory=dict)
    cases: dict[str, str] = field(default_factory=dict)
    ranges: dict[Any, Any] | None = None
    smallest: dict[str, SmallestSize] = field(default_factory=dict)

    def get_weight(self, node: Node) -> Any:
        """Return the weight of a placeholder, or None if it is an input."""
        return self.weights.get(node.name)

    def onnx_inputs(self) -> list[Node]:
        """Return the user's inputs that become ONNX inputs.

        These are tensors and symbolic integers, not numbers, strings, members of enumerations or
        None.
        """
        constants = (bool, int, float, str, type(None), enum.Enum)
        return [
            node for node in self.user_inputs if not isinstance(results.node_value(node), constants)
        ]


@dataclass(frozen=True)
class Request:
    """Checked arguments of to_onnx, created by `exporter/arguments.py`.

    ``model`` is the module, program or graph; ``args`` and ``kwargs`` are the example call.
    ``extra_inputs`` are torch's AdditionalInputs, which the exported program must also accept, and
    ``assumptions`` are conditions on sizes that the caller states.
    ``record`` is filled during the conversion. ``passes`` run on the graph. ``functions`` selects
    the modules that become local functions, None for none. Weights of at least
    ``large_model_bytes`` in total make a LargeModel; if ``large_model_bytes`` is None, the limit is
    protobuf's, if there is a file to write. The other fields are arguments of to_onnx.
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
    assumptions: tuple[Assumption, ...]
    opsets: int | dict[str, int]
    target: str | None
    passes: PassOptions
    functions: FunctionChoices | None
    weights: WeightOptions | Stored | None
    max_error: float | None
    calibration: Sequence[Any]
    input_names: Any
    output_names: Any
    output_dynamic_shapes: Any
    inline: bool
    large_model: bool
    external_threshold: int
    large_model_bytes: int | None
    filename: Any
    validate: bool | float
    report: Any
    return_builder: bool

    @property
    def written_opset(self) -> int:
        """Opset of the main domain that the model has."""
        return self.opsets if isinstance(self.opsets, int) else self.opsets[""]

    @property
    def opset(self) -> int:
        """Opset of the main domain at which the graph is built: that of the model, at least 18."""
        return max(self.written_opset, OLDEST_TARGET_OPSET)

    @property
    def built_opsets(self) -> dict[str, int]:
        """Opsets at which the graph is built, by domain."""
        other_opsets = {} if isinstance(self.opsets, int) else self.opsets
        return {**other_opsets, "": self.opset}

"""The state of a conversion: options, request, program and record.

`ExportOptions` is what the caller gives, `Request` the checked arguments of to_onnx, `Program`
the graph to convert with its weights, inputs and outputs, and `ExportRecord` the log of the
conversion. All of `exporter` reads them.
"""

from __future__ import annotations

import enum
import linecache
import os
import time
from collections.abc import Callable, Collection, Iterator, Mapping
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
from ortable.passes.pipeline import PassOptions
from ortable.passes.rewrite.record import RewriteRecord
from ortable.passes.weight_quantization import Stored, WeightOptions
from ortable_generated.aten import traits

Undo = Callable[[], None]


# The names of the patches that count in this thread; None outside of the region.
ACTIVE_PATCHES: ContextVar[tuple[str, ...] | None] = ContextVar(
    "ortable_bypass_patches", default=None
)


def is_bypass_active() -> bool:
    """Return whether this thread is inside bypass_export_some_errors."""
    return ACTIVE_PATCHES.get() is not None


def active_patches() -> tuple[str, ...]:
    """Return the patches that apply in this thread, in the order of the documentation."""
    return ACTIVE_PATCHES.get() or ()


TABLE_NAMES = (None, "none", "default", "all")
DecompositionTable = dict[Any, Callable[..., Any]]


def _check_table(table: Any) -> None:
    """Raise OptionError unless ``table`` is one of `TABLE_NAMES` or maps overloads to functions."""
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
    """Return the decomposition table of the option, a new dict.

    None and ``"none"``: None, every operator that has a converter is kept. ``"default"``:
    torch.export's own table, and nothing else. ``"all"``: that, over every decomposition that torch
    registers except wrong ones (the trait `never_decompose`). A dict: itself.
    """
    if option is None or option == "none":
        return None
    if isinstance(option, Mapping):
        return dict(option)
    table = torch.export.default_decompositions()
    if option == "default":
        return table
    every = {**decomposition_table, **dict(table.items())}
    return {op: body for op, body in every.items() if op.name() not in traits.NEVER_DECOMPOSE}


def _is_instance(*kinds: type) -> Callable[[Any], bool]:
    return lambda value: isinstance(value, kinds)


def _accept_values(*values: str) -> tuple[Callable[[Any], bool], str]:
    return values.__contains__, f"one of {values}"


# Options that are checked alone: a predicate for values, and a text that describes accepted ones.
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
    """Options of the step from a module to a torch graph.

    Args:
        strict: the mode of ``torch.export``: False runs the Python code with fake tensors, True
            reads it with dynamo; None, the default, reads it only when torch cannot run it.
        decomposition_table: None or ``"none"`` keeps every operator that has a converter whole;
            ``"default"`` is torch.export's own table; ``"all"`` adds every decomposition that
            torch registers; a dict maps overloads to functions. The backend reads it so too.
        constant_folding: compute at export what depends on constants only (with ``optimize``),
            up to 1 MiB a result. A weight that is only read transposed is stored transposed,
            under ``<name>_transposed``, and rules of rewriting compute weights of others, of any
            size, ``<name>_scaled``, unless ``large_model`` keeps the weights as the state_dict
            has them; False keeps them so in every model.
        fallback: when torch cannot make the graph, try other strategies in the order of
            docs/export-failures.md; ``record.strategy`` and the model's metadata say which one
            worked and why the others did not.
        tracing: follow both sides of every branch on a tensor (``if x.sum() > 0``), and make an
            If of it.
        loops: make one step of every Python loop over a dynamic size, in a Scan, instead of as
            many steps as the example has.
        save_ep: a file to which the exported program is saved too, as torch.export.save does
            (``.pt2``), and its graph as text in ``<save_ep>.graph``: the program as torch made it,
            before decompositions.
        validate: compare the exported program with the module on the example call before it is
            converted.
        progress: a function that is called with the name of each phase when it ends, and the
            seconds it took.
        initializer_names: ``"state_dict"`` names weights as the module does (``linear.weight``),
            ``"placeholders"`` as torch.export's inputs (``p_linear_weight``).
        metadata: texts of your own for the model's ``metadata_props``, by key.
        value_info: also write type and shape of every intermediate result into the model.
        doc_string: the text that describes the model; the docstring of the module's class by
            default, unless it is a class of torch.
        function_weights: how local functions have the weights of their modules: ``"inputs"``
            (equal modules are then one function), ``"constants"``, or ``"auto"``: inputs for
            modules of torch, constants for yours. What ``large_model`` keeps outside is
            always an input.
        functions: what else becomes local functions, among ``"autocast"`` (regions),
            ``"subgraphs"`` (``torch.compiler.nested_compile_region``) and ``"custom_ops"`` (the
            Python bodies of operators of ``torch.library`` that have no converter);
            ``export_modules_as_functions=True`` includes the first two.
        guards: what to do about conditions on dynamic sizes that the Python code decided for the
            example, ``if x.shape[0] % 8 == 7``: ``"warn"``, ``"error"`` or ``"ignore"``. The
            model's metadata (``ortable.guards``) has them in any case.

    Raises:
        OptionError: a value is not one of those.
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
        for name, (accepts, words) in _OPTION_CHECKS.items():
            value = getattr(self, name)
            if not accepts(value):
                raise OptionError(f"ExportOptions.{name} is {words}, not {value!r:.80}")
        if self.tracing and self.loops:
            raise OptionError("ExportOptions takes one of tracing and loops")
        object.__setattr__(self, "functions", checked_functions(self.functions))
        _check_table(self.decomposition_table)
        for key, value in (self.metadata or {}).items():
            if not isinstance(key, str) or not key or not isinstance(value, str):
                raise OptionError(
                    f"ExportOptions.metadata maps texts to texts, not {key!r} to {value!r}"
                )
            if key.startswith("ortable.") or key == "torch.version":
                raise OptionError(f"'{key}' in ExportOptions.metadata is a key that to_onnx writes")

    @classmethod
    def names(cls) -> tuple[str, ...]:
        """Names of the options."""
        return tuple(field.name for field in fields(cls))

    def table(self) -> dict[Any, Callable[..., Any]] | None:
        """The decompositions to apply, None where what has a converter stays whole."""
        return _resolve_table(self.decomposition_table)


def checked_options(options: Any) -> ExportOptions:
    """``options`` itself, or the defaults for None.

    Raises OptionError for anything else.
    """
    if options is None:
        options = ExportOptions()
    if isinstance(options, ExportOptions):
        return replace(options, fallback=True) if is_bypass_active() else options
    raise OptionError(
        f"export_options is an ExportOptions or None, not {type(options).__name__}; "
        f"its fields are {', '.join(ExportOptions.names())}"
    )


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
        """Add the seconds of the block to a phase; call ``progress`` when it ended without an
        error.
        """
        start = time.perf_counter()
        try:
            yield
        finally:
            elapsed = time.perf_counter() - start
            self.seconds[name] = self.seconds.get(name, 0.0) + elapsed
        if self.progress is not None:
            self.progress(name, elapsed)

    def log_phase(self, phase: str, *parts: str) -> None:
        """Print a line about a phase that has ended, when ``verbose`` is set."""
        if self.verbose:
            seconds = self.seconds.get(phase, 0.0)
            print(f"[to_onnx] {'; '.join((phase, *parts))} ({seconds:.3f} s)")


@dataclass(frozen=True)
class Guard:
    """A condition on sizes, with the caller's names (``batch % 8 == 7``).

    ``line``: the line of the model that decides; None where torch's own code does and dynamo did
    not read the line, and in a saved program. ``holds``: whether it is met, given the values of
    torch's symbols by name. ``condition``: the same as an expression of these symbols, None in a
    saved program.
    """

    text: str
    line: UserLine | None
    holds: Callable[[Mapping[str, int]], bool]
    condition: Any = None

    def __str__(self) -> str:
        return self.text if self.line is None else f"{self.text}\n    at {self.line}"

    def one_line(self) -> str:
        """Return one line, for metadata and reports."""
        if self.line is None:
            return self.text
        return f"{self.text} ({Path(self.line.file).name}:{self.line.line})"


@dataclass(frozen=True)
class UserLine:
    """A line of the user's model, or of a library that it uses."""

    file: str
    line: int
    function: str
    text: str = ""

    @property
    def code(self) -> str:
        """Return the text of the line, empty when there is no source."""
        return self.text or linecache.getline(self.file, self.line).strip()

    def __str__(self) -> str:
        text = f"{self.file}:{self.line}, in {self.function}"
        return f"{text}\n    {self.code}" if self.code else text


ProgramOutputKind = Literal["user", "buffer", "input"]


@dataclass(frozen=True)
class ProgramOutput:
    """One entry of the flattened FX output: a result of the user's forward, or the new value of a
    buffer or of an input. ``label`` is the path to a result in what the forward returns.
    """

    kind: ProgramOutputKind
    target: str = ""
    is_none: bool = False
    label: str = ""


@dataclass(frozen=True)
class SmallestSize:
    """The smallest size of a dimension for which a program is proved, and why smaller ones fail."""

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
    ``user_dims`` are the caller's; ``open_dims``: symbols for which the caller gave no smallest
    size, ``open_maximums``: those with no largest; ``notes``: steps so far; ``exported``:
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
        """Return the weight of a placeholder, None when it is an input."""
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
    """What the caller of to_onnx asks for, checked by `exporter/arguments.py`.

    ``model`` is the module, program or graph; ``args`` and ``kwargs`` the example call.
    ``extra_inputs`` are torch's AdditionalInputs, which the exported program has to take as well.
    ``record`` is filled on the way. ``passes`` run on the graph; ``functions`` says what becomes a
    local function, None for nothing. ``large_model_bytes``: weights of so many bytes make a
    LargeModel; None: those that no protobuf file holds, where there is a file to write. The
    others are arguments of to_onnx.
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
    large_model_bytes: int | None
    filename: Any
    validate: bool | float
    report: Any
    return_builder: bool

    @property
    def opset(self) -> int:
        """Return the opset of the main domain."""
        return self.opsets if isinstance(self.opsets, int) else self.opsets[""]

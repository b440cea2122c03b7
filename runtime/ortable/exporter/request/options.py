"""How a model becomes a torch graph before it is converted. Every value is checked when it is
given, and an error lists what is accepted. Made by the caller of to_onnx or of the backend, read by
every part of `exporter`."""

from __future__ import annotations

import os
from collections.abc import Callable, Collection, Mapping
from contextvars import ContextVar
from dataclasses import dataclass, fields, replace
from typing import Any, Literal

import torch

from ortable.compat.torch import OperatorBase, decomposition_table
from ortable.errors import OptionError
from ortable.exporter.request.module_calls import checked_functions
from ortable_generated.aten import traits

Undo = Callable[[], None]


# The names of the patches that count in this thread; None outside of the region.
ACTIVE: ContextVar[tuple[str, ...] | None] = ContextVar("ortable_bypass_patches", default=None)


def bypassing() -> bool:
    """True inside bypass_export_some_errors, in this thread."""
    return ACTIVE.get() is not None


def active_patches() -> tuple[str, ...]:
    """The patches that count in this thread, in the order of the documentation."""
    return ACTIVE.get() or ()


NAMES = (None, "none", "default", "all")
Table = dict[Any, Callable[..., Any]]


def _check_table(chosen: Any) -> None:
    """Raises OptionError unless ``chosen`` is one of `NAMES` or maps overloads to functions."""
    if not isinstance(chosen, Mapping):
        if chosen not in NAMES:
            raise OptionError(
                f"ExportOptions.decomposition_table is one of {NAMES} or a dict from "
                "overload to function, "
                f"not {chosen!r}"
            )
        return
    for overload, function in chosen.items():
        if not isinstance(overload, OperatorBase) or not callable(function):
            raise OptionError(
                "ExportOptions.decomposition_table as a dict maps overloads to functions, for "
                "example {torch.ops.aten.relu.default: f}, not "
                f"{overload!r} to {function!r}"
            )


def _resolved_table(chosen: str | Mapping[Any, Callable[..., Any]] | None) -> Table | None:
    """The table that the option stands for, a new dict.

    None and ``"none"``: None, every operator that has a converter stays whole. ``"default"``:
    torch.export's own table, and nothing else. ``"all"``: that, over every decomposition that torch
    registers but those that are wrong (the trait `kept_whole`). A dict: itself."""
    if chosen is None or chosen == "none":
        return None
    if isinstance(chosen, Mapping):
        return dict(chosen)
    table = torch.export.default_decompositions()
    if chosen == "default":
        return table
    every = {**decomposition_table, **dict(table.items())}
    return {op: body for op, body in every.items() if op.name() not in traits.KEPT_WHOLE}


GUARDS = ("warn", "error", "ignore")
INITIALIZER_NAMES = ("placeholders", "state_dict")


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
        object.__setattr__(
            self, "functions", checked_functions(self.functions, self.function_weights)
        )
        for name in (
            "constant_folding", "fallback", "tracing", "loops", "validate", "value_info",
        ):  # fmt: skip
            if not isinstance(getattr(self, name), bool):
                raise OptionError(
                    f"ExportOptions.{name} is True or False, not {getattr(self, name)!r}"
                )
        if self.tracing and self.loops:
            raise OptionError("ExportOptions takes one of tracing and loops")
        if self.strict is not None and not isinstance(self.strict, bool):
            raise OptionError(f"ExportOptions.strict is True, False or None, not {self.strict!r}")
        _check_table(self.decomposition_table)
        if self.save_ep is not None and not (
            isinstance(self.save_ep, (str, os.PathLike)) and os.fspath(self.save_ep)
        ):
            raise OptionError(
                "ExportOptions.save_ep is the name of a .pt2 file or None, not "
                f"{type(self.save_ep).__name__}"
            )
        if self.progress is not None and not callable(self.progress):
            raise OptionError(
                "ExportOptions.progress is called with a phase and its seconds, or None, not "
                f"{self.progress!r}"
            )
        if self.doc_string is not None and not isinstance(self.doc_string, str):
            raise OptionError(
                f"ExportOptions.doc_string is a text or None, not {self.doc_string!r}"
            )
        if self.guards not in GUARDS:
            raise OptionError(f"ExportOptions.guards is one of {GUARDS}, not {self.guards!r}")
        if self.initializer_names not in INITIALIZER_NAMES:
            raise OptionError(
                f"ExportOptions.initializer_names is one of {INITIALIZER_NAMES}, not "
                f"{self.initializer_names!r}"
            )
        if self.metadata is not None and not isinstance(self.metadata, Mapping):
            raise OptionError(
                f"ExportOptions.metadata is a dict from text to text or None, not {self.metadata!r}"
            )
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
        return _resolved_table(self.decomposition_table)


def checked_options(options: Any) -> ExportOptions:
    """``options`` itself, or the defaults for None.

    Raises OptionError for anything else.
    """
    if options is None:
        options = ExportOptions()
    if isinstance(options, ExportOptions):
        return replace(options, fallback=True) if bypassing() else options
    raise OptionError(
        f"export_options is an ExportOptions or None, not {type(options).__name__}; "
        f"its fields are {', '.join(ExportOptions.names())}"
    )

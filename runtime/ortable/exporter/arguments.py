"""Define the arguments of to_onnx and export, their types and defaults, and check them.

Arguments of torch.onnx.export that have an equivalent are accepted; for the others, the error names
what to use instead. The docstring of `to_onnx` describes every argument.
"""

from __future__ import annotations

import difflib
import functools
import inspect
import math
import os
import reprlib
import textwrap
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Literal, TypeAlias, TypedDict, TypeVar, cast

import torch

from ortable.errors import ArgumentError, ExportError, OptionError
from ortable.exporter.capture.pt2 import load_program
from ortable.exporter.dispatchers.dispatcher import Converter, normalize_dispatcher
from ortable.exporter.frontend.export_request import (
    ExportOptions,
    ExportRecord,
    Request,
    checked_options,
)
from ortable.exporter.frontend.module_calls import function_choices
from ortable.exporter.functions.custom_operators import FunctionBodies
from ortable.exporter.signature.dynamic_shapes import AdditionalInputs
from ortable.exporter.signature.outputs import checked_call
from ortable.exporter.signature.shapes_spec import resolve_dynamic_shapes
from ortable.interpreter.calls import Dispatcher
from ortable.interpreter.diagnostics.advice import advise_errors
from ortable.interpreter.tables import generated_tables
from ortable.ir.versions import (
    BLOCK_DEQUANTIZE_OPSET,
    DEFAULT_OPSET,
    OLDEST_TARGET_OPSET,
    OLDEST_WRITTEN_OPSET,
    ORT_DEFAULT_OPSET,
    TARGETS,
    validate_opset,
)
from ortable.passes import pipeline
from ortable.passes.weight_quantization import Stored, WeightOptions, parse_weights

PathName: TypeAlias = str | os.PathLike[str]
Model: TypeAlias = torch.nn.Module | torch.export.ExportedProgram | PathName
Arguments: TypeAlias = tuple[Any, ...] | list[Any] | torch.Tensor
Converters: TypeAlias = Dispatcher | Mapping[Any, Converter]
# Nested like the arguments; each leaf maps axes to a `Dim`, `Dim.DYNAMIC` or a name.
DynamicShapes: TypeAlias = (
    Mapping[str, Any]
    | tuple[Any, ...]
    | list[Any]
    | torch.export.ShapesCollection
    | torch.export.AdditionalInputs
)
Weights: TypeAlias = (
    Literal["keep", "float32", "float16", "int4", "int8", "int4+float16", "int8+float16"]
    | Mapping[str, Any]
    | WeightOptions
    | None
)


class Keywords(TypedDict, total=False):
    """Keywords of to_onnx that do not affect its return type."""

    input_names: Sequence[str] | Mapping[str, str] | None
    output_names: Sequence[str] | Mapping[str, str] | None
    target_opset: int | Mapping[str, int] | None
    dynamic_shapes: DynamicShapes | None
    output_dynamic_shapes: Mapping[str, Any] | Sequence[Any] | None
    optimize: bool
    rewrites: str | Sequence[str]
    target: Literal["onnxruntime"] | None
    export_options: ExportOptions | None
    dispatcher: Converters | None
    export_modules_as_functions: bool | Collection[type[torch.nn.Module] | str]
    inline: bool
    external_threshold: int
    validate: bool | float
    verbose: int
    report: PathName | None
    weights: Weights
    max_error: float | None
    calibration: Sequence[Arguments | Mapping[str, Any]] | None


class ExportKeywords(Keywords, total=False):
    """Keywords of export."""

    large_model: bool


class ToOnnxKeywords(ExportKeywords, total=False):
    """Keywords of to_onnx."""

    filename: PathName | None
    return_builder: bool


_DEFAULTS = ToOnnxKeywords(  # keywords that are not listed default to None
    optimize=True,
    rewrites="default",
    export_modules_as_functions=False,
    inline=False,
    large_model=False,
    external_threshold=1024,
    validate=False,
    verbose=0,
    return_builder=False,
)


def signature_with(keywords: type, function: Any) -> inspect.Signature:
    """Return the signature of ``function`` with ``**keywords`` expanded into named keywords."""
    original = inspect.signature(function)
    *positional, _ = original.parameters.values()
    expanded = [
        inspect.Parameter(
            name,
            inspect.Parameter.KEYWORD_ONLY,
            default=_DEFAULTS.get(name),
            annotation=getattr(annotation, "__forward_arg__", annotation),
        )
        for name, annotation in keywords.__annotations__.items()
    ]
    return original.replace(parameters=[*positional, *expanded])


def checked_request(
    mod: Any,
    args: Any,
    kwargs: Any,
    keywords: Mapping[str, Any],
    large_model_bytes: int | None = None,
) -> Request:
    """Check the arguments of to_onnx or export and return them as a request.

    ``keywords`` are the keyword arguments that the caller gave; for ``large_model_bytes`` see
    `Request`. Raises OrtableError for an invalid argument and for arguments that contradict each
    other.
    """
    values: Any = {**dict.fromkeys(ToOnnxKeywords.__annotations__), **_DEFAULTS, **keywords}
    for flag in ("return_builder", "optimize", "inline", "large_model"):
        _check_flag(flag, values[flag])
    _check_numbers(values["verbose"], values["external_threshold"])
    check_file("filename", values["filename"])
    check_file("report", values["report"])
    _check_names("input_names", values["input_names"])
    _check_names("output_names", values["output_names"], "auto")
    options = checked_options(values["export_options"])
    modules, validate = values["export_modules_as_functions"], values["validate"]
    weights = _checked_weights(values["weights"], values["max_error"], validate, modules)
    calibration = _checked_calibration(values["calibration"], weights)
    target = checked_target(values["target"])
    has_codes = isinstance(weights, WeightOptions) and weights.has_codes
    opsets = choose_opset(values["target_opset"], target, has_codes)
    _check_functions(opsets, bool(modules) or bool(options.functions))
    passes = pipeline.select_passes(
        values["optimize"],
        values["rewrites"],
        folding=options.constant_folding,
        transform_weights=options.constant_folding and not values["large_model"],
    )
    body_passes = replace(passes, transform_weights=False)  # functions store weights untransposed
    _check_validate(validate)
    dispatcher = normalize_dispatcher(values["dispatcher"])
    mod = _checked_model(load_program(mod))
    args, kwargs = checked_call(args, kwargs, mod)
    shapes = values["dynamic_shapes"]
    dynamic_shapes, assumptions = resolve_dynamic_shapes(shapes, mod, args, kwargs)
    max_inline_bytes = values["external_threshold"] if values["large_model"] else None
    tables = generated_tables()
    if "custom_ops" in options.functions:
        dispatcher = FunctionBodies(dispatcher, tables, body_passes, values["inline"])
    return Request(
        mod,
        args,
        kwargs,
        dynamic_shapes,
        options,
        tables,
        dispatcher,
        ExportRecord(verbose=values["verbose"], progress=options.progress),
        extra_inputs=shapes if isinstance(shapes, AdditionalInputs) else None,
        assumptions=assumptions,
        opsets=opsets,
        target=target,
        passes=passes,
        functions=function_choices(
            modules, options, body_passes, values["inline"], max_inline_bytes
        ),
        weights=weights,
        calibration=calibration,
        large_model_bytes=large_model_bytes,
        **{name: values[name] for name in _UNCHANGED_FIELDS},
    )


# Fields of a request that hold the caller's value unchanged.
_UNCHANGED_FIELDS = (
    "external_threshold", "filename", "inline", "input_names", "large_model", "max_error",
    "output_dynamic_shapes", "output_names", "report", "return_builder", "validate",
)  # fmt: skip

_FILE_TEXTS = {
    "path": "the file to write",
    "filename": "the ONNX file to write",
    "report": "the Markdown file to write",
}


def _check_flag(name: str, value: Any) -> None:
    if not isinstance(value, bool):  # a text such as "no" is true in Python
        raise OptionError(f"{name} is True or False, not {value!r:.80}")


def _check_numbers(verbose: Any, external_threshold: Any) -> None:
    if not isinstance(verbose, int) or verbose < 0:
        raise OptionError(
            f"verbose is 0 (silent), 1 (the steps) or 2 (the nodes too), not {verbose!r:.80}"
        )
    is_flag = isinstance(external_threshold, bool)
    if is_flag or not isinstance(external_threshold, int) or external_threshold < 0:
        raise OptionError(
            "external_threshold is a number of bytes, an int of 0 or more, not "
            f"{external_threshold!r:.80}"
        )


def check_file(name: str, value: Any) -> None:
    """Check that ``value`` is None, or the path of a file that can be written.

    Raises OptionError if ``value`` is not a path, and the errors of `checked_path`.
    """
    if value is None:
        return
    path = os.fspath(value) if isinstance(value, os.PathLike) else value
    if not isinstance(path, str) or not path:
        hint = ""
        if callable(getattr(value, "write", None)):
            hint = (
                "; to write to an open file or a buffer, serialize the returned model: "
                "buffer.write(to_onnx(...).SerializeToString())"
            )
        elif value is True:
            hint = f'; give it a name, for example {name}="model.{_default_extension(name)}"'
        raise OptionError(
            f"{name} is the path of {_FILE_TEXTS[name]} or None, not {value!r:.80}{hint}"
        )
    checked_path(name, Path(path))


def checked_path(name: str, path: Path) -> Path:
    """Return ``path`` if a file can be written there, else raise ExportError.

    The error of the argument ``report`` is an OptionError.
    """
    error = OptionError if name == "report" else ExportError
    if not path.parent.is_dir():
        raise error(f"folder '{path.parent}' of {_FILE_TEXTS[name]} ({name}) does not exist")
    if path.is_dir():
        raise error(f"'{path}' is a folder; {name} is {_FILE_TEXTS[name]}")
    if path.exists() and not path.is_file():  # writing would replace it, for example /dev/null
        raise error(
            f"'{path}' is a device, pipe or socket, not a regular file; {name} is "
            f"{_FILE_TEXTS[name]}"
        )
    location = path if path.exists() else path.parent
    if not os.access(location, os.W_OK):
        raise error(f"'{location}', the location of {_FILE_TEXTS[name]} ({name}), is not writable")
    return path


def _default_extension(name: str) -> str:
    return "md" if name == "report" else "onnx"


def _check_names(option: str, names: Any, literal: str | None = None) -> None:
    """Check that ``names`` is None, ``literal``, or a list, tuple or dict of non-empty strings.

    Raises ExportError for other values.
    """
    if names is None or (isinstance(names, str) and names == literal):
        return
    mapping_text = "a dict from default names to new names"
    alternatives = f', {mapping_text}, or "{literal}"' if literal else f" or {mapping_text}"
    if isinstance(names, Mapping):
        items: Any = [*names.keys(), *names.values()]
    else:
        items = names
    is_sequence = isinstance(items, (list, tuple))
    if not is_sequence or not all(isinstance(name, str) and name for name in items):
        raise ExportError(
            f"{option} is a list of non-empty strings{alternatives}, not {names!r:.200}"
        )


def _checked_model(mod: Any) -> Any:
    if not isinstance(mod, (torch.jit.ScriptModule, torch.jit.ScriptFunction)):
        return mod
    raise ExportError(
        f"{type(mod).__name__} is TorchScript (torch.jit.trace, torch.jit.script, torch.jit.load): "
        "torch.export needs the Python code of the module, which TorchScript does not keep. Pass "
        "the original module: to_onnx(module, args) instead of "
        "to_onnx(torch.jit.trace(module, args), args). If only the saved file is left, convert it "
        "first: torch._export.converter.TS2EPConverter(loaded, args).convert()"
    )


def checked_target(target: Any) -> str | None:
    """Return ``target``; raise OptionError if it is not in ``TARGETS``."""
    if target not in TARGETS:
        raise OptionError(f"target is one of {TARGETS}, not {target!r}")
    return target


def _check_validate(validate: Any) -> None:
    if not isinstance(validate, bool) and not (isinstance(validate, float) and validate > 0):
        raise OptionError(
            "validate is True, False, or a positive float (the largest absolute difference "
            f"accepted), not {validate!r}"
        )


def _checked_weights(
    weights: Any, max_error: Any, validate: Any, functions: Any
) -> WeightOptions | Stored | None:
    """Parse ``weights``; raise OptionError if it is invalid or contradicts other arguments."""
    options = parse_weights(weights)
    if max_error is not None:
        is_number = isinstance(max_error, int | float) and not isinstance(max_error, bool)
        if not is_number or not 0 <= max_error < math.inf:
            raise OptionError(
                f"max_error is a number of 0 or more, for example 0.01, not {max_error!r}"
            )
        if not isinstance(options, WeightOptions):
            raise OptionError(
                "max_error limits the error of rounded weights: give weights='float16', 'int8' or "
                "'int4' too"
            )
    if options is None or options == "keep":
        return options
    if functions:
        raise OptionError(
            "weights= changes weights of the main graph, and export_modules_as_functions moves "
            "them into functions: remove one of the two"
        )
    if validate and isinstance(options, WeightOptions) and not options.keep_io:
        raise OptionError(
            "validate compares with eager, whose outputs are float32, and keep_io=False makes "
            "float16 outputs: remove one of the two"
        )
    if validate is True and isinstance(options, WeightOptions):
        raise OptionError(
            "validate=True compares with eager within floating-point tolerance, and weights= "
            "rounds: give max_error, which limits the error, or a float such as validate=0.1, "
            "the largest absolute difference accepted"
        )
    return options


def _checked_calibration(calibration: Any, weights: WeightOptions | Stored | None) -> Sequence[Any]:
    """Return the calls of ``calibration``: tuples of arguments, or dicts of keyword arguments."""
    if calibration is None:
        return ()
    is_list = isinstance(calibration, Sequence) and not isinstance(calibration, str)
    if not is_list or not all(
        isinstance(call, tuple | list | torch.Tensor | Mapping) for call in calibration
    ):
        raise OptionError(
            "calibration is a list of calls, each a tuple of arguments or a dict of keyword "
            f"arguments, not {type(calibration).__name__}"
        )
    if not calibration:
        raise OptionError("calibration is a list of calls, not an empty one")
    if not isinstance(weights, WeightOptions) or not weights.has_codes:
        raise OptionError("calibration chooses codes of weights: give weights='int4' or 'int8' too")
    return [(call,) if isinstance(call, torch.Tensor) else call for call in calibration]


def choose_opset(opset: Any, target: str | None, quantized: bool = False) -> int | dict[str, int]:
    """Return the opset to write; for None, the default of the target and the weights.

    The default is 23 for ONNX Runtime, else 21 if weights are quantized, else 18.
    """
    if opset is None:
        default = BLOCK_DEQUANTIZE_OPSET if quantized else DEFAULT_OPSET
        return default if target is None else ORT_DEFAULT_OPSET
    opsets = validate_opset(opset, OLDEST_WRITTEN_OPSET)
    onnx_opset = opsets if isinstance(opsets, int) else opsets[""]
    if quantized and onnx_opset < BLOCK_DEQUANTIZE_OPSET:
        raise OptionError(
            f"weights= needs opset {BLOCK_DEQUANTIZE_OPSET} or later, the first with block-wise "
            f"quantization; target_opset is {onnx_opset}"
        )
    return opsets


def _check_functions(opsets: int | dict[str, int], has_functions: bool) -> None:
    """Refuse local functions in opsets older than those of the converters."""
    opset = opsets if isinstance(opsets, int) else opsets[""]
    if has_functions and opset < OLDEST_TARGET_OPSET:
        raise OptionError(
            f"local functions need opset {OLDEST_TARGET_OPSET} or later; target_opset is {opset}"
        )


# -- arguments of torch.onnx.export

CallArguments = dict[str, Any]  # arguments of a call of to_onnx or export, by name
F = TypeVar("F", bound=Callable[..., Any])


def _convert_folding(value: Any, arguments: CallArguments) -> CallArguments | None:
    if not isinstance(value, bool):
        return None
    options = checked_options(arguments.get("export_options"))
    return {"export_options": replace(options, constant_folding=value)}


def _convert_training(value: Any, arguments: CallArguments) -> CallArguments | None:
    """Accept TrainingMode.PRESERVE, None, and the mode in which the module is."""
    name = getattr(value, "name", None if value is not None else "PRESERVE")
    training = getattr(arguments.get("mod"), "training", False)
    return {} if name in ("PRESERVE", "TRAINING" if training else "EVAL") else None


def _convert_operator_export_type(value: Any, _: CallArguments) -> CallArguments | None:
    """Accept None and OperatorExportTypes.ONNX."""
    return {} if value is None or getattr(value, "name", "") == "ONNX" else None


# How to_onnx treats an argument of torch.onnx.export, and the advice that the error gives. The
# first item is one of: the name of the argument in to_onnx; a tuple of the accepted values, which
# have no effect; a function of the value and the call's other arguments, which returns arguments of
# to_onnx, or None for a value that it does not accept.
ArgumentAlias = tuple[
    str | tuple[Any, ...] | Callable[[Any, CallArguments], CallArguments | None], str
]
_LARGE_ADVICE = (
    "large_model=True saves weights as external data; filename= does so for weights of 2 GiB or "
    "more anyway"
)
TORCH_ONNX_ALIASES: dict[str, ArgumentAlias] = {
    "model": ("mod", "mod"),
    "f": ("filename", "filename='model.onnx'"),
    "opset_version": ("target_opset", "target_opset"),
    "verify": ("validate", "validate"),
    "do_constant_folding": (_convert_folding, "export_options=ExportOptions(constant_folding=...)"),
    "dynamo": (
        (True, None),
        "to_onnx always goes through torch.export; ExportOptions(tracing=True) captures both sides "
        "of branches on tensors",
    ),
    "fallback": ((False,), "export_options=ExportOptions(fallback=True)"),
    "external_data": ((False, None), _LARGE_ADVICE),
    "use_external_data_format": ((False, None), _LARGE_ADVICE),
    "profile": ((False, None), "report='model.md' has the seconds of each phase"),
    "dump_exported_program": ((False, None), "export_options=ExportOptions(save_ep='model.pt2')"),
    "artifacts_dir": (
        (None,),
        "filename=, report= and ExportOptions(save_ep=) are paths, folder included",
    ),
    "custom_translation_table": (
        (None,),
        "dispatcher={'my_library::my_op': f} with f(graph, res, *args, **kwargs); OxsDispatcher() "
        "uses the converters of onnxscript",
    ),
    "export_params": (
        (True, None),
        "weights are written; those of a module on the meta device become inputs of the model",
    ),
    "keep_initializers_as_inputs": (
        (False, None),
        "initializers are constants of the model; a forward that takes weights as arguments "
        "(torch.func.functional_call) makes inputs of them",
    ),
    "training": (
        _convert_training,
        "the module is exported in its current mode: call model.eval() or .train()",
    ),
    "operator_export_type": (
        _convert_operator_export_type,
        "dispatcher=Dispatcher(custom_domains={'my_library': 'my.domain'}) writes operators of a "
        "library as nodes of a domain",
    ),
    "custom_opsets": ((None,), "target_opset={'': 18, 'my.domain': 1}"),
    "autograd_inlining": ((True, None), "the forward of an autograd.Function is always inlined"),
}


_TO_ONNX_ONLY = ("filename", "return_builder")
_SAVE_ADVICE = "program.save('model.onnx') writes what export returns"
_EXTERNAL_DATA_ADVICE = "program.save('model.onnx', external_data=True)"
# The same table for `export`, with entries for the arguments of to_onnx that `export` lacks.
EXPORT_ALIASES: dict[str, ArgumentAlias] = {
    **TORCH_ONNX_ALIASES,
    "f": ((None,), _SAVE_ADVICE),
    "filename": ((None,), _SAVE_ADVICE),
    "external_data": ((None,), _EXTERNAL_DATA_ADVICE),
    "use_external_data_format": ((None,), _EXTERNAL_DATA_ADVICE),
    "return_builder": ((False,), "program.report says what was done"),
}


@dataclass(frozen=True)
class _WrappedFunction:
    """``to_onnx`` or ``export``: its name, all its arguments, and those that may be positional."""

    name: str
    names: tuple[str, ...]
    positional: tuple[str, ...]

    @property
    def aliases(self) -> Mapping[str, ArgumentAlias]:
        """How the function treats arguments of torch.onnx.export, by name."""
        return TORCH_ONNX_ALIASES if "filename" in self.names else EXPORT_ALIASES


def accept_torch_onnx_args(keywords: type) -> Callable[[F], F]:
    """Make ``to_onnx`` or ``export`` accept the arguments of torch.onnx.export.

    The signature lists all ``keywords``. The decorated function raises ArgumentError, with advice,
    for arguments that it cannot convert.
    """

    def decorate(function: F) -> F:
        signature = signature_with(keywords, function)
        function.__signature__ = signature  # type: ignore[attr-defined]
        parameters = signature.parameters.values()
        positional = tuple(
            parameter.name
            for parameter in parameters
            if parameter.kind is parameter.POSITIONAL_OR_KEYWORD
        )
        wrapped = _WrappedFunction(function.__name__, tuple(signature.parameters), positional)

        @functools.wraps(function)
        def wrapper(*args: Any, **kwargs: Any) -> Any:
            verbose = kwargs.get("verbose")
            with advise_errors("to_onnx", verbose if isinstance(verbose, int) else 0):
                return function(**translate_arguments(args, kwargs, wrapped))

        return cast(F, wrapper)

    return decorate


def translate_arguments(
    args: Sequence[Any], kwargs: CallArguments, function: _WrappedFunction
) -> CallArguments:
    """Return the arguments of a call by name, with those of torch.onnx.export translated.

    Raises ArgumentError for arguments that ``function`` does not accept.
    """
    positional, names = function.positional, function.names
    if len(args) > len(positional):
        raise ArgumentError(
            f"{function.name} takes {len(positional)} positional arguments "
            f"({', '.join(positional)}), {len(args)} are given: give the others by name"
        )
    arguments = dict(zip(positional, args, strict=False))
    repeated = [name for name in arguments if name in kwargs]
    if repeated:
        raise ArgumentError(f"{function.name} got {repeated[0]!r} twice: positionally and by name")
    # the third positional argument of torch.onnx.export is the file
    if isinstance(arguments.get("kwargs"), (str, os.PathLike)):
        kwargs = {"f": arguments.pop("kwargs"), **kwargs}
    arguments.update((name, value) for name, value in kwargs.items() if name in names)
    if arguments.get("report") is False:
        arguments["report"] = None
    for name, value in kwargs.items():
        if name not in names:
            _apply_alias(name, value, arguments, function)
    return arguments


def _apply_alias(
    name: str, value: Any, arguments: CallArguments, function: _WrappedFunction
) -> None:
    if name == "dynamic_axes":
        _refuse_dynamic_axes(value, arguments, function)
        return
    alias = function.aliases.get(name)
    if alias is None:
        raise ArgumentError(_unknown_argument_text(name, function))
    meaning, advice = alias
    converted: CallArguments | None
    if isinstance(meaning, str):
        converted = {meaning: value}
    elif isinstance(meaning, tuple):
        converted = {} if any(value is accepted for accepted in meaning) else None
    else:
        converted = meaning(value, arguments)
    if converted is None:
        raise ArgumentError(
            f"{function.name} has no {name}={reprlib.repr(value)}, an argument of "
            f"{'to_onnx' if name in _TO_ONNX_ONLY else 'torch.onnx.export'}.\n"
            + textwrap.fill(f"Here: {advice}.", 110, initial_indent="  ", subsequent_indent="  ")
        )
    for argument, argument_value in converted.items():
        if argument in arguments and argument != "export_options":
            raise ArgumentError(
                f"{function.name} got both {argument} and {name}, which mean the same"
            )
        arguments[argument] = argument_value


def _unknown_argument_text(name: str, function: _WrappedFunction) -> str:
    names = function.names
    known_names = [*names, *function.aliases]
    containing = [
        candidate for candidate in known_names if name in candidate.split("_")
    ]  # "opset" suggests target_opset
    candidates = [*containing, *difflib.get_close_matches(name, known_names, n=1)]
    hint = f"; did you mean {candidates[0]!r}?" if candidates else ""
    listed = textwrap.fill(
        f"It has {', '.join(names)}.", 110, initial_indent="  ", subsequent_indent="  "
    )
    return f"{function.name} has no argument {name!r}{hint}\n{listed}"


def _refuse_dynamic_axes(axes: Any, arguments: CallArguments, function: _WrappedFunction) -> None:
    """Raise ArgumentError, with the equivalent dynamic shapes, unless ``dynamic_axes`` is empty."""
    if axes is None or axes == {}:
        return
    lines = [f"{function.name} has no dynamic_axes, an argument of torch.onnx.export."]
    if isinstance(axes, Mapping):
        inputs, outputs = _convert_dynamic_axes(axes, arguments)
        lines.append(f"  Here: dynamic_shapes={_dict_text(inputs)}")
        if outputs:
            lines.append(f"  and output_dynamic_shapes={_dict_text(outputs)}")
    lines.append(
        "  dynamic_shapes has one entry for each argument of forward; equal names mean equal sizes."
    )
    raise ArgumentError("\n".join(lines))


def _convert_dynamic_axes(
    axes: Mapping[str, Any], arguments: CallArguments
) -> tuple[dict[str, dict[Any, str]], dict[str, dict[Any, str]]]:
    """Convert ``dynamic_axes`` to dynamic shapes by parameter of forward, and by output.

    A list of axes gets names: ``{"x": [0]}`` becomes ``{"x": {0: "x_0"}}``.
    """
    forward = getattr(arguments.get("mod"), "forward", None)
    parameters: list[str] = []
    if isinstance(arguments.get("mod"), torch.nn.Module) and callable(forward):
        parameters = list(inspect.signature(forward).parameters)
    input_names = arguments.get("input_names")
    parameter_by_input = (
        dict(zip(input_names, parameters, strict=False))
        if isinstance(input_names, (list, tuple))
        else {}
    )
    inputs: dict[str, dict[Any, str]] = {}
    outputs: dict[str, dict[Any, str]] = {}
    for name, entry in axes.items():
        parameter = parameter_by_input.get(name, name)
        names = (
            dict(entry)
            if isinstance(entry, Mapping)
            else {axis: f"{parameter}_{axis}" for axis in entry}
        )
        shapes = outputs if parameters and parameter not in parameters else inputs
        shapes[parameter] = names
    args = arguments.get("args")
    count = len(args) if isinstance(args, (list, tuple)) else 1
    for name in parameters[:count] if inputs else ():
        inputs.setdefault(name, {})
    return inputs, outputs


def _dict_text(shapes: Mapping[str, Mapping[Any, str]]) -> str:
    return "{" + ", ".join(f"{n!r}: {dict(d) or None!r}" for n, d in shapes.items()) + "}"

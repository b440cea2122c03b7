"""Habits of torch.onnx.export: its arguments are taken where they mean the same here, and answered
with the word that is used here where they do not; any other unknown name gets the closest one. In
come the arguments of a call, out go those of to_onnx or export, or an ArgumentError. Wraps both."""

from __future__ import annotations

import difflib
import functools
import inspect
import os
import textwrap
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, TypeVar, cast

import torch

from ortable.errors import ArgumentError
from ortable.exporter.request.program import checked_options
from ortable.interpreter.diagnostics.advice import advising

from .arguments import signature_with

Arguments = dict[str, Any]
F = TypeVar("F", bound=Callable[..., Any])


def _folding(value: Any, given: Arguments) -> Arguments | None:
    if not isinstance(value, bool):
        return None
    options = checked_options(given.get("export_options"))
    return {"export_options": replace(options, constant_folding=value)}


def _training(value: Any, given: Arguments) -> Arguments | None:
    """The mode that the module is in, or PRESERVE."""
    name = getattr(value, "name", None if value is not None else "PRESERVE")
    training = getattr(given.get("mod"), "training", False)
    return {} if name in ("PRESERVE", "TRAINING" if training else "EVAL") else None


def _onnx_only(value: Any, _: Arguments) -> Arguments | None:
    return {} if value is None or getattr(value, "name", "") == "ONNX" else None


# Arguments of torch.onnx.export: our name of the same, the values that say what is done in any
# case, or a function of the value and the other arguments that makes ours of it, None where it
# cannot; and what to write instead.
Word = tuple[str | tuple[Any, ...] | Callable[[Any, Arguments], Arguments | None], str]
_EXTERNAL = "large_model=True keeps weights beside the model; those of 2 GiB or more always are"
WORDS: dict[str, Word] = {
    "model": ("mod", "mod"),
    "f": ("filename", "filename='model.onnx'"),
    "opset_version": ("target_opset", "target_opset"),
    "verify": ("validate", "validate"),
    "do_constant_folding": (_folding, "export_options=ExportOptions(constant_folding=...)"),
    "dynamo": (
        (True, None),
        "to_onnx always goes through torch.export; ExportOptions(tracing=True) follows branches on "
        "tensors",
    ),
    "fallback": ((False,), "export_options=ExportOptions(fallback=True)"),
    "external_data": ((False, None), _EXTERNAL),
    "use_external_data_format": ((False, None), _EXTERNAL),
    "profile": ((False, None), "report='model.md' has the seconds of each phase"),
    "dump_exported_program": ((False, None), "export_options=ExportOptions(save_ep='model.pt2')"),
    "artifacts_dir": (
        (None,),
        "filename=, report= and ExportOptions(save_ep=) are paths, folder included",
    ),
    "custom_translation_table": (
        (None,),
        "dispatcher={'my_library::my_op': f} with f(graph, res, *args, **kwargs); OxsDispatcher() "
        "borrows those of onnxscript",
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
        _training,
        "the module is exported in the mode that it is in: call model.eval() or .train()",
    ),
    "operator_export_type": (
        _onnx_only,
        "dispatcher=Dispatcher(custom_domains={'my_library': 'my.domain'}) writes operators of a "
        "library as nodes of a domain",
    ),
    "custom_opsets": ((None,), "target_opset={'': 18, 'my.domain': 1}"),
    "autograd_inlining": ((True, None), "the forward of an autograd.Function is always inlined"),
}


_OURS = ("filename", "return_builder")
_SAVED = "program.save('model.onnx') writes what export returns"
_BESIDE = "program.save('model.onnx', external_data=True)"
# Words that mean something else where a program is returned, and those of to_onnx.
WORDS_OF_EXPORT: dict[str, Word] = {
    **WORDS,
    "f": ((None,), _SAVED),
    "filename": ((None,), _SAVED),
    "external_data": ((None,), _BESIDE),
    "use_external_data_format": ((None,), _BESIDE),
    "return_builder": ((False,), "program.report says what was done"),
}


@dataclass(frozen=True)
class _Function:
    """What is wrapped: its name, its arguments, those that may be given by place, and the words of
    torch.onnx.export."""

    name: str
    names: tuple[str, ...]
    positional: tuple[str, ...]
    words: Mapping[str, Word]


def answering(keywords: type) -> Callable[[F], F]:
    """``to_onnx`` or ``export`` with the arguments of torch.onnx.export, and with advice under its
    errors; its signature has all ``keywords``.

    Raises ArgumentError for an argument that it does not have.
    """
    return functools.partial(_answering, keywords)


def _answering(keywords: type, function: F) -> F:
    signature = signature_with(keywords, function)
    function.__signature__ = signature  # type: ignore[attr-defined]
    parameters = signature.parameters.values()
    names = tuple(each.name for each in parameters)
    positional = tuple(each.name for each in parameters if each.kind is each.POSITIONAL_OR_KEYWORD)
    words = WORDS if "filename" in names else WORDS_OF_EXPORT
    wrapped = _Function(function.__name__, names, positional, words)

    @functools.wraps(function)
    def called(*args: Any, **kwargs: Any) -> Any:
        verbose = kwargs.get("verbose")
        with advising("to_onnx", verbose if isinstance(verbose, int) else 0):
            return function(**translated(args, kwargs, wrapped))

    return cast(F, called)


def translated(args: Sequence[Any], kwargs: Arguments, function: _Function) -> Arguments:
    """The arguments of a call by the names of a function."""
    positional, names = function.positional, function.names
    if len(args) > len(positional):
        raise ArgumentError(
            f"{function.name} takes {len(positional)} positional arguments "
            f"({', '.join(positional)}), {len(args)} are given: give the others by name"
        )
    given = dict(zip(positional, args, strict=False))
    twice = [name for name in given if name in kwargs]
    if twice:
        raise ArgumentError(f"{function.name} got {twice[0]!r} twice: positionally and by name")
    if isinstance(given.get("kwargs"), (str, os.PathLike)):  # f of torch.onnx.export
        kwargs = {"f": given.pop("kwargs"), **kwargs}
    given.update((name, value) for name, value in kwargs.items() if name in names)
    if given.get("report") is False:
        given["report"] = None
    for name, value in kwargs.items():
        if name not in names:
            _take(name, value, given, function)
    return given


def _take(name: str, value: Any, given: Arguments, function: _Function) -> None:
    """Add an argument that the function does not have to those it has."""
    if name == "dynamic_axes":
        _refuse_dynamic_axes(value, given, function)
        return
    word = function.words.get(name)
    if word is None:
        raise ArgumentError(_unknown(name, function))
    meaning, ours = word
    taken: Arguments | None
    if isinstance(meaning, str):
        taken = {meaning: value}
    elif isinstance(meaning, tuple):
        taken = {} if any(value is each for each in meaning) else None
    else:
        taken = meaning(value, given)
    if taken is None:
        raise ArgumentError(
            f"{function.name} has no {name}={_short(value)}, an argument of "
            f"{'to_onnx' if name in _OURS else 'torch.onnx.export'}.\n"
            + textwrap.fill(f"Here: {ours}.", 110, initial_indent="  ", subsequent_indent="  ")
        )
    for known, its_value in taken.items():
        if known in given and known != "export_options":
            raise ArgumentError(f"{function.name} got both {known} and {name}, which mean the same")
        given[known] = its_value


def _unknown(name: str, function: _Function) -> str:
    names = function.names
    known = [*names, *function.words]
    inside = [each for each in known if name in each.split("_")]  # opset: target_opset
    close = [*inside, *difflib.get_close_matches(name, known, n=1)]
    hint = f"; did you mean {close[0]!r}?" if close else ""
    listed = textwrap.fill(
        f"It has {', '.join(names)}.", 110, initial_indent="  ", subsequent_indent="  "
    )
    return f"{function.name} has no argument {name!r}{hint}\n{listed}"


def _refuse_dynamic_axes(axes: Any, given: Arguments, function: _Function) -> None:
    """Answer ``dynamic_axes`` with the ``dynamic_shapes`` that say the same."""
    if axes is None or axes == {}:
        return
    lines = [f"{function.name} has no dynamic_axes, an argument of torch.onnx.export."]
    if isinstance(axes, Mapping):
        inputs, outputs = _shapes(axes, given)
        lines.append(f"  Here: dynamic_shapes={_dict_text(inputs)}")
        if outputs:
            lines.append(f"  and output_dynamic_shapes={_dict_text(outputs)}")
    lines.append(
        "  with one entry for each argument of forward, by its name; equal names are equal sizes."
    )
    raise ArgumentError("\n".join(lines))


def _shapes(
    axes: Mapping[str, Any], given: Arguments
) -> tuple[dict[str, dict[Any, str]], dict[str, dict[Any, str]]]:
    """What ``dynamic_axes`` says of inputs, by the names of forward's parameters, and of
    outputs."""
    forward = getattr(given.get("mod"), "forward", None)
    parameters: list[str] = []
    if isinstance(given.get("mod"), torch.nn.Module) and callable(forward):
        parameters = list(inspect.signature(forward).parameters)
    named = given.get("input_names")
    renamed = dict(zip(named, parameters, strict=False)) if isinstance(named, (list, tuple)) else {}
    inputs: dict[str, dict[Any, str]] = {}
    outputs: dict[str, dict[Any, str]] = {}
    for name, entry in axes.items():
        ours = renamed.get(name, name)
        dims = dict(entry) if isinstance(entry, Mapping) else {a: f"{ours}_{a}" for a in entry}
        into = outputs if parameters and ours not in parameters else inputs
        into[ours] = dims
    for name in parameters[: _given_tensors(given)] if inputs else ():
        inputs.setdefault(name, {})
    return inputs, outputs


def _given_tensors(given: Arguments) -> int:
    args = given.get("args")
    return len(args) if isinstance(args, (list, tuple)) else 1


def _dict_text(shapes: Mapping[str, Mapping[Any, str]]) -> str:
    return "{" + ", ".join(f"{n!r}: {dict(d) or None!r}" for n, d in shapes.items()) + "}"


def _short(value: Any) -> str:
    text = repr(value)
    return text if len(text) <= 40 else f"{text[:36]} ..."

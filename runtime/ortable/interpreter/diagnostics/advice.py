"""Attach advice to a conversion error, by the entry point that the user called: to_onnx has
arguments, torch.compile options, the command line flags. On request, write all details into a file.
"""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Literal

from ortable.errors import (
    BuilderError,
    ConversionError,
    FunctionNotFoundError,
    OrtableError,
    UnsupportedCase,
)

Door = Literal["to_onnx", "compile", "shell", "shell compile", "library"]

_TORCH_NAMESPACES = ("aten", "prims", "prim")
_LOAD = "ortable.load_specs(path) compiles an entry like this (docs/adding-an-operator.md)"
# By door: what helps when an operator has no converter.
_MISSING: dict[Door, tuple[str, ...]] = {
    "to_onnx": (
        f"What to do: {_LOAD},",
        "  or dispatcher=Dispatcher({'{name}': f}) with f(graph, res, *args, **kwargs) in Python,",
        "  or dispatcher=OxsDispatcher() to borrow those of onnxscript (extra [onnxscript]).",
    ),
    "compile": (
        'What to do: options={"fallback": "eager"} runs it in torch;',
        f"  or {_LOAD}.",
    ),
    "shell": (
        f"What to do: {_LOAD}:",
        "  call it in the module of TARGET; `ortable specs check FILE` checks the file.",
    ),
    "shell compile": (
        "What to do: without --no-fallback it runs in torch;",
        f"  or {_LOAD}:",
        "  call it in the module of TARGET; `ortable specs check FILE` checks the file.",
    ),
    "library": (f"What to do: {_LOAD}.",),
}
# Functions, methods and modules of Python, in a graph that was not exported.
_PYTHON = "What to do: give example inputs (args): torch then exports the graph to operators."
# By door: what helps when the converter refuses the arguments, or fails.
_REFUSED: dict[Door, tuple[str, ...]] = {
    "to_onnx": (
        "What to do: change the line, or give a converter: to_onnx(..., dispatcher={'{name}': f}).",
    ),
    "compile": ('What to do: options={"fallback": "eager"} runs it in torch.',),
    "shell": (
        "What to do: change the line, or replace the converter in the module of TARGET with",
        "  ortable.load_specs(path, override=True).",
    ),
    "shell compile": ("What to do: without --no-fallback it runs in torch.",),
    "library": (),
}
# By door: where the graph so far and all details are. ``verbose`` writes them into a file.
_REST: dict[Door, str] = {
    "to_onnx": "{}; in a file: to_onnx(..., verbose=1).",
    "compile": '{}; in a file: options={"verbose": 1}.',
    "shell": "Everything that is known, in a file: --verbose.",
    "shell compile": "Everything that is known, in a file: --verbose.",
    "library": "{}.",
}


# What is said of arguments, as flags of `ortable export`.
_FLAGS = (
    ("ExportOptions(tracing=True)", "--tracing"),
    ("ExportOptions(strict=True)", "--strict"),
    ("ExportOptions(strict=False)", "--no-strict"),
    ("ExportOptions(fallback=True)", "--fallback"),
    ("with ortable.bypass_export_some_errors():", "--bypass"),
    ("validate=False", "--no-validate"),
    ("max_error", "--max-error"),
    ("validate=0.1", "--atol 0.1"),
    ("target_opset", "--opset"),
    (
        "torch.compile(model, backend=ortable.onnx_debug_backend, "
        'options={"compare": True})(*args)',
        "`ortable debug TARGET`",
    ),
    ("of the ONNX file to write (filename)", "of the ONNX file to write (-o)"),
    ("; filename is the ONNX file to write", "; -o is the ONNX file to write"),
    ("Markdown file to write (report)", "Markdown file to write (--report)"),
    ("; report is the Markdown file to write", "; --report is the Markdown file to write"),
)


def format_for_cli(text: str) -> str:
    """A message that names arguments, with flags in their place."""
    for argument, flag in _FLAGS:
        text = text.replace(argument, flag)
    return text


def make_advice(error: OrtableError, door: Door, falls_back: bool = False) -> tuple[str, ...]:
    """The lines of what to do. ``falls_back``: what cannot be converted would run in torch."""
    lines = list(error.remedies)
    if isinstance(error, FunctionNotFoundError) and error.operators:
        lines += [] if falls_back else _for_missing(error, door)
        custom = next(
            (library for library in map(_custom_library, error.operators) if library), None
        )
        if custom is not None and door == "to_onnx":
            lines.append(
                f"  Dispatcher(custom_domains={{{custom!r}: 'my.domain'}}) writes each as a node "
                "of an ONNX domain of yours."
            )
    elif isinstance(error, (ConversionError, UnsupportedCase)) and error.operator:
        lines += [] if falls_back else _for_refused(error, door)
    if error.details_file is not None:
        lines.append(f"The graph so far, and all details: {error.details_file}")
    elif error.has_more:
        name = "error.inner_exception" if door == "compile" else "error"
        graph, details = f"The graph so far: {name}.graph_text", f"All of it: {name}.details"
        lines.append(_REST[door].replace("{}", graph if error.graph_text else details))
    return tuple(lines)


def _for_missing(error: FunctionNotFoundError, door: Door) -> list[str]:
    if error.drafted:
        return _fill_name(_MISSING[door], error.converter_name)
    return _for_refused(error, door) if error.converter_name else [_PYTHON]


def _for_refused(error: OrtableError, door: Door) -> list[str]:
    if door == "to_onnx" and not error.converter_name:
        return ["What to do: change the line."]
    return _fill_name(_REFUSED[door], error.converter_name)


def _fill_name(lines: tuple[str, ...], converter_name: str) -> list[str]:
    return [line.replace("{name}", converter_name) for line in lines]


def _custom_library(operator: str) -> str:
    """The library of an operator that is not torch's own."""
    namespace, colons, _ = operator.partition("::")
    return namespace if colons and namespace not in _TORCH_NAMESPACES else ""


def attach_advice(
    error: OrtableError, door: Door, verbose: int = 0, falls_back: bool = False
) -> None:
    """Put the advice of a door under ``error``; with ``verbose``, write everything into a file."""
    if isinstance(error, BuilderError):
        error.shows_graph = False  # the graph of a model is long, and not the user's
    if verbose and error.details_file is None:
        error.details_file = _write_details(error)
    error.advice = make_advice(error, door, falls_back)


@contextmanager
def advise_errors(door: Door, verbose: int = 0) -> Iterator[None]:
    """In the block, errors of ours get the advice of a door."""
    try:
        yield
    except OrtableError as error:
        attach_advice(error, door, verbose)
        raise


def _write_details(error: OrtableError) -> Path | None:
    """The file with everything; None for an error that has said all, or where no file can be."""
    if not error.has_more:
        return None
    try:
        with tempfile.NamedTemporaryFile(
            "w", prefix="ortable_error_", suffix=".txt", delete=False, encoding="utf-8"
        ) as file:
            file.write(error.full_text())
    except OSError:
        return None
    return Path(file.name)

"""Attach advice to a conversion error, and write its details to a file on request.

Each entry point, such as `to_onnx`, torch.compile or the command line, has its own advice.
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

# Entry points that the user calls; "shell" is the command line, "library" any other function.
EntryPoint = Literal["to_onnx", "compile", "shell", "shell compile", "library"]

_TORCH_NAMESPACES = ("aten", "prims", "prim")
_LOAD_SPECS = "ortable.load_specs(path) compiles an entry like this (docs/adding-an-operator.md)"
# Advice by entry point for an operator without a converter.
_MISSING_ADVICE: dict[EntryPoint, tuple[str, ...]] = {
    "to_onnx": (
        f"What to do: {_LOAD_SPECS},",
        "  or dispatcher=Dispatcher({'{name}': f}) with f(graph, res, *args, **kwargs) in Python,",
        "  or dispatcher=OxsDispatcher() to use converters of onnxscript (extra [onnxscript]).",
    ),
    "compile": (
        'What to do: options={"fallback": "eager"} runs it in torch;',
        f"  or {_LOAD_SPECS}.",
    ),
    "shell": (
        f"What to do: {_LOAD_SPECS}:",
        "  call it in the module of TARGET; `ortable specs check FILE` checks the file.",
    ),
    "shell compile": (
        "What to do: without --no-fallback it runs in torch;",
        f"  or {_LOAD_SPECS}:",
        "  call it in the module of TARGET; `ortable specs check FILE` checks the file.",
    ),
    "library": (f"What to do: {_LOAD_SPECS}.",),
}
# Advice for Python functions, methods and modules in a graph that was not exported.
_PYTHON_ADVICE = (
    "What to do: give example inputs (args): torch then exports the graph to operators."
)
# Advice by entry point if a converter rejects its arguments, or fails.
_REJECTED_ADVICE: dict[EntryPoint, tuple[str, ...]] = {
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
# How to get the graph and all details, by entry point, also in a file (``verbose``).
_DETAILS_ADVICE: dict[EntryPoint, str] = {
    "to_onnx": "{}; in a file: to_onnx(..., verbose=1).",
    "compile": '{}; in a file: options={"verbose": 1}.',
    "shell": "Everything that is known, in a file: --verbose.",
    "shell compile": "Everything that is known, in a file: --verbose.",
    "library": "{}.",
}


# Texts about arguments of `to_onnx`, and their replacements for flags of the command line.
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
    """Replace the names of arguments in a message by flags of the command line."""
    for argument, flag in _FLAGS:
        text = text.replace(argument, flag)
    return text


def make_advice(
    error: OrtableError, entry_point: EntryPoint, falls_back: bool = False
) -> tuple[str, ...]:
    """Return lines of advice for an error; with ``falls_back``, torch already runs the operator."""
    lines = list(error.remedies)
    if isinstance(error, FunctionNotFoundError) and error.operators:
        lines += [] if falls_back else _missing_advice(error, entry_point)
        library = next(
            (candidate for candidate in map(_custom_library, error.operators) if candidate), None
        )
        if library is not None and entry_point == "to_onnx":
            lines.append(
                f"  Dispatcher(custom_domains={{{library!r}: 'my.domain'}}) writes each as a node "
                "of your ONNX domain."
            )
    elif isinstance(error, (ConversionError, UnsupportedCase)) and error.operator:
        lines += [] if falls_back else _rejected_advice(error, entry_point)
    if error.details_file is not None:
        lines.append(f"The graph so far, and all details: {error.details_file}")
    elif error.has_more:
        name = "error.inner_exception" if entry_point == "compile" else "error"
        graph, details = f"The graph so far: {name}.graph_text", f"All of it: {name}.details"
        lines.append(
            _DETAILS_ADVICE[entry_point].replace("{}", graph if error.graph_text else details)
        )
    return tuple(lines)


def _missing_advice(error: FunctionNotFoundError, entry_point: EntryPoint) -> list[str]:
    if error.drafted:
        return _fill_name(_MISSING_ADVICE[entry_point], error.converter_name)
    return _rejected_advice(error, entry_point) if error.converter_name else [_PYTHON_ADVICE]


def _rejected_advice(error: OrtableError, entry_point: EntryPoint) -> list[str]:
    if entry_point == "to_onnx" and not error.converter_name:
        return ["What to do: change the line."]
    return _fill_name(_REJECTED_ADVICE[entry_point], error.converter_name)


def _fill_name(lines: tuple[str, ...], converter_name: str) -> list[str]:
    return [line.replace("{name}", converter_name) for line in lines]


def _custom_library(operator: str) -> str:
    """Return the namespace of a custom operator; empty for torch's operators and for functions."""
    namespace, colons, _ = operator.partition("::")
    return namespace if colons and namespace not in _TORCH_NAMESPACES else ""


def attach_advice(
    error: OrtableError, entry_point: EntryPoint, verbose: int = 0, falls_back: bool = False
) -> None:
    """Attach advice for an entry point to an error; with ``verbose``, write details to a file."""
    if isinstance(error, BuilderError):
        error.shows_graph = False  # the graph is long and was not written by the user
    if verbose and error.details_file is None:
        error.details_file = _write_details(error)
    error.advice = make_advice(error, entry_point, falls_back)


@contextmanager
def advise_errors(entry_point: EntryPoint, verbose: int = 0) -> Iterator[None]:
    """Attach advice for an entry point to errors of ortable that the block raises."""
    try:
        yield
    except OrtableError as error:
        attach_advice(error, entry_point, verbose)
        raise


def _write_details(error: OrtableError) -> Path | None:
    """Write the details that the message lacks to a new file and return its path, if possible."""
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

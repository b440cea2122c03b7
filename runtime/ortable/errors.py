"""Errors and warnings of ortable; a message contains what failed, where, and what to do.

Every error derives from OrtableError and from the closest builtin exception, so that callers may
catch either.
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any, Self

__all__ = [
    "ArgumentError",
    "BuilderError",
    "ConversionError",
    "ExportError",
    "FallbackWarning",
    "FunctionNotFoundError",
    "GradientsOnWarning",
    "InputError",
    "KernelError",
    "MismatchError",
    "OptionError",
    "OrtableError",
    "PrecompileError",
    "ProviderError",
    "RewriteError",
    "SpecError",
    "UnsupportedCase",
    "UnsupportedDtype",
    "UntestedVersionWarning",
    "VersionError",
]


# Users do not read longer messages; `details` and `graph_text` contain the omitted lines.
MAX_LINES = 15
# BuilderError prints a graph of fewer lines in full under its message.
MAX_GRAPH_LINES = 60
# control characters, which terminals interpret, except tab and newline
_CONTROL = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f]")
_GRAPH = "\n--DEBUG--"  # the start of the graph text in the message of a builder


def escape_control_characters(text: str) -> str:
    """Write the control characters of a text, which names in files may have, as escapes."""
    return _CONTROL.sub(lambda match: f"\\x{ord(match[0]):02x}", text)


class OrtableError(Exception):
    """The base class of every error that ortable raises deliberately.

    ``str(error)`` has at most 15 lines: the failure and its location, then what to do. (A spec
    entry to copy is never truncated.) The attributes have the rest. ``message`` is the full
    description of the failure, and ``advice`` the lines of what to do; ``remedies`` are the lines
    of ``advice`` that apply to every caller. ``details`` is everything that is known: all operators
    without a converter, with a YAML draft, or all rows of a comparison. ``graph_text`` is the graph
    so far, empty if there is none. ``details_file`` is the file with all these texts, if
    ``verbose`` requested one. ``fx_node`` is the name of the graph node that was being converted,
    if there is one, and ``operator`` its target (``"aten::relu"``); ``converter_name`` is the name
    under which a Dispatcher registers a converter for it, empty if there is none. ``sizes`` are the
    symbolic sizes that would have to be known, if they are the reason. ``differs``: whether the
    only failure is a difference from eager.
    """

    fx_node: str | None = None
    operator: str = ""
    converter_name: str = ""
    sizes: tuple[Any, ...] = ()
    graph_text: str = ""
    advice: tuple[str, ...] = ()
    remedies: tuple[str, ...] = ()
    details_file: Path | None = None
    differs: bool = False
    max_lines: int | None = MAX_LINES
    _details: str = ""

    def __init__(self, message: str = "", *, graph_text: str = "", details: str = "") -> None:
        super().__init__(message)
        if graph_text:
            self.graph_text = graph_text.lstrip("\n")
        if details and details != message:
            self._details = details

    def with_advice(self, *lines: str) -> Self:
        """Set the lines of what to do that apply to every caller, and return the error."""
        self.remedies = self.advice = lines
        return self

    @property
    def message(self) -> str:
        """The full description of the failure, without the advice."""
        return str(self.args[0]) if self.args else ""

    @property
    def details(self) -> str:
        """Everything that is known about the failure, except the graph."""
        return self._details or self.message

    @property
    def has_more(self) -> bool:
        """Whether more is known than the message contains."""
        return bool(self.graph_text or self._details)

    def __str__(self) -> str:
        lines = self.message.split("\n")
        if self.max_lines is not None:
            room = max(self.max_lines - len(self.advice), 2)
            if len(lines) > room:
                # also keep the last lines, which contain the advice if `advice` is empty
                kept_at_end = 4 if room >= 8 and not self.advice else 0
                omitted = len(lines) - room + 1
                omission_note = f"  ... ({omitted} more lines: error.details)"
                lines = [
                    *lines[: room - 1 - kept_at_end],
                    omission_note,
                    *lines[len(lines) - kept_at_end :],
                ]
        return "\n".join([*lines, *self.advice])

    def full_text(self) -> str:
        """Return message, advice, details and graph, for a file."""
        parts = [self.message, "\n".join(self.advice), self._details, self.graph_text]
        return "\n\n".join(part for part in parts if part) + "\n"


class BuilderError(OrtableError, ValueError):
    """A graph cannot be built: a name is unknown, or shapes or types do not fit.

    ``graph_text`` has the graph so far; if it has at most 60 lines, it also follows the message.
    """

    shows_graph = True
    # whether an operator of ONNX, or of the target, does not support the dtype of an input
    without_dtype = False
    # whether the shape of a result is unknown
    without_shape = False

    def __init__(self, message: str = "", *, graph_text: str = "", details: str = "") -> None:
        text, marker, graph = message.partition(_GRAPH)
        super().__init__(text, graph_text=graph_text or marker + graph, details=details)

    def __str__(self) -> str:
        text, graph = super().__str__(), self.graph_text
        short = graph.count("\n") < MAX_GRAPH_LINES
        return f"{text}\n{graph}" if graph and short and self.shows_graph else text


class KernelError(BuilderError):
    """The target runtime has no kernel for an operator and dtype, and no exact cast helps."""

    without_dtype = True


class FunctionNotFoundError(OrtableError, RuntimeError):
    """A torch operator has no converter; ``operators`` are the names of all such operators.

    ``drafted`` is whether the message has an entry for ``load_specs`` for the first operator.
    """

    operators: tuple[str, ...] = ()
    drafted: bool = True


class UnsupportedCase(OrtableError, NotImplementedError):
    """The converter of an operator refuses these arguments, with a reason."""

    def __init__(
        self,
        message: str = "",
        sizes: tuple[Any, ...] = (),
        *,
        graph_text: str = "",
        details: str = "",
    ) -> None:
        super().__init__(message, graph_text=graph_text, details=details)
        self.sizes = sizes


class UnsupportedDtype(UnsupportedCase, BuilderError):
    """A torch dtype that ONNX does not have: quantized types, complex32."""


class ConversionError(OrtableError, RuntimeError):
    """A converter failed, or produced a type or shape that differs from torch's."""


class MismatchError(OrtableError, AssertionError):
    """A result of the ONNX graph differs from eager's; the debug backend raises it."""

    differs = True


class OptionError(OrtableError, ValueError):
    """An option is unknown, or its value is not accepted."""


class ArgumentError(OptionError, TypeError):
    """A function has no argument of that name, or accepts fewer positional arguments.

    For an argument of another exporter, the message contains the corresponding argument of ortable.
    """


class RewriteError(OrtableError, RuntimeError):
    """Rewriting a graph does not end, for example because rules undo one another."""


class ExportError(OrtableError, RuntimeError):
    """A model could not be turned into a torch graph or into an ONNX model."""


class PrecompileError(OrtableError, RuntimeError):
    """A compiled graph cannot be stored in a file for another process, or loaded from one.

    A file cannot be loaded if it is damaged, or was made with other versions or options.
    """


class ProviderError(OrtableError, RuntimeError):
    """An execution provider is missing or failed."""


class InputError(OrtableError, ValueError):
    """Inputs given at export or at call time do not fit the model."""


class GradientsOnWarning(UserWarning):
    """A module in eval mode is compiled with gradients enabled, which is slower; raised once."""


class FallbackWarning(UserWarning):
    """A call that ortable cannot convert runs in torch, or a node in another execution provider.

    It is raised once in a process per operator.
    """


class SpecError(OrtableError, ValueError):
    """A spec file is wrong. The message lists all its errors, without a limit on the lines."""

    max_lines: int | None = None


class VersionError(OrtableError, ImportError):
    """The installed torch, onnx or onnxruntime is too old or lacks an interface.

    The message names the version, the interface, and the feature that needs it.
    """


class UntestedVersionWarning(UserWarning):
    """A torch, onnx or onnxruntime newer than the tested versions; warned of once for each."""

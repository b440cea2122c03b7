"""Errors raised by ortable: every one derives from OrtableError and from the closest builtin,
so that callers may catch either. Messages say what failed, where, and what to do about it.
"""

from __future__ import annotations

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


# Longer messages are not read; the rest is in `details` and `graph_text`.
MAX_LINES = 15
# A graph that was built by hand is printed in full under the message of its builder.
MAX_GRAPH_LINES = 60
_GRAPH = "\n--DEBUG--"  # how the text of a builder's graph begins


class OrtableError(Exception):
    """Base class of every error that ortable raises on purpose.

    ``str(error)`` has at most 15 lines: what failed and where, then what to do. (A spec entry to
    copy is never truncated.) The attributes have the rest: ``message`` is all of what failed,
    ``advice`` the lines of what to do (``remedies`` are those that hold for every caller);
    ``details`` is everything that is known (all operators without a converter, with the YAML to
    start from; all rows of a comparison), and ``graph_text`` the graph so far, empty where there is
    none; ``details_file`` has all that, when ``verbose`` asked for a file.
    ``fx_node`` is the name of the node of the graph that was being converted, where there is one,
    and ``operator`` its target (``"aten::relu"``); ``converter_name`` is the name under which a
    Dispatcher takes a converter for it, empty where there is none.
    ``sizes`` are the symbolic sizes that would have to be known, where those were the reason.
    ``differs``: the only failure is a difference from eager.
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
        """Add lines of what to do that hold wherever the error is raised, and return it."""
        self.remedies = self.advice = lines
        return self

    @property
    def message(self) -> str:
        """What failed, in full, without the advice."""
        return str(self.args[0]) if self.args else ""

    @property
    def details(self) -> str:
        """Everything that is known about the failure, except the graph."""
        return self._details or self.message

    @property
    def has_more(self) -> bool:
        """Whether more is known than the message says."""
        return bool(self.graph_text or self._details)

    def __str__(self) -> str:
        lines = self.message.split("\n")
        if self.max_lines is not None:
            room = max(self.max_lines - len(self.advice), 2)
            if len(lines) > room:
                # keep the last lines, too: they say what to do where `advice` does not
                last = 4 if room >= 8 and not self.advice else 0
                left = len(lines) - room + 1
                more = f"  ... ({left} more lines: error.details)"
                lines = [*lines[: room - 1 - last], more, *lines[len(lines) - last :]]
        return "\n".join([*lines, *self.advice])

    def full_text(self) -> str:
        """Return message, advice, details and graph, for a file."""
        parts = [self.message, "\n".join(self.advice), self._details, self.graph_text]
        return "\n\n".join(part for part in parts if part) + "\n"


class BuilderError(OrtableError, ValueError):
    """A graph cannot be built: unknown name, shapes or types that do not fit.

    The graph so far is under the message when it has at most 60 lines, and in ``graph_text``.
    """

    shows_graph = True
    # an operator of ONNX, or of the target, does not have a dtype that it would get
    without_dtype = False
    # the shape of a result is not known
    without_shape = False

    def __init__(self, message: str = "", *, graph_text: str = "", details: str = "") -> None:
        text, marker, graph = message.partition(_GRAPH)
        super().__init__(text, graph_text=graph_text or marker + graph, details=details)

    def __str__(self) -> str:
        text, graph = super().__str__(), self.graph_text
        short = graph.count("\n") < MAX_GRAPH_LINES
        return f"{text}\n{graph}" if graph and short and self.shows_graph else text


class KernelError(BuilderError):
    """The target runtime has no kernel for an operator and type, and no exact cast reaches one."""

    without_dtype = True


class FunctionNotFoundError(OrtableError, RuntimeError):
    """A torch operator has no converter. ``operators`` are the names of all that have none.

    ``drafted`` says whether the message has an entry for the first, which ``load_specs`` takes.
    """

    operators: tuple[str, ...] = ()
    drafted: bool = True


class UnsupportedCase(OrtableError, NotImplementedError):
    """An operator has a converter, but it refuses these arguments, with a reason."""

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
    """A result of the ONNX graph differs from eager's; raised by the debug backend."""

    differs = True


class OptionError(OrtableError, ValueError):
    """An option is unknown, or its value is not one of those accepted."""


class ArgumentError(OptionError, TypeError):
    """A function has no argument of that name, or takes fewer positional ones.

    For an argument of another exporter, the message names the one that is used here.
    """


class RewriteError(OrtableError, RuntimeError):
    """Rewrite rules undo one another without end."""


class ExportError(OrtableError, RuntimeError):
    """A model could not be turned into a torch graph or into an ONNX model."""


class PrecompileError(OrtableError, RuntimeError):
    """A compiled graph cannot be stored in a file for another process, or loaded from one.

    A file cannot be loaded if it is damaged, or other versions or other options made it.
    """


class ProviderError(OrtableError, RuntimeError):
    """An execution provider is missing or failed."""


class InputError(OrtableError, ValueError):
    """Inputs given at export or at call time do not fit the model."""


class GradientsOnWarning(UserWarning):
    """A module in eval mode is compiled with gradients on, and would be faster without.

    Raised once in a process.
    """


class FallbackWarning(UserWarning):
    """Torch runs a call that ortable cannot convert; raised once in a process per operator."""


class SpecError(OrtableError, ValueError):
    """A spec file is wrong. The message lists all that is wrong, in as many lines as it takes."""

    max_lines: int | None = None


class VersionError(OrtableError, ImportError):
    """The installed version of torch, onnx or onnxruntime is too old, or lacks what ortable needs.

    The message names the version, the interface, and the feature that needs it.
    """


class UntestedVersionWarning(UserWarning):
    """The installed version of torch, onnx or onnxruntime is newer than the tested ones.

    Raised once in a process for each of them.
    """

"""Errors raised by ortable: every one derives from OrtableError and from the closest builtin,
so that callers may catch either.  Messages say what failed, where, and what to do about it."""

from __future__ import annotations

from typing import Any

__all__ = [
    "BuilderError",
    "ConversionError",
    "ExportError",
    "FunctionNotFoundError",
    "InputError",
    "KernelError",
    "MismatchError",
    "OptionError",
    "OrtableError",
    "ProviderError",
    "RewriteError",
    "SpecError",
    "UnsupportedCase",
    "UnsupportedDtype",
]


class OrtableError(Exception):
    """Base class of every error that ortable raises on purpose.

    ``fx_node`` is the name of the node of the graph that was being converted, where there is one.
    ``sizes`` are the symbolic sizes that would have to be known, where those were the reason.
    """

    fx_node: str | None = None
    sizes: tuple[Any, ...] = ()


class BuilderError(OrtableError, ValueError):
    """A graph cannot be built as asked: unknown name, shapes or types that do not fit."""


class KernelError(BuilderError):
    """The target runtime has no kernel for an operator and type, and no exact cast reaches one."""


class FunctionNotFoundError(OrtableError, RuntimeError):
    """A torch operator has no converter."""


class UnsupportedCase(OrtableError, NotImplementedError):
    """An operator has a converter, but it refuses these arguments, with a reason."""

    def __init__(self, message: str, sizes: tuple[Any, ...] = ()) -> None:
        super().__init__(message)
        self.sizes = sizes


class UnsupportedDtype(UnsupportedCase, BuilderError):
    """A torch dtype that ONNX does not have: quantized types, complex32."""


class ConversionError(OrtableError, RuntimeError):
    """A converter failed, or produced a type or shape that differs from torch's."""


class MismatchError(OrtableError, AssertionError):
    """A result of the ONNX graph differs from eager's; raised by the debug backend."""


class OptionError(OrtableError, ValueError):
    """An option is unknown, or its value is not one of those accepted."""


class RewriteError(OrtableError, RuntimeError):
    """Rules of rewriting undo one another without end."""


class ExportError(OrtableError, RuntimeError):
    """A model could not be turned into a torch graph or into an ONNX model."""


class ProviderError(OrtableError, RuntimeError):
    """An execution provider is missing or failed."""


class InputError(OrtableError, ValueError):
    """Inputs given at export or at call time do not fit the model."""


class SpecError(OrtableError, ValueError):
    """A spec file is wrong."""

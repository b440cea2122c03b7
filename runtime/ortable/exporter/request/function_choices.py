"""What of a model becomes local functions, from the arguments of to_onnx and ExportOptions. Out
goes a `FunctionChoices` or None. Called by to_onnx.py; options.py checks its own fields here."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass, field
from typing import Any

from ortable.errors import OptionError
from ortable.passes.pipeline import PassOptions

from .module_calls import CallReader, checked_classes

WEIGHTS = ("auto", "inputs", "constants")
KINDS = ("autocast", "subgraphs", "custom_ops")


@dataclass
class FunctionChoices:
    """What becomes a function, and how.

    ``subgraphs``: whether regions of ``nested_compile_region`` do. ``weights``: one of ``WEIGHTS``;
    those of ``largest_constant`` bytes or more are always inputs (None: no limit). ``passes``:
    what the bodies are optimized with.
    """

    reader: CallReader
    subgraphs: bool = False
    weights: str = "auto"
    largest_constant: int | None = None
    passes: PassOptions = field(default_factory=PassOptions)

    def takes_weights(self, kind: str) -> bool:
        """Whether the function of a class has its weights as inputs."""
        return self.weights == "inputs" or (self.weights == "auto" and kind.startswith("torch."))


def function_choices(
    modules: Any,
    options: Any,
    passes: PassOptions,
    inline: bool,
    largest_constant: int | None,
) -> FunctionChoices | None:
    """The choices of one conversion, None when nothing becomes a function.

    With ``inline`` no function is made that would be taken apart again.
    Raises OptionError when ``modules`` is no bool and no collection of classes.
    """
    classes = checked_classes(modules)
    everything = classes is True
    autocast = everything or "autocast" in options.functions
    subgraphs = everything or "subgraphs" in options.functions
    if inline or not (classes or autocast or subgraphs):
        return None
    return FunctionChoices(
        CallReader(classes, autocast),
        subgraphs,
        options.function_weights,
        largest_constant,
        passes,
    )


def checked_functions(functions: Any, weights: Any) -> tuple[str, ...]:
    """``ExportOptions.functions`` as a tuple.

    Raises OptionError for names that are not in ``KINDS``, and for ``weights`` not in ``WEIGHTS``.
    """
    if weights not in WEIGHTS:
        raise OptionError(f"ExportOptions.function_weights is one of {WEIGHTS}, not {weights!r}")
    names = (functions,) if isinstance(functions, str) else functions
    if not isinstance(names, Collection) or not all(name in KINDS for name in names):
        raise OptionError(f"ExportOptions.functions holds names among {KINDS}, not {functions!r}")
    return tuple(names)

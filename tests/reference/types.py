"""Format type annotations for the pages, without modules and with aliases expanded."""

from __future__ import annotations

import inspect
import re
from typing import Any, ForwardRef

from ortable.exporter import arguments

# Aliases that a reader cannot look up.
_ALIASES = {
    "Arguments": "tuple[Any, ...] | list[Any] | Tensor",
    "Cache": "Literal['keep', 'int8'] | Mapping[str, Any] | CacheOptions",
    "Compiled": "Callable[..., Any]",
    "Converters": "Dispatcher | Mapping[Any, Converter]",
    "Dim": "int | SymDim",
    "Kind": "Literal['int4', 'int8']",
    "Model": "Module | ExportedProgram | str | PathLike[str]",
    "PathName": "str | PathLike[str]",
    "Progress": "Callable[[int, int, str], None]",
    "Provider": "str | tuple[str, dict[str, Any]]",
    "Retriever": "Callable[[Node], Any]",
    "Shape": "tuple[int | SymDim, ...]",
    "Stored": "Literal['keep', 'float32']",
    "Table": "dict[OpOverload, Callable[..., Any]]",
    "Transform": "Callable[[ModelProto], ModelProto | None]",
    "Weights": "Literal['keep', 'float32', 'float16', 'int4', 'int8', 'int4+float16', "
    "'int8+float16'] | Mapping[str, Any] | "
    "WeightOptions | None",
}
_MODULES = re.compile(r"\b(?:[a-z_]\w*\.)+(?=[A-Za-z])")


def shown(annotation: Any) -> str:
    """Format an annotation, which may be a text, for a reader."""
    if isinstance(annotation, ForwardRef):
        annotation = annotation.__forward_arg__
    text = annotation if isinstance(annotation, str) else inspect.formatannotation(annotation)
    text = re.sub(r"ForwardRef\('(.*?)'[^)]*\)", r"\1", text)
    text = _MODULES.sub("", text).replace('"', "'")
    if "DynamicShapes" in text:
        text = text.replace("DynamicShapes", shown(arguments.DynamicShapes))
    text = re.sub(r"\b(?<!')\w+\b", lambda match: _ALIASES.get(match[0], match[0]), text)
    return text.replace("| None | None", "| None")

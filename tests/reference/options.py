"""docs/options.md: every option, from records, docstrings, errors of checks and examples.yaml."""

from __future__ import annotations

import dataclasses
import inspect
import re
from collections.abc import Callable, Iterator, Mapping
from typing import Any

import yaml

import ortable
from ortable.exporter import arguments
from tests.packaging.files import ROOT

from .docstrings import parts
from .types import shown

PAGE = ROOT / "docs" / "options.md"
EXAMPLES = ROOT / "tests" / "reference" / "examples.yaml"


@dataclasses.dataclass(frozen=True)
class Option:
    """An option: its accepted type, its default as source, its meaning, and its accepted values.

    The accepted values are in the words of the error of the check.
    """

    name: str
    type: str
    default: str
    text: str
    accepts: str


@dataclasses.dataclass(frozen=True)
class Group:
    """Options of one callable: the callable, and a prefix for their headings."""

    key: str
    owner: Callable[..., Any]
    prefix: str
    types: Mapping[str, Any]
    refused: Callable[[str], str]


def _error(call: Callable[[], object]) -> str:
    """Return what the error of an option's check says is accepted, or an empty text."""
    try:
        call()
    except ortable.OptionError as error:
        message = str(error)
    else:
        return ""
    match = re.search(r"(?:must be|\bis|\btakes) (.*?)(?:, got|, not| of type)\b", message)
    return match[1].replace("\n", " ") if match else ""


class _Invalid:
    """A value that no option accepts."""

    def __repr__(self) -> str:
        return "?"


def _checked_by(kind: Callable[..., Any]) -> Callable[[str], str]:
    return lambda name: _error(lambda: kind(**{name: _Invalid()}))


def _not_checked(name: str) -> str:
    return ""


_ORT, _EXPORT = ortable.OrtOptions, ortable.ExportOptions
_KEYWORDS = arguments.ToOnnxKeywords.__annotations__
_WEIGHTS, _CACHE = ortable.WeightOptions, ortable.CacheOptions
GROUPS = (
    Group("backend", _ORT, "", ortable.OrtOptionsDict.__annotations__, _checked_by(_ORT)),
    Group("to_onnx", ortable.to_onnx, "to_onnx: ", _KEYWORDS, _not_checked),
    Group("ExportOptions", _EXPORT, "ExportOptions: ", {}, _checked_by(_EXPORT)),
    Group("WeightOptions", _WEIGHTS, "WeightOptions: ", {}, _checked_by(_WEIGHTS)),
    Group("CacheOptions", _CACHE, "CacheOptions: ", {}, _checked_by(_CACHE)),
)
# Arguments of to_onnx that are not options: the model and the example call.
_CALL = ("mod", "args", "kwargs")


def options(group: Group) -> Iterator[Option]:
    """Yield the options of a group in the order of its record."""
    descriptions = parts(inspect.getdoc(group.owner) or "").list_arguments()
    if dataclasses.is_dataclass(group.owner):
        fields = [(f.name, f.type, f.default) for f in dataclasses.fields(group.owner)]
    else:
        all_parameters = inspect.signature(inspect.unwrap(group.owner)).parameters.values()
        fields = [(p.name, p.annotation, p.default) for p in all_parameters if p.name not in _CALL]
    for name, annotation, default in fields:
        kind = shown(group.types.get(name, annotation))
        yield Option(name, kind, repr(default), descriptions[name], group.refused(name))


def examples() -> dict[str, Any]:
    """Load the texts that no source contains: descriptions of groups and examples of options."""
    return yaml.safe_load(EXAMPLES.read_text(encoding="utf-8"))


def _section(option: Option, example: Mapping[str, Any], group: Group) -> str:
    """Return the section of an option."""
    lines = [f"### {group.prefix}{option.name}", "", _sentence(option.text), ""]
    is_number = re.search(r"\b(int|float)\b", option.type)  # other types state the accepted values
    accepted = f": {option.accepts}" if option.accepts and is_number else ""
    lines.append(f"- `{option.type}`{accepted}; default `{option.default}`")
    if "limits" in example:
        lines.append(f"- limits: {example['limits']}")
    if "see" in example:
        lines.append(f"- more: {example['see']}")
    lines += ["", "```py", example["example"].rstrip(), "```", ""]
    return "\n".join(lines)


def _sentence(text: str) -> str:
    """Return a text with an initial capital and a final period."""
    text = text[:1].upper() + text[1:] if text[:1].isalpha() else text
    return text if text.endswith((".", ":")) else text + "."


def _anchor(heading: str) -> str:
    return re.sub(r"[^\w\- ]", "", heading).replace(" ", "-").lower()


def _overview(group: Group, options_: list[Option], texts: Mapping[str, Any]) -> str:
    rows = []
    for option in options_:
        link = _anchor(group.prefix + option.name)
        rows.append(f"- [`{option.name}`](#{link}): {texts[option.name]['short']}")
    return "\n".join(rows)


def page() -> str:
    """Return the text of the page."""
    texts = examples()
    text = ["# Options", "", "<!-- Written by `python -m tests.reference`. Do not edit. -->", ""]
    text += [texts["introduction"], ""]
    for group in GROUPS:
        about = texts[group.key]
        listed = list(options(group))
        text += [
            f"## {about['title']}",
            "",
            about["text"],
            "",
            _overview(group, listed, about["options"]),
            "",
        ]
        text += [_section(option, about["options"][option.name], group) for option in listed]
    return "\n".join(text).rstrip() + "\n"

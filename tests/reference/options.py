"""docs/options.md: every option, from the records that hold them, their docstrings, the errors that
their checks raise, and the examples of examples.yaml. Called by `python -m tests.reference`."""

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
    """One option: the type that a caller may give, its default as source, what it means, and what
    its check accepts, in the words of its error."""

    name: str
    type: str
    default: str
    text: str
    accepts: str


@dataclasses.dataclass(frozen=True)
class Group:
    """Options that are given in one place: who has them, and how their headings begin."""

    key: str
    owner: Callable[..., Any]
    prefix: str
    types: Mapping[str, Any]
    refused: Callable[[str], str]


def _error(call: Callable[[], object]) -> str:
    """What an option's check says about a value that nothing accepts, without that value."""
    try:
        call()
    except ortable.OptionError as error:
        said = str(error)
    else:
        return ""
    found = re.search(r"(?:must be|\bis|\btakes) (.*?)(?:, got|, not| of type)\b", said)
    return found[1].replace("\n", " ") if found else ""


class _Nothing:
    """A value that no option accepts."""

    def __repr__(self) -> str:
        return "?"


def _refused_by(kind: Callable[..., Any]) -> Callable[[str], str]:
    return lambda name: _error(lambda: kind(**{name: _Nothing()}))


def _not_checked(name: str) -> str:
    return ""


_ORT, _EXPORT = ortable.OrtOptions, ortable.ExportOptions
_KEYWORDS = arguments.ToOnnxKeywords.__annotations__
_WEIGHTS, _CACHE = ortable.WeightOptions, ortable.CacheOptions
GROUPS = (
    Group("backend", _ORT, "", ortable.OrtOptionsDict.__annotations__, _refused_by(_ORT)),
    Group("to_onnx", ortable.to_onnx, "to_onnx: ", _KEYWORDS, _not_checked),
    Group("ExportOptions", _EXPORT, "ExportOptions: ", {}, _refused_by(_EXPORT)),
    Group("WeightOptions", _WEIGHTS, "WeightOptions: ", {}, _refused_by(_WEIGHTS)),
    Group("CacheOptions", _CACHE, "CacheOptions: ", {}, _refused_by(_CACHE)),
)
# Arguments of to_onnx that are no options: what is converted, and the example call.
_CALL = ("mod", "args", "kwargs")


def options(group: Group) -> Iterator[Option]:
    """The options of a group, in the order of its record."""
    said = parts(inspect.getdoc(group.owner) or "").said()
    if dataclasses.is_dataclass(group.owner):
        given = [(each.name, each.type, each.default) for each in dataclasses.fields(group.owner)]
    else:
        found = inspect.signature(inspect.unwrap(group.owner)).parameters.values()
        given = [(p.name, p.annotation, p.default) for p in found if p.name not in _CALL]
    for name, annotation, default in given:
        kind = shown(group.types.get(name, annotation))
        yield Option(name, kind, repr(default), said[name], group.refused(name))


def examples() -> dict[str, Any]:
    """What no source holds: what a group is for, and an example for each option."""
    return yaml.safe_load(EXAMPLES.read_text(encoding="utf-8"))


def _shown(option: Option, example: Mapping[str, Any], group: Group) -> str:
    """The section of an option."""
    lines = [f"### {group.prefix}{option.name}", "", _sentence(option.text), ""]
    numbers = re.search(r"\b(int|float)\b", option.type)  # of others the type says what is accepted
    accepted = f": {option.accepts}" if option.accepts and numbers else ""
    lines.append(f"- `{option.type}`{accepted}; default `{option.default}`")
    if "limits" in example:
        lines.append(f"- limits: {example['limits']}")
    if "see" in example:
        lines.append(f"- more: {example['see']}")
    lines += ["", "```py", example["example"].rstrip(), "```", ""]
    return "\n".join(lines)


def _sentence(text: str) -> str:
    """A text that begins with a capital and ends with a stop."""
    text = text[:1].upper() + text[1:] if text[:1].isalpha() else text
    return text if text.endswith((".", ":")) else text + "."


def _anchor(heading: str) -> str:
    return re.sub(r"[^\w\- ]", "", heading).replace(" ", "-").lower()


def _overview(group: Group, found: list[Option], told: Mapping[str, Any]) -> str:
    rows = []
    for option in found:
        link = _anchor(group.prefix + option.name)
        rows.append(f"- [`{option.name}`](#{link}): {told[option.name]['short']}")
    return "\n".join(rows)


def page() -> str:
    """The page."""
    told = examples()
    text = ["# Options", "", "<!-- Written by `python -m tests.reference`. Do not edit. -->", ""]
    text += [told["introduction"], ""]
    for group in GROUPS:
        about = told[group.key]
        found = list(options(group))
        text += [
            f"## {about['title']}",
            "",
            about["text"],
            "",
            _overview(group, found, about["options"]),
            "",
        ]
        text += [_shown(each, about["options"][each.name], group) for each in found]
    return "\n".join(text).rstrip() + "\n"

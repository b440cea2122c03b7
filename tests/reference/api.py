"""docs/api.md: every public name of `ortable` by topic, from the docstring of the package, which
has the topics, and those of the objects. Called by `python -m tests.reference`."""

from __future__ import annotations

import dataclasses
import inspect
import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import ortable
from tests.packaging.files import ROOT

from .docstrings import Parts, Row, markdown, parts
from .types import shown

PAGE = ROOT / "docs" / "api.md"
OURS = ("ortable.", "ortable_generated.")
# Records whose arguments are on a page of their own.
OPTIONS = {
    "OrtOptions": "options.md#torchcompile",
    "ExportOptions": "options.md#exportoptions",
    "WeightOptions": "options.md#weightoptions",
    "CacheOptions": "options.md#cacheoptions",
}
# Functions whose keywords another section lists: where, and the names of these keywords.
_EXPORT = "[Options of to_onnx and export](options.md#to_onnx-and-export)"
SHARED: dict[str, tuple[str, Callable[..., Any]]] = {
    "to_onnx": (_EXPORT, ortable.to_onnx),
    "export": (_EXPORT, ortable.to_onnx),
    "OnnxProgram.draw": ("Those of [`ortable.draw`](#ortabledraw)", ortable.draw),
}
UNSTABLE = "provisional|experimental"
_MAX_INLINE = 3  # rows of arguments and errors in the list of methods
# Classes whose other methods are steps of these.
STEPS = {"DynamoInterpreter": ("run", "convert_subgraph")}
# Classes whose objects a user makes; of the others, ortable makes them.
MADE_BY_USERS = (
    "Dispatcher", "DynamoInterpreter", "ExtendedReferenceEvaluator", "GraphBuilder",
    "OnnxLanguageModel", "OxsDispatcher",
)  # fmt: skip
_INTRODUCTION = """\
# The Python interface

<!-- Written by `python -m tests.reference`. Do not edit. -->

The public names, by topic. Each is a name of `ortable` itself: write `ortable.export`, or
`from ortable import export`. Modules below `ortable` are private and may change, except
`ortable.errors`. `help(ortable.export)` prints what this page says. [Releases](releasing.md) says
what *stable*, *provisional* and *experimental* promise.

To find a way to a goal, begin with [Getting started](getting-started.md). Options have
[a page of their own](options.md). Arguments behind `*` are given by name."""


@dataclass(frozen=True)
class Topic:
    """Names that belong together, each with what it is in a few words, and how stable it is."""

    title: str
    names: dict[str, str]
    stability: dict[str, str]


def topics() -> list[Topic]:
    """The topics of the package's docstring."""
    found: list[Topic] = []
    for line in (ortable.__doc__ or "").splitlines():
        if head := re.fullmatch(r"(\S.*?)(?: \(.*\))?:", line):
            found.append(Topic(head[1], {}, {}))
        elif found and (row := re.fullmatch(rf"    (\w+): (.+?)(?: \(({UNSTABLE})\))?", line)):
            found[-1].names[row[1]] = row[2]
            found[-1].stability[row[1]] = row[3] or "stable"
    return [topic for topic in found if topic.names]


def members(kind: type) -> Iterator[tuple[str, Any]]:
    """Public methods and properties of a class and of its bases that are ours, in the order of the
    alphabet."""
    for name, value in inspect.getmembers_static(kind):
        if name.startswith("_"):
            continue
        plain = value.__func__ if isinstance(value, classmethod | staticmethod) else value
        plain = plain.fget if isinstance(plain, property) else plain
        if inspect.isfunction(plain) and plain.__module__.startswith(OURS):
            yield name, value


def signature(name: str, value: Callable[..., Any], first: str = "", owner: str = "") -> str:
    """The head of a function as Python, on one line where it fits; ``first`` is `self` or `cls`,
    which stands in place of the argument that a method gets without being told. Keywords that
    another section lists are one ``**options``."""
    found = inspect.signature(inspect.unwrap(value))
    rows = [first] if first else []
    rows += _parameters(found, _shared(owner + name))
    back = "" if found.return_annotation is found.empty else f" -> {shown(found.return_annotation)}"
    line = f"def {name}({', '.join(rows)}){back}: ..."
    if len(line) <= 88:
        return line
    return f"def {name}(\n" + "".join(f"    {row},\n" for row in rows) + f"){back}: ..."


def _shared(name: str) -> set[str]:
    """The keywords of a function that another section lists."""
    if name not in SHARED:
        return set()
    listed = SHARED[name][1]
    found = inspect.signature(inspect.unwrap(listed)).parameters.values()
    kinds = (inspect.Parameter.KEYWORD_ONLY,)
    if inspect.isclass(listed):
        kinds += (inspect.Parameter.POSITIONAL_OR_KEYWORD,)
    return {each.name for each in found if each.kind in kinds}


def _parameters(found: inspect.Signature, shared: set[str]) -> Iterator[str]:
    before: Any = None
    given = [each for each in found.parameters.values() if each.name not in ("self", "cls")]
    for each in given:
        if each.name in shared:
            continue
        if each.kind is each.KEYWORD_ONLY and before not in (
            each.KEYWORD_ONLY,
            each.VAR_POSITIONAL,
        ):
            yield "*"
        before = each.kind
        yield _parameter(each)
    if shared:
        yield "**options"


def _parameter(each: inspect.Parameter) -> str:
    stars = {each.VAR_POSITIONAL: "*", each.VAR_KEYWORD: "**"}.get(each.kind, "")
    text = stars + each.name
    if each.annotation is not each.empty:
        text += f": {shown(each.annotation)}"
    if each.default is not each.empty:
        default = "..." if repr(each.default).startswith("<") else repr(each.default)
        text += f" = {default}" if ":" in text else f"={default}"
    return text


def _code(text: str) -> str:
    return f"```py\n{text}\n```"


def _rows(head: str, rows: tuple[Row, ...], name: str = "") -> str:
    if head in ("Returns", "Yields"):
        return f"{head}: {rows[0].text}"
    lines = [f"{head.replace('Args', 'Arguments')}:", ""]
    if head == "Args" and name in SHARED:
        shared = _shared(name)
        rows = tuple(row for row in rows if row.name.split(",")[0] not in shared)
        rows += (Row("**options", f"{SHARED[name][0]}."),)
    for row in rows:
        names = ", ".join(f"`{each.strip()}`" for each in row.name.split(","))
        lines.append(f"- {names}: {row.text}" if row.name else f"- {row.text}")
    return "\n".join(lines)


def _sections(found: Parts, name: str = "", without: tuple[str, ...] = ()) -> list[str]:
    return [_rows(head, rows, name) for head, rows in found.sections.items() if head not in without]


def _function(name: str, value: Callable[..., Any]) -> list[str]:
    found = parts(inspect.getdoc(value) or "")
    return [_code(signature(name, value)), found.text, *_sections(found, name)]


def _class(name: str, kind: type) -> list[str]:
    """A class: how it is made, what it says, its methods."""
    found = parts(inspect.getdoc(kind) or "")
    text = [_code(_made(name, kind)), found.text]
    without = () if name in MADE_BY_USERS else ("Args",)
    if name in OPTIONS:
        text.append(f"Its fields are on the page of [options]({OPTIONS[name]}).")
    text += _sections(found, without=without)
    text += _fields(kind, found) if name not in OPTIONS else []
    found_members = dict(members(kind))
    properties = {n: v for n, v in found_members.items() if isinstance(v, property)}
    if properties:
        text.append(
            "\n".join(["Properties:", "", *map(_property, properties, properties.values())])
        )
    methods = {n: v for n, v in found_members.items() if n not in properties}
    return text + _methods(name, kind, methods)


def _methods(name: str, kind: type, found: dict[str, Any]) -> list[str]:
    """The methods of a class: those that a line describes are a list."""
    base = next((base for base in kind.__mro__[1:] if base.__name__ in ortable.__all__), None)
    if base is not None:
        same = [member for member in found if getattr(base, member, None)]
        link = f"[`{base.__name__}`](#ortable{base.__name__.lower()})"
        names = ", ".join(f"`{member}`" for member in sorted(same))
        text = [f"Methods of {link}: {names}."] if same else []
        return text + _methods_by_length(name, {n: v for n, v in found.items() if n not in same})
    return _methods_by_length(name, found)


def _methods_by_length(name: str, found: dict[str, Any]) -> list[str]:
    if name in STEPS:
        steps = [f"`{member}`" for member in sorted(found) if member not in STEPS[name]]
        found = {member: found[member] for member in STEPS[name]}
        overridden = [f"Steps that a subclass may override: {', '.join(steps)}."]
        return _methods_by_length(f"{name} ", found) + overridden
    short, full = [], []
    for member, value in sorted(found.items()):
        plain = value.__func__ if isinstance(value, classmethod | staticmethod) else value
        said = parts(inspect.getdoc(plain) or "")
        head = signature(member, plain, owner=name + ".")
        rows = sum(map(len, said.sections.values()))
        if rows > _MAX_INLINE or "\n" in said.text or "\n" in head or f"{name}.{member}" in SHARED:
            full += _method(name, member, value)
        else:
            head = head.removeprefix("def ").removesuffix(": ...")
            short.append(f"- `{head}`: {' '.join([said.text, *_inline(said)])}")
    return (["\n".join(["Methods:", "", *short])] if short else []) + full


def _fields(kind: type, found: Parts) -> list[str]:
    """Names and types of a record's fields, where its docstring has no list of them."""
    if not dataclasses.is_dataclass(kind) or {"Args", "Attributes"} & set(found.sections):
        return []
    shown_ = [f"`{f.name}: {shown(f.type)}`" for f in dataclasses.fields(kind) if f.name[0] != "_"]
    return ["Fields: " + ", ".join(shown_) + "."] if shown_ else []


def _made(name: str, kind: type) -> str:
    """The constructor of a class, where somebody calls it."""
    if name in OPTIONS:
        return f"class {name}:\n    def __init__(self, **options) -> None: ..."
    if name not in MADE_BY_USERS:
        return f"class {name}: ..."
    made = signature("__init__", kind, "self").splitlines()
    return f"class {name}:\n" + "\n".join(f"    {line}" for line in made)


def _inline(found: Parts) -> Iterator[str]:
    """Sections of a few rows as sentences."""
    for head, rows in found.sections.items():
        told = "; ".join(
            f"`{row.name}`, {row.text.rstrip('.')}" if row.name else row.text.rstrip(".")
            for row in rows
        )
        yield f"{head.replace('Args', 'Arguments')}: {told}."


def _property(name: str, value: property) -> str:
    back = inspect.signature(value.fget).return_annotation  # type: ignore[arg-type]
    text = " ".join(parts(inspect.getdoc(value) or "").text.split())
    return f"- `{name}: {shown(back)}`: {text}"


def _method(owner: str, name: str, value: Any) -> list[str]:
    plain = value.__func__ if isinstance(value, classmethod | staticmethod) else value
    said = parts(inspect.getdoc(plain) or "")
    kind = {classmethod: ("@classmethod\n", "cls"), staticmethod: ("@staticmethod\n", "")}
    mark, first = kind.get(type(value), ("", "self"))
    head = mark + signature(name, plain, first, f"{owner}.")
    return [
        f"#### {owner.strip()}.{name}",
        _code(head),
        said.text,
        *_sections(said, f"{owner}.{name}"),
    ]


def _error(name: str, kind: type) -> list[str]:
    bases = ", ".join(
        f"[`{base.__name__}`](#ortable{base.__name__.lower()})"
        if base.__name__ in ortable.errors.__all__
        else f"`{base.__name__}`"
        for base in kind.__bases__
    )
    text = [markdown(inspect.getdoc(kind) or "")] if name == "OrtableError" else []
    link = f"[When, and what to do](errors.md#{name.lower()})."
    return [*text, f"Derives from {bases}. {link}"]


def _name(name: str, what: str) -> list[str]:
    """The section of a name."""
    value = getattr(ortable, name)
    text = [f"### ortable.{name}"]
    if inspect.ismodule(value):
        return [*text, markdown(inspect.getdoc(value) or "")]
    if not inspect.isclass(value) and not inspect.isfunction(value):
        return [
            *text,
            _code(f"{name} = {shown(value)}"),
            f"{what[:1].upper()}{markdown(what)[1:]}.",
        ]
    if inspect.isfunction(value):
        return [*text, *_function(name, value)]
    return [*text, *(_error if issubclass(value, Exception) else _class)(name, value)]


def page() -> str:
    """The page."""
    text = [_INTRODUCTION]
    for topic in topics():
        text += [f"## {topic.title}", _overview(topic)]
        for name, what in topic.names.items():
            text += _name(name, what)
    return "\n\n".join(part for part in text if part).rstrip() + "\n"


def _overview(topic: Topic) -> str:
    """The names of a topic, grouped by how stable they are."""
    groups: dict[str, list[str]] = {}
    for name, stability in topic.stability.items():
        groups.setdefault(stability, []).append(f"[`{name}`](#ortable{name.lower()})")
    order = ("stable", *UNSTABLE.split("|"))
    return "\n\n".join(
        f"{stability.capitalize()}: {', '.join(groups[stability])}."
        for stability in order
        if stability in groups
    )

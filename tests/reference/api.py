"""docs/api.md: every public name of `ortable` by topic.

The topics come from the docstring of the package, the text from the docstrings of the objects.
"""

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
OWN_MODULES = ("ortable.", "ortable_generated.")
# Classes whose arguments are on another page.
OPTIONS = {
    "OrtOptions": "options.md#torchcompile",
    "ExportOptions": "options.md#exportoptions",
    "WeightOptions": "options.md#weightoptions",
    "CacheOptions": "options.md#cacheoptions",
}
# Functions whose keywords another section lists: a link to it, and the callable with the keywords.
_EXPORT = "[Options of to_onnx and export](options.md#to_onnx-and-export)"
SHARED: dict[str, tuple[str, Callable[..., Any]]] = {
    "to_onnx": (_EXPORT, ortable.to_onnx),
    "export": (_EXPORT, ortable.to_onnx),
    "OnnxProgram.draw": ("Those of [`ortable.draw`](#ortabledraw)", ortable.draw),
}
UNSTABLE = "provisional|experimental"
_MAX_INLINE = 3  # arguments and errors of a method in the list of methods
# Classes whose other methods are only steps of these methods.
MAIN_METHODS = {"DynamoInterpreter": ("run", "convert_subgraph")}
# Classes that users instantiate; ortable instantiates the others.
USER_CLASSES = (
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
    """Related names with a short description and the stability of each."""

    title: str
    names: dict[str, str]
    stability: dict[str, str]


def topics() -> list[Topic]:
    """Parse the topics of the package's docstring."""
    result: list[Topic] = []
    for line in (ortable.__doc__ or "").splitlines():
        if head := re.fullmatch(r"(\S.*?)(?: \(.*\))?:", line):
            result.append(Topic(head[1], {}, {}))
        elif result and (row := re.fullmatch(rf"    (\w+): (.+?)(?: \(({UNSTABLE})\))?", line)):
            result[-1].names[row[1]] = row[2]
            result[-1].stability[row[1]] = row[3] or "stable"
    return [topic for topic in result if topic.names]


def members(kind: type) -> Iterator[tuple[str, Any]]:
    """Yield the public methods and properties that ortable defines for a class, sorted by name."""
    for name, value in inspect.getmembers_static(kind):
        if name.startswith("_"):
            continue
        function = value.__func__ if isinstance(value, classmethod | staticmethod) else value
        function = function.fget if isinstance(function, property) else function
        if inspect.isfunction(function) and function.__module__.startswith(OWN_MODULES):
            yield name, value


def signature(name: str, value: Callable[..., Any], first: str = "", owner: str = "") -> str:
    """Return the signature of a function as Python code, on one line where it fits.

    ``first`` is `self` or `cls` for a method. Keywords that another section lists are shown as
    ``**options``.
    """
    info = inspect.signature(inspect.unwrap(value))
    parameters = [first] if first else []
    parameters += _parameters(info, _shared(owner + name))
    end = "" if info.return_annotation is info.empty else f" -> {shown(info.return_annotation)}"
    line = f"def {name}({', '.join(parameters)}){end}: ..."
    if len(line) <= 88:
        return line
    return f"def {name}(\n" + "".join(f"    {row},\n" for row in parameters) + f"){end}: ..."


def _shared(name: str) -> set[str]:
    """Return the keywords of a function that another section lists."""
    if name not in SHARED:
        return set()
    listed = SHARED[name][1]
    all_parameters = inspect.signature(inspect.unwrap(listed)).parameters.values()
    accepted = (inspect.Parameter.KEYWORD_ONLY,)
    if inspect.isclass(listed):
        accepted += (inspect.Parameter.POSITIONAL_OR_KEYWORD,)
    return {parameter.name for parameter in all_parameters if parameter.kind in accepted}


def _parameters(info: inspect.Signature, shared: set[str]) -> Iterator[str]:
    previous_kind: Any = None
    parameters = [p for p in info.parameters.values() if p.name not in ("self", "cls")]
    for parameter in parameters:
        if parameter.name in shared:
            continue
        if parameter.kind is parameter.KEYWORD_ONLY and previous_kind not in (
            parameter.KEYWORD_ONLY,
            parameter.VAR_POSITIONAL,
        ):
            yield "*"
        previous_kind = parameter.kind
        yield _parameter(parameter)
    if shared:
        yield "**options"


def _parameter(parameter: inspect.Parameter) -> str:
    stars = {parameter.VAR_POSITIONAL: "*", parameter.VAR_KEYWORD: "**"}.get(parameter.kind, "")
    text = stars + parameter.name
    if parameter.annotation is not parameter.empty:
        text += f": {shown(parameter.annotation)}"
    if parameter.default is not parameter.empty:
        default = "..." if repr(parameter.default).startswith("<") else repr(parameter.default)
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
        names = ", ".join(f"`{part.strip()}`" for part in row.name.split(","))
        lines.append(f"- {names}: {row.text}" if row.name else f"- {row.text}")
    return "\n".join(lines)


def _sections(doc: Parts, name: str = "", omitted: tuple[str, ...] = ()) -> list[str]:
    return [_rows(head, rows, name) for head, rows in doc.sections.items() if head not in omitted]


def _function(name: str, value: Callable[..., Any]) -> list[str]:
    doc = parts(inspect.getdoc(value) or "")
    return [_code(signature(name, value)), doc.text, *_sections(doc, name)]


def _class(name: str, kind: type) -> list[str]:
    """Return the parts of a class section: constructor, description, members."""
    doc = parts(inspect.getdoc(kind) or "")
    text = [_code(_constructor(name, kind)), doc.text]
    omitted = () if name in USER_CLASSES else ("Args",)
    if name in OPTIONS:
        text.append(f"Its fields are on the page of [options]({OPTIONS[name]}).")
    text += _sections(doc, omitted=omitted)
    text += _fields(kind, doc) if name not in OPTIONS else []
    all_members = dict(members(kind))
    properties = {n: v for n, v in all_members.items() if isinstance(v, property)}
    if properties:
        text.append(
            "\n".join(["Properties:", "", *map(_property, properties, properties.values())])
        )
    methods = {n: v for n, v in all_members.items() if n not in properties}
    return text + _methods(name, kind, methods)


def _methods(name: str, kind: type, methods: dict[str, Any]) -> list[str]:
    """Return the methods of a class: a list of short ones, then a section for each other one."""
    base = next((base for base in kind.__mro__[1:] if base.__name__ in ortable.__all__), None)
    if base is not None:
        same = [member for member in methods if getattr(base, member, None)]
        link = f"[`{base.__name__}`](#ortable{base.__name__.lower()})"
        names = ", ".join(f"`{member}`" for member in sorted(same))
        text = [f"Methods of {link}: {names}."] if same else []
        return text + _methods_by_length(name, {n: v for n, v in methods.items() if n not in same})
    return _methods_by_length(name, methods)


def _methods_by_length(name: str, methods: dict[str, Any]) -> list[str]:
    if name in MAIN_METHODS:
        steps = [f"`{member}`" for member in sorted(methods) if member not in MAIN_METHODS[name]]
        methods = {member: methods[member] for member in MAIN_METHODS[name]}
        overridden = [f"Steps that a subclass may override: {', '.join(steps)}."]
        return _methods_by_length(f"{name} ", methods) + overridden
    short, sections = [], []
    for member, value in sorted(methods.items()):
        function = value.__func__ if isinstance(value, classmethod | staticmethod) else value
        doc = parts(inspect.getdoc(function) or "")
        head = signature(member, function, owner=name + ".")
        rows = sum(map(len, doc.sections.values()))
        if rows > _MAX_INLINE or "\n" in doc.text or "\n" in head or f"{name}.{member}" in SHARED:
            sections += _method(name, member, value)
        else:
            head = head.removeprefix("def ").removesuffix(": ...")
            short.append(f"- `{head}`: {' '.join([doc.text, *_inline(doc)])}")
    return (["\n".join(["Methods:", "", *short])] if short else []) + sections


def _fields(kind: type, doc: Parts) -> list[str]:
    """Return names and types of a record's fields, unless its docstring lists the fields."""
    if not dataclasses.is_dataclass(kind) or {"Args", "Attributes"} & set(doc.sections):
        return []
    fields = [f"`{f.name}: {shown(f.type)}`" for f in dataclasses.fields(kind) if f.name[0] != "_"]
    return ["Fields: " + ", ".join(fields) + "."] if fields else []


def _constructor(name: str, kind: type) -> str:
    """Return the constructor of a class that users instantiate, otherwise its head."""
    if name in OPTIONS:
        return f"class {name}:\n    def __init__(self, **options) -> None: ..."
    if name not in USER_CLASSES:
        return f"class {name}: ..."
    lines = signature("__init__", kind, "self").splitlines()
    return f"class {name}:\n" + "\n".join(f"    {line}" for line in lines)


def _inline(doc: Parts) -> Iterator[str]:
    """Yield short sections as sentences."""
    for head, rows in doc.sections.items():
        text = "; ".join(
            f"`{row.name}`, {row.text.rstrip('.')}" if row.name else row.text.rstrip(".")
            for row in rows
        )
        yield f"{head.replace('Args', 'Arguments')}: {text}."


def _property(name: str, value: property) -> str:
    return_type = inspect.signature(value.fget).return_annotation  # type: ignore[arg-type]
    text = " ".join(parts(inspect.getdoc(value) or "").text.split())
    return f"- `{name}: {shown(return_type)}`: {text}"


def _method(owner: str, name: str, value: Any) -> list[str]:
    function = value.__func__ if isinstance(value, classmethod | staticmethod) else value
    doc = parts(inspect.getdoc(function) or "")
    kind = {classmethod: ("@classmethod\n", "cls"), staticmethod: ("@staticmethod\n", "")}
    decorator, first = kind.get(type(value), ("", "self"))
    head = decorator + signature(name, function, first, f"{owner}.")
    return [
        f"#### {owner.strip()}.{name}",
        _code(head),
        doc.text,
        *_sections(doc, f"{owner}.{name}"),
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


def _name(name: str, summary: str) -> list[str]:
    """Return the section of a name."""
    value = getattr(ortable, name)
    text = [f"### ortable.{name}"]
    if inspect.ismodule(value):
        return [*text, markdown(inspect.getdoc(value) or "")]
    if not inspect.isclass(value) and not inspect.isfunction(value):
        return [
            *text,
            _code(f"{name} = {shown(value)}"),
            f"{summary[:1].upper()}{markdown(summary)[1:]}.",
        ]
    if inspect.isfunction(value):
        return [*text, *_function(name, value)]
    return [*text, *(_error if issubclass(value, Exception) else _class)(name, value)]


def page() -> str:
    """Return the text of the page."""
    text = [_INTRODUCTION]
    for topic in topics():
        text += [f"## {topic.title}", _overview(topic)]
        for name, summary in topic.names.items():
            text += _name(name, summary)
    return "\n\n".join(part for part in text if part).rstrip() + "\n"


def _overview(topic: Topic) -> str:
    """Return the names of a topic, grouped by stability."""
    groups: dict[str, list[str]] = {}
    for name, stability in topic.stability.items():
        groups.setdefault(stability, []).append(f"[`{name}`](#ortable{name.lower()})")
    order = ("stable", *UNSTABLE.split("|"))
    return "\n\n".join(
        f"{stability.capitalize()}: {', '.join(groups[stability])}."
        for stability in order
        if stability in groups
    )

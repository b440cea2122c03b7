"""Docstrings of the public API follow Google's style and explain every parameter."""

from __future__ import annotations

import dataclasses
import inspect
import re
from collections.abc import Callable, Iterator
from typing import Any

import pytest

import ortable

SECTIONS = ("Args", "Returns", "Yields", "Raises", "Attributes")
# These functions take the arguments of another callable, and their docstrings name that callable.
SHARED_ARGUMENTS = {
    "export": "to_onnx",
    "onnx_custom_backend": "OrtOptions",
    "onnx_debug_backend": "OrtOptions",
}
# Members inherited from torch or onnx are documented there.
OWN_MODULES = ("ortable.", "ortable_generated.")


def iter_callables() -> Iterator[tuple[str, Callable[..., Any]]]:
    """Yield functions, classes (as constructors) and public methods by their dotted names."""
    for name in ortable.__all__:
        value = getattr(ortable, name)
        if inspect.isclass(value):
            yield name, value
            if not issubclass(value, Exception):
                yield from iter_methods(name, value)
        elif inspect.isfunction(value):
            yield name, value


def iter_methods(name: str, kind: type) -> Iterator[tuple[str, Callable[..., Any]]]:
    """Yield public methods and properties that ortable defines for a class and its bases."""
    for member, value in inspect.getmembers_static(kind):
        if member.startswith("_"):
            continue
        if isinstance(value, classmethod | staticmethod):
            value = value.__func__
        elif isinstance(value, property):
            value = value.fget
        if inspect.isfunction(value) and value.__module__.startswith(OWN_MODULES):
            yield f"{name}.{member}", value


CALLABLES = dict(iter_callables())


def list_parameters(value: Callable[..., Any]) -> list[str]:
    """Return the names of the parameters that a caller passes."""
    if inspect.isclass(value):
        if value.__init__ is object.__init__ or issubclass(value, Exception | dict):
            return []
        if dataclasses.is_dataclass(value):
            return [field.name for field in dataclasses.fields(value)]
    names = list(inspect.signature(value).parameters)
    return [name for name in names if name not in ("self", "cls")]


def parse_names(doc: str, *heads: str) -> list[str]:
    """Return the names that a section of a docstring explains; several may share a row."""
    section = re.search(rf"^(?:{'|'.join(heads)}):\n((?:[ ]{{4}}.*\n?|\n)+)", doc, re.MULTILINE)
    rows = re.findall(r"^ {4}(\S[^:]*):", section[1], re.MULTILINE) if section else []
    return [name.strip().lstrip("*") for row in rows for name in row.split(",")]


def shared_names(name: str) -> set[str]:
    """Return the parameters that the docstring of the class or of another function describes."""
    owner, _, method = name.partition(".")
    if method:
        return set(re.findall(r"``(\w+)``", inspect.getdoc(CALLABLES[owner]) or ""))
    if name in SHARED_ARGUMENTS:
        assert SHARED_ARGUMENTS[name] in (inspect.getdoc(CALLABLES[name]) or "")
        return set(list_parameters(CALLABLES[SHARED_ARGUMENTS[name]]))
    return set()


@pytest.mark.parametrize("name", CALLABLES)
def test_it_has_a_summary_in_one_style(name: str) -> None:
    doc = inspect.getdoc(CALLABLES[name]) or ""
    assert re.match(r"[A-Z0-9`{].*", doc), "no docstring"
    assert ":param" not in doc and ":raises" not in doc and ":return" not in doc
    heads = re.findall(r"^([A-Z]\w+):$", doc, re.MULTILINE)
    assert [head for head in SECTIONS if head in heads] == heads, "sections stand in one order"


@pytest.mark.parametrize("name", CALLABLES)
def test_each_parameter_is_said(name: str) -> None:
    value = CALLABLES[name]
    documented = parse_names(inspect.getdoc(value) or "", "Args", "Attributes")
    expected = list_parameters(value)
    assert set(documented) <= set(expected)
    assert documented == [item for item in expected if item in documented], (
        "wrong order of parameters"
    )
    assert set(expected) - set(documented) - shared_names(name) == set()

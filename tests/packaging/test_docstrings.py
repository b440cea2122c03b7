"""Docstrings of the public API: one style (Google's), every parameter said, ``help`` reads well."""

from __future__ import annotations

import dataclasses
import inspect
import re
from collections.abc import Callable, Iterator
from typing import Any

import pytest

import ortable

HEADS = ("Args", "Returns", "Yields", "Raises", "Attributes")
# These take the arguments of another one, and name it.
BORROWED = {
    "export": "to_onnx",
    "onnx_custom_backend": "OrtOptions",
    "onnx_debug_backend": "OrtOptions",
}
# Their interface is torch's or onnx's: what is inherited is documented there.
OURS = ("ortable.", "ortable_generated.")


def callables() -> Iterator[tuple[str, Callable[..., Any]]]:
    """Functions, classes (their constructors) and public methods, by their dotted names."""
    for name in ortable.__all__:
        value = getattr(ortable, name)
        if inspect.isclass(value):
            yield name, value
            if not issubclass(value, Exception):
                yield from methods(name, value)
        elif inspect.isfunction(value):
            yield name, value


def methods(name: str, kind: type) -> Iterator[tuple[str, Callable[..., Any]]]:
    """Public methods and properties of a class and of its bases that are ours."""
    for member, value in inspect.getmembers_static(kind):
        if member.startswith("_"):
            continue
        if isinstance(value, classmethod | staticmethod):
            value = value.__func__
        elif isinstance(value, property):
            value = value.fget
        if inspect.isfunction(value) and value.__module__.startswith(OURS):
            yield f"{name}.{member}", value


CALLABLES = dict(callables())


def parameters(value: Callable[..., Any]) -> list[str]:
    """Names of parameters that somebody gives."""
    if inspect.isclass(value):
        if value.__init__ is object.__init__ or issubclass(value, Exception | dict):
            return []
        if dataclasses.is_dataclass(value):
            return [field.name for field in dataclasses.fields(value)]
    names = list(inspect.signature(value).parameters)
    return [name for name in names if name not in ("self", "cls")]


def said(doc: str, *heads: str) -> list[str]:
    """The names that a section of a docstring explains; several may share a row."""
    section = re.search(rf"^(?:{'|'.join(heads)}):\n((?:[ ]{{4}}.*\n?|\n)+)", doc, re.MULTILINE)
    rows = re.findall(r"^ {4}(\S[^:]*):", section[1], re.MULTILINE) if section else []
    return [name.strip().lstrip("*") for row in rows for name in row.split(",")]


def said_elsewhere(name: str) -> set[str]:
    """Return the parameters that the docstring of another function describes."""
    if name in BORROWED:
        assert BORROWED[name] in (inspect.getdoc(CALLABLES[name]) or "")
        return set(parameters(CALLABLES[BORROWED[name]]))
    return set()


@pytest.mark.parametrize("name", CALLABLES)
def test_it_has_a_summary_in_one_style(name: str) -> None:
    doc = inspect.getdoc(CALLABLES[name]) or ""
    assert re.match(r"[A-Z0-9`{].*", doc), "no docstring"
    assert ":param" not in doc and ":raises" not in doc and ":return" not in doc
    heads = re.findall(r"^([A-Z]\w+):$", doc, re.MULTILINE)
    assert [head for head in HEADS if head in heads] == heads, "sections stand in one order"


@pytest.mark.parametrize("name", CALLABLES)
def test_each_parameter_is_said(name: str) -> None:
    value = CALLABLES[name]
    here = said(inspect.getdoc(value) or "", "Args", "Attributes")
    wanted = parameters(value)
    assert set(here) <= set(wanted)
    assert here == [each for each in wanted if each in here], "in the order of the signature"
    if here or "." not in name:  # the signature of a method may be enough
        assert set(wanted) - set(here) - said_elsewhere(name) == set()

"""Validate a file of torch.export.save before torch opens it.

torch falls back to unpickling, evaluates the texts of sizes and guards, and looks functions up by
name, so a file could run code. pt2.py checks archives with this module; guards.py checks the texts
of guards.
"""

from __future__ import annotations

import ast
import io
import json
import re
import zipfile
from collections.abc import Iterator
from typing import Any

import torch

from ortable.errors import ExportError

_MAX_EXPANSION = 64 << 20  # unpacked bytes that an archive may have beyond four times its size
_MAX_TEXT_LENGTH = 20_000  # characters of a size or guard
_TARGET = re.compile(r"torch\.ops\.\w+\.\w+(\.\w+)?|torch\.sym_\w+|_operator\.\w+|math\.\w+")
# Prefixes of files in an archive: objects that only unpickling can create, and files that are no
# pickles.
_OBJECTS = ("custom_obj_", "opaque_obj_")
_PLAIN = (
    "archive_format",
    "archive_version",
    "byteorder",
    "version",
    "serialized_exported_program",
)
# Keys of texts that torch evaluates: sizes, guards, ranges of symbols.
_EVALUATED = ("expr_str", "guards_code", "range_constraints")
_NODES = (
    ast.Expression, ast.Name, ast.Constant, ast.BinOp, ast.UnaryOp, ast.Compare, ast.BoolOp,
    ast.Call, ast.keyword, ast.Subscript, ast.Attribute, ast.Tuple, ast.List, ast.IfExp, ast.Load,
    ast.operator, ast.unaryop, ast.cmpop, ast.boolop,
)  # fmt: skip
_ATTRIBUTES = {"size", "stride", "storage_offset", "shape", "ndim", "dim", "_base", "is_integer"}
_FUNCTIONS = {
    "max",
    "min",
    "abs",
    "int",
    "float",
    "bool",
    "round",
    "floor",
    "ceiling",
    "cast_symbool_to_symint_guardless",
}
_FUNCTION = re.compile(r"[A-Z]\w*|sqrt|sym_\w+")
_NAME = re.compile(r"[\w.\-]+")
_MAX_INTEGER = 1 << 64


def check_sizes(archive: zipfile.ZipFile, path: object) -> None:
    """Raise ExportError if an archive unpacks to much more than its size, or repeats a name."""
    infos = archive.infolist()
    if len({info.filename for info in infos}) != len(infos):
        raise _make_rejection(path, "two of its parts have the same name")
    size = sum(info.compress_size for info in infos)
    if sum(info.file_size for info in infos) > 4 * size + _MAX_EXPANSION:
        raise _make_rejection(path, "it unpacks to many times its size")


def check_archive(archive: zipfile.ZipFile, path: object, classes: list[Any]) -> None:
    """Raise ExportError for an archive that would run code when torch reads it.

    A pickle in it may use ``classes`` and the classes that `torch.load` allows.
    """
    infos = archive.infolist()
    raw_names: set[str] = set()
    for info in infos:
        if info.filename.endswith(".json") and not _is_pickled_json(info.filename):
            try:
                content = json.loads(archive.read(info))
            except ValueError:
                continue  # torch uses the same reader, and reports the error
            except RecursionError:
                raise _make_rejection(path, f"{info.filename} is nested too deep") from None
            _check_texts(content, path)
            raw_names |= set(_raw_parts(content, info.filename))
    for info in infos:
        name = info.filename
        last = name.rpartition("/")[2]
        if last.startswith(_OBJECTS):
            raise _make_rejection(path, f"{name} is an object that only unpickling can create")
        is_plain = last.startswith(_PLAIN) or "/.data/" in name or "/extra/" in name
        if name in raw_names or is_plain or (name.endswith(".json") and not _is_pickled_json(name)):
            continue
        _check_pickle(archive.read(info), name, path, classes)


def _is_pickled_json(name: str) -> bool:
    """Whether a file of the format before .pt2 is a pickle in spite of its suffix .json."""
    return name.startswith("serialized_") and not name.startswith("serialized_exported_program")


def _raw_parts(content: Any, name: str) -> Iterator[str]:
    """Yield the parts of an archive that are raw tensor bytes, according to a config file."""
    rows = content.get("config") if isinstance(content, dict) else None
    if not isinstance(rows, dict) or not name.endswith("_config.json"):
        return
    folder = name.rpartition("/")[0]
    pickled: set[str] = set()
    raw: set[str] = set()
    for row in rows.values():
        if isinstance(row, dict):
            path = f"{folder}/{row.get('path_name')}"
            (raw if row.get("use_pickle") is False else pickled).add(path)
    yield from raw - pickled


def _check_pickle(content: bytes, name: str, path: object, classes: list[Any]) -> None:
    if not content:
        return
    try:
        with torch.serialization.safe_globals(classes):
            torch.load(io.BytesIO(content), weights_only=True, map_location="cpu")
    except Exception as error:  # a pickle may raise anything
        lines = str(error).strip().splitlines() or [type(error).__name__]
        raise _make_rejection(
            path, f"{name} holds more than tensors and plain values ({lines[0]})"
        ) from None


def _check_texts(content: Any, path: object) -> None:
    """Check the texts of a program that torch evaluates or resolves as a function name."""
    stack = [content]
    while stack:
        node = stack.pop()
        if isinstance(node, list):
            stack += node
        if not isinstance(node, dict):
            continue
        stack += node.values()
        target = node.get("target")
        if "metadata" in node and isinstance(target, str) and not _TARGET.fullmatch(target):
            raise _make_rejection(path, f"a node calls {target[:80]!r}, which is not an operator")
        for key in _EVALUATED:
            value = node.get(key, ())
            texts = (value,) if isinstance(value, str) else value
            for text in texts if isinstance(texts, list | dict | tuple) else ():
                if not isinstance(text, str) or not is_arithmetic(text):
                    raise _make_rejection(path, f"{str(text)[:80]!r} is not arithmetic on sizes")


def is_arithmetic(text: str) -> bool:
    """Whether a text is an expression of sizes in torch's format.

    It may have numbers, names, operators, functions of torch (``torch.sym_float``) and sympy, and
    sizes of inputs (``L['the input'].size()[0]``).
    """
    try:
        tree = ast.parse(text.strip(), mode="eval") if len(text) <= _MAX_TEXT_LENGTH else None
        return tree is not None and all(map(_is_harmless, _expression_nodes(tree)))
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return False


def _expression_nodes(tree: ast.AST) -> Iterator[ast.AST]:
    """Yield the nodes of an expression except keys, ``['the input']``, which may be any text."""
    stack = [tree]
    while stack:
        node = stack.pop()
        yield node
        key = node.slice if isinstance(node, ast.Subscript) else None
        is_text = isinstance(key, ast.Constant) and isinstance(key.value, str)
        stack += [child for child in ast.iter_child_nodes(node) if child is not key or not is_text]


def _is_harmless(node: ast.AST) -> bool:
    if not isinstance(node, _NODES):
        return False
    if isinstance(node, ast.Name):
        return "__" not in node.id
    if isinstance(node, ast.Constant):
        value = node.value
        if isinstance(value, str):  # the name of a symbol or of an input
            return bool(_NAME.fullmatch(value)) and "__" not in value
        return not isinstance(value, int) or abs(value) <= _MAX_INTEGER
    if isinstance(node, ast.Attribute):
        module = node.value.id if isinstance(node.value, ast.Name) else ""
        is_math = module == "math" and not node.attr.startswith("_")
        is_torch = module == "torch" and node.attr.startswith("sym_")
        return is_math or is_torch or node.attr in _ATTRIBUTES
    if isinstance(node, ast.Call):
        callee = node.func
        if isinstance(callee, ast.Name):
            return callee.id in _FUNCTIONS or _FUNCTION.fullmatch(callee.id) is not None
        return isinstance(callee, ast.Attribute)
    if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Pow | ast.LShift):
        exponent = node.right.operand if isinstance(node.right, ast.UnaryOp) else node.right
        if not isinstance(exponent, ast.Constant):
            return isinstance(exponent, ast.Name | ast.Call)
        is_nested_power = any(
            isinstance(part, ast.Pow | ast.LShift) for part in ast.walk(node.left)
        )
        return (
            not is_nested_power
            and isinstance(exponent.value, int | float)
            and abs(exponent.value) <= 64
        )
    return True


def _make_rejection(path: object, reason: str) -> ExportError:
    return ExportError(
        f"'{path}' is not opened: {reason}. Reading it could run code, or never end.\n"
        "If you made the program yourself and it needs such parts, read it with "
        "torch.export.load(path) and export the result."
    )

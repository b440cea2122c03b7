"""Validate a file of torch.export.save before torch opens it: torch falls back to unpickling,
evaluates the texts of sizes and guards, and looks functions up by name. pt2.py checks archives;
guards.py checks the texts of guards.
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

_MAX_EXPANSION = 64 << 20  # bytes that an archive may unpack to beyond four times its own
_MAX_TEXT_LENGTH = 20_000  # characters of a size or guard
_TARGET = re.compile(r"torch\.ops\.\w+\.\w+(\.\w+)?|torch\.sym_\w+|_operator\.\w+|math\.\w+")
_OBJECTS = ("custom_obj_", "opaque_obj_")
_PLAIN = (
    "archive_format",
    "archive_version",
    "byteorder",
    "version",
    "serialized_exported_program",
)
# Where texts stand that torch evaluates: sizes, guards, ranges of symbols.
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
    """Raise ExportError for an archive that unpacks to much more than its size, or has a
    name twice.

    Called before anything in it is read.
    """
    infos = archive.infolist()
    if len({info.filename for info in infos}) != len(infos):
        raise _make_rejection(path, "two of its parts have one name")
    size = sum(info.compress_size for info in infos)
    if sum(info.file_size for info in infos) > 4 * size + _MAX_EXPANSION:
        raise _make_rejection(path, "it unpacks to many times its size")


def check_archive(archive: zipfile.ZipFile, path: object, classes: list[Any]) -> None:
    """Raise ExportError for an archive that would run code when torch reads it; a pickle in it may
    name ``classes`` besides what `torch.load` allows.
    """
    infos = archive.infolist()
    raw: set[str] = set()
    for info in infos:
        if info.filename.endswith(".json") and not _is_pickled_json(info.filename):
            try:
                content = json.loads(archive.read(info))
            except ValueError:
                continue  # torch reports it: it uses the same reader
            except RecursionError:
                raise _make_rejection(path, f"{info.filename} is nested too deep") from None
            _check_texts(content, path)
            raw |= set(_raw_parts(content, info.filename))
    for info in infos:
        name = info.filename
        last = name.rpartition("/")[2]
        if last.startswith(_OBJECTS):
            raise _make_rejection(path, f"{name} is an object that only unpickling makes")
        plain = last.startswith(_PLAIN) or "/.data/" in name or "/extra/" in name
        if name in raw or plain or (name.endswith(".json") and not _is_pickled_json(name)):
            continue
        _check_pickle(archive.read(info), name, path, classes)


def _is_pickled_json(name: str) -> bool:
    """Of files that torch wrote before the .pt2 archive, three are called JSON and are pickles."""
    return name.startswith("serialized_") and not name.startswith("serialized_exported_program")


def _raw_parts(content: Any, name: str) -> Iterator[str]:
    """Yield the parts of an archive that are bytes of a tensor, as a file of weights or
    constants says.
    """
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
    """Check the texts of a program that torch evaluates or uses as the name of a function."""
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
            raise _make_rejection(path, f"a node calls {target[:80]!r}, which is no operator")
        for key in _EVALUATED:
            value = node.get(key, ())
            texts = (value,) if isinstance(value, str) else value
            for text in texts if isinstance(texts, list | dict | tuple) else ():
                if not isinstance(text, str) or not is_arithmetic(text):
                    raise _make_rejection(path, f"{str(text)[:80]!r} is no arithmetic of sizes")


def is_arithmetic(text: str) -> bool:
    """Whether a text is an expression of sizes as torch writes them: numbers, names, operators,
    functions of torch (``torch.sym_float``) and sympy on these, and sizes of inputs (``L['the
    input'].size()[0]``).
    """
    try:
        tree = ast.parse(text.strip(), mode="eval") if len(text) <= _MAX_TEXT_LENGTH else None
        return tree is not None and all(map(_is_harmless, _expression_nodes(tree)))
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return False


def _expression_nodes(tree: ast.AST) -> Iterator[ast.AST]:
    """Yield the nodes of an expression but for keys, ``['the input']``: a key is any text."""
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
        of_math = module == "math" and not node.attr.startswith("_")
        of_torch = module == "torch" and node.attr.startswith("sym_")
        return of_math or of_torch or node.attr in _ATTRIBUTES
    if isinstance(node, ast.Call):
        called = node.func
        if isinstance(called, ast.Name):
            return called.id in _FUNCTIONS or _FUNCTION.fullmatch(called.id) is not None
        return isinstance(called, ast.Attribute)
    if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Pow | ast.LShift):
        exponent = node.right.operand if isinstance(node.right, ast.UnaryOp) else node.right
        if not isinstance(exponent, ast.Constant):
            return isinstance(exponent, ast.Name | ast.Call)
        power = any(isinstance(part, ast.Pow | ast.LShift) for part in ast.walk(node.left))
        return not power and isinstance(exponent.value, int | float) and abs(exponent.value) <= 64
    return True


def _make_rejection(path: object, why: str) -> ExportError:
    return ExportError(
        f"'{path}' is not opened: {why}. Reading it could run code, or never end.\n"
        "A program that you made yourself, and that needs such parts, is read by "
        "torch.export.load(path), whose result is exported as a program."
    )

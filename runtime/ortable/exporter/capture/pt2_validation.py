"""Validate a file of torch.export.save before torch opens it.

torch falls back to unpickling, loads compiled libraries of a package, evaluates the texts of sizes
and guards, imports modules that the structure of arguments names, writes the names of inputs into
Python code, and looks functions up by name, so a file could run code. pt2.py checks archives with
this module.
"""

from __future__ import annotations

import io
import json
import math
import re
import zipfile
from collections.abc import Callable, Iterator
from typing import Any

import torch

from ortable.errors import ExportError

from .pt2_expressions import is_arithmetic

_MAX_EXPANSION = 64 << 20  # unpacked bytes that an archive may have beyond four times its size
# Parts of an archive that torch reads as plain text: of the .pt2 format, below its one folder, and
# of the format before, which has no folder.
_PLAIN = {
    "archive_format",
    "archive_version",
    "byteorder",
    "version",
    ".data/version",
    ".data/serialization_id",
    ".format_version",
    ".storage_alignment",
}
_OLD_PROGRAM, _OLD_PLAIN = "serialized_exported_program.json", ("version", "extra_files/")
_TENSOR_FOLDERS = ("data/weights/", "data/constants/")
_RAW_NAME = re.compile(r"(weight|tensor)_\w+")
# Prefixes of constants that only unpickling can create.
_OBJECTS = ("custom_obj_", "opaque_obj_")
_TARGET = re.compile(
    r"torch\.ops\.\w+\.\w+(\.\w+)?|torch\._?sym_\w+|math\.\w+|"
    r"_operator\.(add|sub|mul|truediv|floordiv|mod|pow|neg|pos|abs|eq|ne|lt|le|gt|ge|and_|or_|xor|"
    r"not_|invert|lshift|rshift|getitem|matmul|is_|is_not|truth)"
)
# Keys of texts that torch evaluates: sizes, guards, ranges of symbols.
_EVALUATED = ("expr_str", "guards_code", "range_constraints")
_BIG_SYMBOL = re.compile(r"[A-Za-z_]+\d{7,}")  # torch counts up to the number of a symbol
# Keys of names that torch writes into Python code, as identifiers or between quotes.
_IDENTIFIERS = ("name", "as_name", "forward_arg_names")
_ATTRIBUTE_NAME = re.compile(r"(parameter|buffer|tensor_constant|custom_obj|user_input)_name")
_UNSAFE_IN_ATTRIBUTE = re.compile(r"""["'\\\x00-\x1f\x7f]""")
_BYTEARRAY = b"\nbytearray\n"  # how a pickle names the class, which allocates any size
_SPECS = ("in_spec", "out_spec")
_FACTORIES = ("list", "dict", "set", "tuple", "int", "float", "bool", "str")


def check_sizes(archive: zipfile.ZipFile, path: object) -> None:
    """Raise ExportError if an archive unpacks to much more than its size, or repeats a name.

    torch does not distinguish upper and lower case in the names of parts.
    """
    infos = archive.infolist()
    if len({info.filename.lower() for info in infos}) != len(infos):
        raise _make_rejection(path, "two of its parts have the same name")
    if sum(info.file_size for info in infos) > _max_unpacked(archive):
        raise _make_rejection(path, "it unpacks to many times its size")


def _max_unpacked(archive: zipfile.ZipFile) -> int:
    return 4 * sum(info.compress_size for info in archive.infolist()) + _MAX_EXPANSION


def check_archive(archive: zipfile.ZipFile, path: object, classes: list[Any]) -> None:
    """Raise ExportError for an archive that would run code when torch reads it.

    Every part is text that torch does not run, or a program, or raw data of a tensor, or a pickle
    that uses only ``classes`` and the classes that `torch.load` allows.
    """
    parts = dict(_named_parts(archive, path))
    programs, configs, rest = {}, {}, {}
    for name, info in parts.items():
        if name.startswith("data/aotinductor/"):
            raise _make_rejection(path, f"{info.filename} belongs to compiled code")
        if name.startswith("models/") or name == _OLD_PROGRAM:
            programs[name] = info
        elif name.startswith(_TENSOR_FOLDERS) and name.endswith("_config.json"):
            configs[name] = info
        elif name not in _PLAIN and not name.startswith(("extra/", *_OLD_PLAIN)):
            rest[name] = info
    for info in programs.values():
        _check_program(_read_json(archive, info, path), path)
    raw_names: set[str] = set()
    pickled_names: set[str] = set()
    n_elements = 0
    for name, info in configs.items():
        folder = next(filter(name.startswith, _TENSOR_FOLDERS))
        for row in _config_rows(_read_json(archive, info, path)):
            part = str(row.get("path_name"))
            if part.startswith(_OBJECTS):
                raise _make_rejection(path, f"{part} is an object that only unpickling can create")
            is_raw = row.get("use_pickle") is False and _RAW_NAME.fullmatch(part)
            (raw_names if is_raw else pickled_names).add(f"{folder}{part}".lower())
            n_elements += _count_elements(row)
    if n_elements > _max_unpacked(archive):
        raise _make_rejection(path, "its tensors have many more elements than the file has bytes")
    raw_names -= pickled_names
    for name, info in rest.items():
        if name.rpartition("/")[2].startswith(_OBJECTS):
            raise _make_rejection(
                path, f"{info.filename} is an object that only unpickling can create"
            )
        if name.lower() not in raw_names:
            _check_pickle(archive.read(info), info.filename, path, classes)


def _named_parts(archive: zipfile.ZipFile, path: object) -> Iterator[tuple[str, zipfile.ZipInfo]]:
    """Yield the names of parts, without the folder that all parts of a .pt2 archive are in."""
    infos = archive.infolist()
    is_old = any(info.filename == _OLD_PROGRAM for info in infos)
    root = infos[0].filename.partition("/")[0] + "/" if infos else "/"
    for info in infos:
        name = info.filename
        if is_old:
            is_data = name.startswith("serialized_") and "/" not in name
            is_extra = re.fullmatch(r"extra_files/(?!archive_version)[^/]+", name)
            is_part = is_data or is_extra or name == "version"
        else:
            is_part = name.startswith(root)
        if not is_part:
            raise _make_rejection(path, f"{name[:80]!r} is no part of a saved program")
        yield name if is_old else name.removeprefix(root), info


def _read_json(archive: zipfile.ZipFile, info: zipfile.ZipInfo, path: object) -> Any:
    try:
        return json.loads(archive.read(info).decode())
    except RecursionError:
        raise _make_rejection(path, f"{info.filename} is nested too deep") from None
    except ValueError as error:
        raise ExportError(
            f"'{path}' is a broken archive: {info.filename} is not JSON: {error}"
        ) from None


def _config_rows(content: Any) -> Iterator[dict[str, Any]]:
    """Yield the rows of a config file: how each tensor is stored."""
    rows = content.get("config") if isinstance(content, dict) else None
    for row in rows.values() if isinstance(rows, dict) else ():
        if isinstance(row, dict):
            yield row


def _count_elements(row: dict[str, Any]) -> int:
    meta = row.get("tensor_meta")
    sizes = meta.get("sizes") if isinstance(meta, dict) else None
    values = [size.get("as_int") for size in sizes or () if isinstance(size, dict)]
    return math.prod(value for value in values if isinstance(value, int) and value >= 0)


def _check_pickle(content: bytes, name: str, path: object, classes: list[Any]) -> None:
    if not content:
        return
    try:
        with zipfile.ZipFile(io.BytesIO(content)) as archive:
            check_sizes(archive, path)
            pickles = [part for part in archive.namelist() if part.lower().endswith(".pkl")]
            if any(_BYTEARRAY in archive.read(part) for part in pickles):
                raise _make_rejection(path, f"{name} allocates bytes that are not in the file")
        with torch.serialization.safe_globals(classes):
            torch.load(io.BytesIO(content), weights_only=True, map_location="cpu")
    except ExportError:
        raise
    except Exception as error:  # a pickle may raise anything
        lines = str(error).strip().splitlines() or [type(error).__name__]
        raise _make_rejection(
            path, f"{name} holds more than tensors and plain values ({lines[0]})"
        ) from None


def _check_program(content: Any, path: object) -> None:
    """Check the texts of a program that torch evaluates, resolves, or writes into code."""
    stack = [content]
    while stack:
        node = stack.pop()
        if isinstance(node, list):
            stack += node
        if not isinstance(node, dict):
            continue
        stack += node.values()
        for key in ("target", "as_operator"):
            target = node.get(key)
            if isinstance(target, str) and not _TARGET.fullmatch(target):
                reason = f"a node calls {target[:80]!r}, which is not an operator"
                raise _make_rejection(path, reason)
        for key, value in node.items():
            if key in _EVALUATED:
                _check_each(value, _is_size, "is not arithmetic on sizes", path)
            elif key in _IDENTIFIERS:
                _check_each(value, _is_identifier, "is not the name of a value", path)
            elif _ATTRIBUTE_NAME.fullmatch(key):
                _check_each(value, _is_attribute, "is not the name of a weight", path)
            elif key in _SPECS:
                _check_structure(value, path)
                if key == "in_spec":
                    names = _keyword_names(value)
                    _check_each(names, _is_identifier, "is not the name of an argument", path)


def _check_each(value: Any, test: Callable[[str], bool], reason: str, path: object) -> None:
    """Check a text, the texts of a list, or the keys of a mapping."""
    texts = (value,) if isinstance(value, str) else value
    for text in texts if isinstance(texts, list | dict | tuple) else ():
        if not isinstance(text, str) or not test(text):
            raise _make_rejection(path, f"{str(text)[:80]!r} {reason}")


def _is_size(text: str) -> bool:
    return is_arithmetic(text) and not _BIG_SYMBOL.fullmatch(text)


def _is_identifier(text: str) -> bool:
    return not text or text.lstrip("*").isidentifier()


def _is_attribute(text: str) -> bool:
    return not _UNSAFE_IN_ATTRIBUTE.search(text)


def _check_structure(spec: Any, path: object) -> None:
    """Check the structure of arguments, JSON with JSON in texts; torch imports what it names."""
    stack = [spec]
    while stack:
        node = stack.pop()
        if isinstance(node, str):
            stack += _json_in_text(node, path)
        elif isinstance(node, list):
            stack += node
        elif isinstance(node, dict):
            stack += node.values()
            factory = (node.get("default_factory_module"), node.get("default_factory_name"))
            is_builtin = factory[0] == "builtins" and factory[1] in _FACTORIES
            if "__enum__" in node or (factory != (None, None) and not is_builtin):
                raise _make_rejection(path, "the structure of its arguments imports a module")


def _json_in_text(text: str, path: object) -> list[Any]:
    """Return the value of a text that is a JSON object or list; nothing for other texts."""
    try:
        return [json.loads(text)] if text.lstrip()[:1] in ("{", "[", '"') else []
    except ValueError:
        return []  # torch uses the same reader, and reports the error
    except RecursionError:
        raise _make_rejection(path, "the structure of its arguments is nested too deep") from None


def _keyword_names(spec: Any) -> list[Any]:
    """Return the names of keyword arguments in the structure of the inputs of a module."""
    try:
        keywords = json.loads(spec)[1]["children_spec"][1]
        names = json.loads(keywords["context"])
    except (ValueError, TypeError, LookupError, RecursionError):
        return []
    return list(names) if isinstance(names, list | dict) else []


def _make_rejection(path: object, reason: str) -> ExportError:
    return ExportError(
        f"'{path}' is not opened: {reason}. Reading it could run code, or never end.\n"
        "If you made the program yourself and it needs such parts, read it with "
        "torch.export.load(path) and export the result."
    )

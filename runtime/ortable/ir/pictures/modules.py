"""Find the torch module of each node, and its place in the tree of groups.

Writers of models record modules in three ways: ortable in the metadata (`module_path`, and the
classes in the model's `ortable.modules`), torch.onnx in the metadata (scopes and classes), others
in the names of nodes (`/encoder/layer.0/fc/MatMul`).
"""

from __future__ import annotations

import ast
import re
from collections.abc import Callable, Iterable, Mapping
from typing import NamedTuple

from onnx import NodeProto

from .scene import Group

CLASSES = "ortable.modules"  # of the model's metadata_props
_LONGEST = 100_000  # characters of a list of scopes
_NUMBER = re.compile(r"(?<![^.])\d+(?![^.])")  # a whole part of a path


class PathStep(NamedTuple):
    """One step of the way from the root to a module."""

    name: str
    path: str
    kind: str = ""


def compact_classes(classes: Mapping[str, str]) -> str:
    """Paths of modules and their classes as one text: ``encoder=Encoder; encoder.layer.*=Layer``.
    Numbers are a star where all modules of such a path are of one class."""
    by_pattern: dict[str, set[str]] = {}
    for path, kind in classes.items():
        by_pattern.setdefault(_NUMBER.sub("*", path), set()).add(kind)
    compacted: dict[str, str] = {}
    for path, kind in classes.items():
        pattern = _NUMBER.sub("*", path)
        compacted[pattern if len(by_pattern[pattern]) == 1 else path] = kind
    return "; ".join(f"{path}={kind}" for path, kind in compacted.items())


def class_reader(text: str) -> Callable[[str], str]:
    """A function from the path of a module to its class, of what `compact_classes` wrote; it
    returns an empty text for what is no module."""
    classes = dict(entry.split("=", 1) for entry in text.split("; ") if "=" in entry)
    return lambda path: classes.get(path) or classes.get(_NUMBER.sub("*", path), "")


def parts_of_path(path: str, kind_of: Callable[[str], str]) -> tuple[PathStep, ...]:
    """The modules on the way to ``path``. A number is one with the name before it (``layer.0``),
    unless that is a module, too."""
    parts: list[PathStep] = []
    pending = ""
    names = path.split(".") if path else []
    for index, name in enumerate(names):
        prefix = ".".join(names[: index + 1])
        label = f"{pending}.{name}" if pending else name
        follows = names[index + 1] if index + 1 < len(names) else ""
        if follows.isdigit() and not kind_of(prefix) and not pending:
            pending = label
            continue
        pending = ""
        parts.append(PathStep(label, prefix, kind_of(prefix)))
    return tuple(parts)


def parts_of_node(
    node: NodeProto, about: Mapping[str, str], kind_of: Callable[[str], str]
) -> tuple[PathStep, ...]:
    """The modules around a node, outermost first."""
    if "module_path" in about or "fx_node" in about:
        return parts_of_path(about.get("module_path", ""), kind_of)
    scopes = texts_in(about.get("pkg.torch.onnx.name_scopes", ""))
    if scopes:
        kinds = texts_in(about.get("pkg.torch.onnx.class_hierarchy", ""))
        return _of_scopes(scopes[:-1], kinds)
    scope, _, _ = node.name.rpartition("/")
    if node.name.startswith("/"):
        names = scope.strip("/").split("/") if scope.strip("/") else []
        paths = [".".join(names[: index + 1]) for index in range(len(names))]
        return tuple(PathStep(name, path) for name, path in zip(names, paths, strict=True))
    return parts_of_path(scope.replace("/", "."), kind_of)


def texts_in(written: str) -> list[str]:
    """Parse a Python list of texts; empty for anything else.

    `ast.literal_eval` runs nothing, but recurses as deep as the text.
    """
    try:
        value = ast.literal_eval(written) if 0 < len(written) <= _LONGEST else []
    except (SyntaxError, ValueError, TypeError, RecursionError, MemoryError):
        return []
    return [str(item) for item in value] if isinstance(value, list) else []


def _of_scopes(scopes: Iterable[str], kinds: list[str]) -> tuple[PathStep, ...]:
    parts: list[PathStep] = []
    around = ""
    for index, scope in enumerate(scopes):
        if not scope or scope == around:
            continue
        name = scope.removeprefix(around).lstrip(".") if scope.startswith(around) else scope
        kind = kinds[index].rpartition(".")[2] if index < len(kinds) else ""
        if name.isdigit() and around:
            name = f"{around.rpartition('.')[2]}.{name}"
        parts.append(PathStep(name, scope, kind))
        around = scope
    return tuple(parts)


class Placer:
    """Puts the nodes of one graph into groups, a group for each module.

    A module that is called again when others have used what it returned gets a second group (part
    2), and so does its backward pass: no way leads out of a group and back into it, so that a
    closed group is one box in a graph without circles.
    """

    def __init__(self, root: Group) -> None:
        self.root = root
        self.current: dict[tuple[str, ...], Group] = {}
        self.parts: dict[tuple[str, ...], int] = {}
        self.bits: dict[Group, int] = {}
        # By result, as bits: the groups that it lies in, and those that it depends on from outside.
        self.inside: dict[str, int] = {}
        self.after: dict[str, int] = {}

    def find_group(
        self, steps: tuple[PathStep, ...], reads: Iterable[str], makes: Iterable[str]
    ) -> Group:
        """Return the group for a node of the module at the end of ``steps``."""
        sources = [(self.inside[name], self.after[name]) for name in reads if name in self.inside]
        group, around, fresh = self.root, 0, False
        for index in range(len(steps)):
            names = tuple(part.name for part in steps[: index + 1])
            existing = None if fresh else self.current.get(names)
            bit = self.bits.get(existing, 0) if existing is not None else 0
            if existing is None or any(
                not inside & bit and after & bit for inside, after in sources
            ):
                existing, fresh = self._new_group(names, steps[index], group), True
            group = existing
            around |= self.bits[group]
        after = 0
        for inside, before in sources:
            after |= inside | before
        for name in makes:
            self.inside[name], self.after[name] = around, after & ~around
        return group

    def _new_group(self, names: tuple[str, ...], part: PathStep, around: Group) -> Group:
        number = self.parts[names] = self.parts.get(names, 0) + 1
        group = Group("module", part.name, part.kind, part.path, number)
        self.bits[group] = 1 << len(self.bits)
        self.current[names] = group
        around.add(group)
        return group

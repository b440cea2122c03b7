"""Find the torch module of each node, and the group of the node in the scene.

Exporters record modules in three forms: ortable in metadata (`module_path` of nodes, and the
classes in `ortable.modules` of the model), torch.onnx in metadata of nodes (scopes and classes),
and other exporters in the names of nodes (`/encoder/layer.0/fc/MatMul`).
"""

from __future__ import annotations

import ast
import re
from collections.abc import Callable, Iterable, Mapping
from typing import NamedTuple

from onnx import NodeProto

from .scene import Group

CLASSES_KEY = "ortable.modules"  # key of the model's metadata_props
_MAX_LIST_LENGTH = 100_000  # characters of a list of scopes; longer lists are ignored
_NUMBER = re.compile(r"(?<![^.])\d+(?![^.])")  # a part of a path that is a number


class PathStep(NamedTuple):
    """A module on the path from the root to another module; ``kind`` is its class."""

    name: str
    path: str
    kind: str = ""


def compact_classes(classes: Mapping[str, str]) -> str:
    """Format the classes of modules by path, as in ``encoder=Encoder; encoder.layer.*=Layer``.

    Numbers in a path become ``*`` if all modules whose paths differ only in numbers have one class.
    """
    by_pattern: dict[str, set[str]] = {}
    for path, class_name in classes.items():
        by_pattern.setdefault(_NUMBER.sub("*", path), set()).add(class_name)
    compacted: dict[str, str] = {}
    for path, class_name in classes.items():
        pattern = _NUMBER.sub("*", path)
        compacted[pattern if len(by_pattern[pattern]) == 1 else path] = class_name
    return "; ".join(f"{path}={class_name}" for path, class_name in compacted.items())


def make_class_lookup(text: str) -> Callable[[str], str]:
    """Parse a text of `compact_classes` to a function that maps paths to classes.

    The function returns "" for a path whose class is unknown.
    """
    classes = dict(entry.split("=", 1) for entry in text.split("; ") if "=" in entry)
    return lambda path: classes.get(path) or classes.get(_NUMBER.sub("*", path), "")


def steps_from_path(path: str, find_class: Callable[[str], str]) -> tuple[PathStep, ...]:
    """Return the modules on the path to ``path``, outermost first.

    A number and the name before it form one step, unless the name alone has a class. For
    ``encoder.layer.0.fc`` the steps are ``encoder``, ``layer.0`` and ``fc``.
    """
    steps: list[PathStep] = []
    prefix_label = ""
    names = path.split(".") if path else []
    for index, name in enumerate(names):
        prefix = ".".join(names[: index + 1])
        label = f"{prefix_label}.{name}" if prefix_label else name
        next_name = names[index + 1] if index + 1 < len(names) else ""
        if next_name.isdigit() and not find_class(prefix) and not prefix_label:
            prefix_label = label
            continue
        prefix_label = ""
        steps.append(PathStep(label, prefix, find_class(prefix)))
    return tuple(steps)


def steps_from_node(
    node: NodeProto, metadata: Mapping[str, str], find_class: Callable[[str], str]
) -> tuple[PathStep, ...]:
    """Return the modules that contain a node, outermost first."""
    if "module_path" in metadata or "fx_node" in metadata:
        return steps_from_path(metadata.get("module_path", ""), find_class)
    scopes = parse_string_list(metadata.get("pkg.torch.onnx.name_scopes", ""))
    if scopes:
        class_names = parse_string_list(metadata.get("pkg.torch.onnx.class_hierarchy", ""))
        return _steps_from_scopes(scopes[:-1], class_names)
    scope, _, _ = node.name.rpartition("/")
    if node.name.startswith("/"):
        names = scope.strip("/").split("/") if scope.strip("/") else []
        paths = [".".join(names[: index + 1]) for index in range(len(names))]
        return tuple(PathStep(name, path) for name, path in zip(names, paths, strict=True))
    return steps_from_path(scope.replace("/", "."), find_class)


def parse_string_list(text: str) -> list[str]:
    """Parse the text of a Python list of strings; return an empty list for other texts.

    Deeply nested texts, which exceed the recursion limit or the memory, count as other texts.
    """
    try:
        value = ast.literal_eval(text) if 0 < len(text) <= _MAX_LIST_LENGTH else []
    except (SyntaxError, ValueError, TypeError, RecursionError, MemoryError):
        return []
    return [str(item) for item in value] if isinstance(value, list) else []


def _steps_from_scopes(scopes: Iterable[str], class_names: list[str]) -> tuple[PathStep, ...]:
    """Convert scopes of torch.onnx, which are paths, such as ``["", "encoder", "encoder.fc"]``."""
    steps: list[PathStep] = []
    outer_scope = ""
    for index, scope in enumerate(scopes):
        if not scope or scope == outer_scope:
            continue
        name = (
            scope.removeprefix(outer_scope).lstrip(".") if scope.startswith(outer_scope) else scope
        )
        class_name = class_names[index].rpartition(".")[2] if index < len(class_names) else ""
        if name.isdigit() and outer_scope:
            name = f"{outer_scope.rpartition('.')[2]}.{name}"
        steps.append(PathStep(name, scope, class_name))
        outer_scope = scope
    return tuple(steps)


class Placer:
    """Assigns the nodes of one graph to groups of their modules.

    No path of edges leaves a group and enters it again, so the picture has no cycle if groups are
    drawn as boxes. A module whose second call depends, through nodes outside of the module, on its
    first call therefore has a second group (part 2), and so has its backward pass.
    """

    def __init__(self, root: Group) -> None:
        self.root = root
        self.current_groups: dict[tuple[str, ...], Group] = {}
        self.part_counts: dict[tuple[str, ...], int] = {}
        self.group_bits: dict[Group, int] = {}
        # bit masks of groups by result: those that contain it, and the others that it depends on
        self.containing_groups: dict[str, int] = {}
        self.dependency_groups: dict[str, int] = {}

    def find_group(
        self, steps: tuple[PathStep, ...], reads: Iterable[str], makes: Iterable[str]
    ) -> Group:
        """Return the group for a node in the module that is the last of ``steps``.

        ``reads`` and ``makes`` are the names of the results that the node reads and makes.
        """
        sources = [
            (self.containing_groups[name], self.dependency_groups[name])
            for name in reads
            if name in self.containing_groups
        ]
        group, group_mask, is_new = self.root, 0, False
        for index in range(len(steps)):
            names = tuple(step.name for step in steps[: index + 1])
            inner = None if is_new else self.current_groups.get(names)
            bit = self.group_bits.get(inner, 0) if inner is not None else 0
            if inner is None or any(
                not containing & bit and dependencies & bit for containing, dependencies in sources
            ):
                inner, is_new = self._new_group(names, steps[index], group), True
            group = inner
            group_mask |= self.group_bits[group]
        input_mask = 0
        for containing, dependencies in sources:
            input_mask |= containing | dependencies
        for name in makes:
            self.containing_groups[name], self.dependency_groups[name] = (
                group_mask,
                input_mask & ~group_mask,
            )
        return group

    def _new_group(self, names: tuple[str, ...], step: PathStep, outer: Group) -> Group:
        number = self.part_counts[names] = self.part_counts.get(names, 0) + 1
        group = Group("module", step.name, step.kind, step.path, number)
        self.group_bits[group] = 1 << len(self.group_bits)
        self.current_groups[names] = group
        outer.add(group)
        return group

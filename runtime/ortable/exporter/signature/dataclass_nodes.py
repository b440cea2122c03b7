"""Flatten dataclasses that nobody registered with torch.export.

While an export runs, `register_dataclasses` registers the classes of its arguments and results as
pytrees. Afterwards they are unregistered, so calls of a program use `wrap_dataclasses` and
`unflatten_spec`, which change no table of torch.
"""

from __future__ import annotations

import dataclasses
import enum
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any

import torch

from ortable.compat.scoped_patch import restore_on_exit, set_context_var
from ortable.compat.torch import pytree, register_pytree, unregister_pytree
from ortable.errors import ExportError

# The classes that the export in progress registered, per thread.
_ADDED: ContextVar[list[type] | None] = ContextVar("ortable_dataclasses", default=None)
# Values that are no results of a graph: constants of the class, like its name.
_CONSTANTS = (str, enum.Enum, torch.dtype, torch.device)
_FOREIGN = (type, torch.Tensor, torch.nn.Module, dict, list, tuple)


@contextmanager
def unregister_on_exit() -> Iterator[None]:
    """Unregister the classes that `register_dataclasses` registers in the block."""
    added: list[type] = []

    def unregister_added() -> None:
        for cls in added:
            if cls in pytree.SUPPORTED_NODES:
                unregister_pytree(cls)

    with restore_on_exit(unregister_added), set_context_var(_ADDED, added):
        yield


def register_dataclasses(values: Any) -> Any:
    """Register the classes of dataclasses in ``values``, if an export is in progress.

    Args:
        values: arguments or results of a module.

    Returns:
        ``values``.

    Raises:
        ExportError: an instance has attributes that are no fields of its class.
    """
    added = _ADDED.get()
    while added is not None:
        leaves = pytree.tree_leaves(values)
        classes = {type(leaf): leaf for leaf in leaves if _is_unregistered(leaf)}
        if not classes:
            break
        for cls, instance in classes.items():
            _flatten_fields(instance)  # raises before anything is registered
            added.append(cls)
            register_pytree(cls, _flatten_fields, _make_unflatten(cls))
    return values


def _is_unregistered(value: Any) -> bool:
    return (
        dataclasses.is_dataclass(value)
        and not isinstance(value, _FOREIGN)
        and type(value) not in pytree.SUPPORTED_NODES
    )


def _flatten_fields(value: Any) -> tuple[list[Any], tuple[list[str], dict[str, Any]]]:
    """Return the fields that have children, and the context: their names, and the other fields."""
    fields = {field.name: getattr(value, field.name) for field in dataclasses.fields(value)}
    extra = sorted(set(getattr(value, "__dict__", ())) - set(fields))
    if extra:
        raise ExportError(
            f"{type(value).__qualname__} has the attribute '{extra[0]}', which is no field of the "
            "dataclass: make it a field, or register the class with torch.export"
        )
    constants = {
        name: item for name, item in fields.items() if item is None or isinstance(item, _CONSTANTS)
    }
    names = [name for name in fields if name not in constants]
    return [fields[name] for name in names], (names, constants)


def _make_unflatten(cls: type) -> Any:
    return lambda children, context: _make_instance(cls, children, context)


def _make_instance(cls: type, children: Any, context: tuple[list[str], dict[str, Any]]) -> Any:
    """Make an instance without its ``__init__`` and ``__post_init__``, which made the fields."""
    names, constants = context
    instance: Any = object.__new__(cls)
    for name, value in (*zip(names, children, strict=True), *constants.items()):
        object.__setattr__(instance, name, value)
    return instance


# -- calls of a program


class _DataclassNode:
    """Stands for a dataclass in a call; it is registered, and becomes the dataclass again."""

    def __init__(self, value: Any) -> None:
        self.value = value


def _flatten_node(node: _DataclassNode) -> tuple[list[Any], Any]:
    children, (names, constants) = _flatten_fields(node.value)
    return list(map(wrap_dataclasses, children)), (names, (type(node.value), constants))


def _unflatten_node(children: Any, context: Any) -> Any:
    names, (cls, constants) = context
    return _make_instance(cls, children, (names, constants))


register_pytree(_DataclassNode, _flatten_node, _unflatten_node)


def wrap_dataclasses(values: Any) -> Any:
    """Return arguments of a call in which every dataclass can be flattened.

    Rebuilding the flattened result makes the dataclasses again.
    """
    if not any(map(_is_unregistered, pytree.tree_leaves(values))):
        return values
    return pytree.tree_map(
        lambda leaf: _DataclassNode(leaf) if _is_unregistered(leaf) else leaf, values
    )


def constant_fields(path: str, argument: Any) -> dict[str, Any]:
    """Return the constant fields of dataclasses in a result of `wrap_dataclasses`, by path."""
    fields: dict[str, Any] = {}
    nodes, _ = pytree.tree_flatten_with_path(
        argument, is_leaf=lambda item: isinstance(item, _DataclassNode)
    )
    for keys, node in nodes:
        if isinstance(node, _DataclassNode):
            children, (names, (_, constants)) = _flatten_node(node)
            node_path = path + pytree.keystr(keys)
            fields |= {f"{node_path}.{name}": item for name, item in constants.items()}
            for name, child in zip(names, children, strict=True):
                fields |= constant_fields(f"{node_path}.{name}", child)
    return fields


def unflatten_spec(spec: Any, leaves: Sequence[Any]) -> Any:
    """Rebuild the nest of a TreeSpec, which may have classes that are not registered now."""
    remaining = iter(leaves)

    def build_tree(node: Any) -> Any:
        if node.is_leaf():
            return next(remaining)
        children = [build_tree(child) for child in node.children()]
        registered = pytree.SUPPORTED_NODES.get(node.type)
        if registered is None:
            return _make_instance(node.type, children, node.context)
        return registered.unflatten_fn(children, node.context)

    return build_tree(spec)

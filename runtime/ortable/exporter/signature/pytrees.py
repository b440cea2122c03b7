"""Traverse nested arguments and results with torch.utils._pytree.

Provides the children of containers, paths to leaves, and hints for classes that must be registered
before torch.export can flatten them.
"""

from __future__ import annotations

import dataclasses
import enum
import sys
import types
from collections.abc import Iterator
from typing import Any

import torch
from torch.nn.utils.rnn import PackedSequence

from ortable.compat.torch import node_type, pytree
from ortable.errors import ExportError

from . import caches

Children = list[tuple[Any, Any]]

# The module of transformers' cache classes.
_CACHE_MODULE = "transformers.cache_utils"


def container_children(value: Any) -> Children | None:
    """Return (key, child) of each child of a container that torch.export flattens; None for a leaf.

    A key is that of a dict, the name of a field, or an index. None is a leaf, as in torch.
    Raises ExportError for a class that was registered without the names of its children.
    """
    if not is_container(value):
        return None
    flattened: Any
    try:
        flattened, _ = pytree.tree_flatten_with_path(value, is_leaf=lambda item: item is not value)
    except ValueError as error:
        name = type(value).__name__
        raise ExportError(
            f"torch.export needs the names of the children of {name}: register it with "
            f"torch.utils._pytree.register_pytree_node({name}, ..., flatten_with_keys_fn=...)"
        ) from error
    return [(key_of(path[0]), child) for path, child in flattened]


def is_container(value: Any) -> bool:
    """Whether torch.export flattens a value: lists, tuples, dicts, and registered classes."""
    return node_type(value) in pytree.SUPPORTED_NODES


def is_builtin(value: Any) -> bool:
    """Whether a value is a list, tuple, dict or another container of Python that torch flattens."""
    return node_type(value) in pytree.BUILTIN_TYPES


def flat_children(value: Any) -> Any:
    """Return the children of a registered class in the list or tuple of its flatten function."""
    return pytree.SUPPORTED_NODES[node_type(value)].flatten_fn(value)[0]


def rebuild_container(value: Any, items: list[Any]) -> Any:
    """Replace the children of ``value`` by ``items``, as torch.export expects dynamic shapes.

    The result has the type of ``value`` for containers of Python. For a registered class it is the
    list or tuple of its flatten function: ``[keys, values]`` for a DynamicCache.
    Raises ExportError for a PackedSequence.
    """
    if isinstance(value, PackedSequence):
        raise ExportError(
            "torch.export takes no PackedSequence as argument together with dynamic_shapes: make "
            "the padded tensor and the lengths arguments of forward, and pack them there"
        )
    if is_builtin(value):
        _, spec = pytree.tree_flatten(value, is_leaf=lambda item: item is not value)
        return pytree.tree_unflatten(items, spec)
    return tuple(items) if isinstance(flat_children(value), tuple) else items


def key_of(entry: Any) -> Any:
    """Return the key, index or field name in an entry of one of torch's key paths."""
    for name in ("key", "idx", "name"):
        if hasattr(entry, name):
            return getattr(entry, name)
    return str(entry)


def child_path(path: str, parent: Any, key: Any) -> str:
    """Return the path of a child in Python syntax: ``pair[1]``, ``nested['z']``, ``point.x``."""
    is_identifier = isinstance(key, str) and key.isidentifier()
    if is_identifier and not isinstance(parent, dict) and not is_mapping(parent):
        return f"{path}.{key}"
    return f"{path}[{key!r}]"


def is_mapping(value: Any) -> bool:
    """Whether a value is a dict, OrderedDict or defaultdict."""
    return node_type(value) in pytree.STANDARD_DICT_TYPES


def leaf_paths(path: str, value: Any) -> Iterator[tuple[str, Any]]:
    """Yield (path, leaf) for each leaf of an argument, in the order of torch's flattening."""
    children = container_children(value)
    if children is None:
        yield path, value
        return
    for key, child in children:
        yield from leaf_paths(child_path(path, value, key), child)


def register_caches(values: Any, mod: Any = None) -> None:
    """Register the cache classes of transformers as pytrees if they are needed, see `caches.py`.

    They are needed if a leaf of ``values`` is a cache, or if ``mod`` has modules of transformers,
    which may return caches.
    """
    if _CACHE_MODULE not in sys.modules:
        return
    cache_module = sys.modules[_CACHE_MODULE]
    pair_class = getattr(cache_module, "EncoderDecoderCache", None)
    single_class = getattr(cache_module, "DynamicCache", None)
    leaf_types = {type(leaf) for leaf in pytree.tree_leaves(values)}
    if leaf_types & {pair_class, single_class} or _uses_transformers(mod):
        caches.register_cache_classes(static=False)


def _uses_transformers(mod: Any) -> bool:
    modules = mod.modules() if isinstance(mod, torch.nn.Module) else ()
    return any(type(module).__module__.startswith("transformers.") for module in modules)


def registration_hint(cls: type) -> str:
    """Return the code that registers a class as a pytree."""
    name = cls.__name__
    if dataclasses.is_dataclass(cls):
        return f"torch.export.register_dataclass({name})"
    if cls.__module__.startswith("transformers."):
        return f"transformers.exporters.exporter_dynamo.register_pytree_node({name})"
    return (
        f"torch.utils._pytree.register_pytree_node({name}, flatten, unflatten, "
        "flatten_with_keys_fn=...)"
    )


def unsupported_leaf_text(path: str, value: Any) -> str | None:
    """Return why torch.export rejects a leaf of the arguments; None if it accepts the class."""
    supported = (torch.Tensor, bool, int, float, str, type(None), enum.Enum)
    if isinstance(value, supported):
        return None
    cls = type(value)
    functions = (types.FunctionType, types.BuiltinFunctionType, types.MethodType)
    constants = (complex, torch.dtype, torch.device, torch.layout, torch.memory_format, *functions)
    if isinstance(value, constants):
        return (
            f"'{path}' is the {cls.__name__} {value}, which torch.export does not take: make "
            "it an attribute of the module, or a default value of forward"
        )
    return (
        f"'{path}' is a {cls.__module__}.{cls.__qualname__}, whose fields torch.export does not "
        f"know: call {registration_hint(cls)} once, before to_onnx"
    )


# -- TreeSpecs of outputs


def spec_children(spec: Any) -> list[tuple[Any, Any]]:
    """Return (key, child) of a TreeSpec that is no leaf; without field names, keys are indices."""
    children = list(spec.children())
    names = _field_names(spec, len(children))
    return list(zip(names or range(len(children)), children, strict=True))


def _field_names(spec: Any, count: int) -> list[str] | None:
    """Return the keys of a dict, or the names of the fields of a namedtuple or registered class.

    A registered class has them in the context of its TreeSpec: as the context itself (ModelOutput),
    or as an item of it (dataclasses, DynamicCache). None: the context has no ``count`` names.
    """
    context: Any = spec.context
    if hasattr(context, "_fields"):
        return list(context._fields)
    for names in (context, *(context if isinstance(context, (list, tuple)) else ())):
        if (
            isinstance(names, (list, tuple))
            and len(names) == count
            and count
            and all(isinstance(name, (str, int)) for name in names)
        ):
            return list(names)
    return None


def leaf_names(spec: Any, path: str = "") -> Iterator[str]:
    """Yield a name for each leaf of a TreeSpec: ``past_key_values_key_cache_0``."""
    if spec.is_leaf():
        yield path
        return
    for key, child in spec_children(spec):
        yield from leaf_names(child, f"{path}_{key}" if path else str(key))

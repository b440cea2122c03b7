"""What dynamo's guards ask of modules, as far as dicts, classes and tensors answer it: an attribute
of a module, an item of one of its dicts, the metadata of a parameter. In come guards, out come the
places that they ask about and the objects that hold the answers; called by `watch_modules` and
`module_watch`."""

from __future__ import annotations

import inspect
from collections import OrderedDict
from collections.abc import Sequence
from typing import Any, NamedTuple

import torch

from ortable.compat.torch_guards import original

__all__ = ["Place", "Seen", "Unwatched", "holds", "is_root", "note", "variable_of", "way_of"]

_WRAPPERS = ("UnspecializedNNModuleSource", "UnspecializedBuiltinNNModuleSource")
_BUILTIN = "UnspecializedBuiltinNNModuleSource"
_ATTRIBUTES = ("AttrSource", "UnspecializedParamBufferSource")
_DICTS = (dict, OrderedDict)
_ATOMS = (bool, int, float, str, type(None), torch.dtype, torch.device)
_MISSING = object()

Step = tuple[str, Any]  # ("attr", name) of a module, ("item", key) of a dict


class Unwatched(Exception):
    """What a guard asks is not in the dicts and tensors that are watched."""


class _Asked(NamedTuple):
    """What one guard says of the object at the end of its way."""

    kind: str
    expected: Any


class Place:
    """An object on the way: what is asked of it, and which steps go on from it."""

    __slots__ = ("asked", "steps")

    def __init__(self) -> None:
        self.asked: list[_Asked] = []
        self.steps: dict[Step, Place] = {}

    def at(self, way: Sequence[Step]) -> Place:
        place = self
        for step in way:
            place = place.steps.setdefault(step, Place())
        return place


class Seen:
    """What a walk came through, each object once."""

    def __init__(self) -> None:
        self.dicts: dict[int, Any] = {}
        self.modules: dict[int, torch.nn.Module] = {}
        self.tensors: dict[int, torch.Tensor] = {}


def is_root(source: Any) -> bool:
    found = way_of(source)
    return found is not None and not found[1] and type(source).__name__ in _WRAPPERS


def way_of(source: Any) -> tuple[str, list[Step]] | None:
    """The name of the outermost module that a source begins at, and the steps from there; None
    where one of them is neither an attribute nor an item of a dict."""
    steps: list[Step] = []
    found = None
    while source is not None:
        kind = type(source).__name__
        if kind in _WRAPPERS:
            found = source.name, list(reversed(steps))
        elif kind in _ATTRIBUTES:
            steps.append(("attr", source.member))
        elif kind == "DictGetItemSource" and isinstance(source.index, str | int):
            steps.append(("item", source.index))
        elif found is None:
            return None
        else:
            break  # what is before a module that dynamo guards by itself
        source = getattr(source, "base", None)
    return found


def variable_of(source: Any) -> str | None:
    """The local variable that has the module of a source, "" for a global one; None where the
    module is found in another way."""
    base: Any = getattr(source, "base", None)
    if type(base).__name__ == "LocalSource":
        return str(base.local_name)
    return "" if type(base).__name__ == "GlobalSource" else None


def note(root: torch.nn.Module, place: Place, way: list[Step], entry: Any) -> None:
    """Notes what a guard asks, if it is answered by what is watched.

    :raises Unwatched: it is not
    """
    value: Any = root
    for step in way:
        _, value = _follow(value, step)
    asked = _question(value, entry)
    if asked is not None:
        place.at(way).asked.append(asked)


def _follow(value: Any, step: Step) -> tuple[Any, Any]:
    """The dict that a step reads, and what is there.

    :raises Unwatched: something else than a dict decides
    """
    kind, key = step
    if kind == "attr":
        if not isinstance(value, torch.nn.Module) or not _reads_dict_first(type(value)):
            raise Unwatched
        if hasattr(inspect.getattr_static(type(value), key, None), "__set__"):
            raise Unwatched  # a property comes before the attribute
        where = value.__dict__
    elif type(value) in _DICTS:
        where = value
    else:
        raise Unwatched
    found = where.get(key, _MISSING)
    if found is _MISSING:
        raise Unwatched
    return where, found


def _reads_dict_first(cls: type) -> bool:
    """Whether attributes of the class are looked up as those of any module: dynamo reads their dict
    then, and asks no method of the class."""
    return all(
        inspect.getattr_static(cls, name) is inspect.getattr_static(torch.nn.Module, name)
        for name in ("__getattr__", "__getattribute__")
    )


def _question(value: Any, entry: Any) -> _Asked | None:
    """What a guard asks of an object; None: nothing.

    :raises Unwatched: it is of a kind that is left to dynamo
    """
    from ortable.compat.torch import dynamo_config

    kind, guard = entry.guard_type, entry.orig_guard
    if kind == "EMPTY_NN_MODULE_HOOKS_DICT":
        if dynamo_config.skip_nnmodule_hook_guards:
            return None
        return _Asked("keys", [])
    if kind == "NOT_PRESENT_IN_GENERIC_DICT" and isinstance(value, torch.nn.Module):
        name = getattr(original(guard.create_fn), "keywords", {}).get("attr")
        if isinstance(name, str):
            return _Asked("absent", name)
    if kind == "TYPE_MATCH" and (isinstance(value, torch.nn.Module) or type(value) in _DICTS):
        return _Asked("type", type(value))
    if kind == "DICT_KEYS_MATCH" and type(value) in _DICTS:
        return _Asked("keys", list(value))
    of_values = kind in ("CONSTANT_MATCH", "EQUALS_MATCH", "TYPE_MATCH", "SEQUENCE_LENGTH")
    if of_values and _is_constant(value) and value == value:  # NaN is dynamo's
        return _Asked("equal", value)
    if kind == "TENSOR_MATCH" and _is_plain(value, guard.originating_source):
        # A tensor that dynamo writes into the graph has to be this one: dynamo does not ask.
        own = dynamo_config.install_free_tensors
        return _Asked("tensor", (_metadata(value), id(value) if own else None))
    raise Unwatched


def _is_constant(value: Any) -> bool:
    if type(value) in (tuple, torch.Size):
        return all(map(_is_constant, value))
    return type(value) in _ATOMS


def _is_plain(value: Any, source: Any) -> bool:
    """Whether a tensor is one of which dynamo asks nothing in relation to the arguments."""
    if type(value) not in (torch.Tensor, torch.nn.Parameter) or value.layout is not torch.strided:
        return False
    if any(name.startswith("_dynamo_") and name.endswith("_indices") for name in value.__dict__):
        return False
    while type(value) is torch.Tensor and source is not None:
        if type(source).__name__ == _BUILTIN:
            return True
        source = getattr(source, "base", None)
    return type(value) is torch.nn.Parameter


def _metadata(value: torch.Tensor) -> tuple[Any, ...]:
    from ortable.compat.torch import dispatch_keys

    return (
        type(value),
        value.dtype,
        value.device,
        value.shape,
        value.stride(),
        value.requires_grad,
        str(dispatch_keys(value)),
    )


def holds(place: Place, value: Any, seen: Seen) -> bool:
    """Whether all is as it was from here on; fills `seen`."""
    for asked in place.asked:
        if not _answers(asked, value, seen):
            return False
    if isinstance(value, torch.nn.Module):
        seen.modules.setdefault(id(value), value)
    for step, following in place.steps.items():
        try:
            where, found = _follow(value, step)
        except Unwatched:
            return False
        seen.dicts.setdefault(id(where), where)
        if not holds(following, found, seen):
            return False
    return True


def _answers(asked: _Asked, value: Any, seen: Seen) -> bool:
    kind, expected = asked
    if kind == "equal":
        return type(value) is type(expected) and bool(value == expected)
    if kind == "type":
        return type(value) is expected
    if kind == "keys":
        if type(value) not in _DICTS:
            return False
        seen.dicts.setdefault(id(value), value)
        return list(value) == expected
    if kind == "absent":
        seen.dicts.setdefault(id(value.__dict__), value.__dict__)
        return expected not in value.__dict__
    if not isinstance(value, torch.Tensor):
        return False
    seen.tensors.setdefault(id(value), value)
    # marks of sizes that may differ (`mark_dynamic`) are attributes of the tensor
    seen.dicts.setdefault(id(value.__dict__), value.__dict__)
    metadata, identity = expected
    # the graph keeps the tensor: no other one has its id
    return identity in (None, id(value)) and _metadata(value) == metadata

"""Guards of dynamo on modules, replaced by one check of ours that costs less and sees as much.

At each call dynamo walks over every module, attribute and parameter that the graph was traced from.
`watch_modules`, a `guard_filter_fn` of torch.compile, notes what those guards say and has one check
do their work: the versions of the dicts that hold the modules' attributes, the types of the
modules, and torch's own match of tensors. Only where one of these differs are the guards' own
questions asked again, all of them. In come the guards of a frame, out comes which of them stay;
called by dynamo."""

from __future__ import annotations

import functools
import gc
import inspect
import types
import weakref
from collections import OrderedDict
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import torch

from ortable.backend.execute.weights import hold
from ortable.compat.python import stamp_of, writes_are_counted
from ortable.errors import OptionError

__all__ = ["watch_modules"]

_WRAPPERS = ("UnspecializedNNModuleSource", "UnspecializedBuiltinNNModuleSource")
_BUILTIN = "UnspecializedBuiltinNNModuleSource"
_ATTRIBUTES = ("AttrSource", "UnspecializedParamBufferSource")
_DICTS = (dict, OrderedDict)
_ATOMS = (bool, int, float, str, type(None), torch.dtype, torch.device)
_MISSING = object()
# Modules that change at every call (`self.calls += 1`) are left to dynamo's own guards.
_RESTLESS = 8
_MOST_OBJECTS = 200_000

_restless: weakref.WeakSet[torch.nn.Module] = weakref.WeakSet()

Step = tuple[str, Any]  # ("attr", name) of a module, ("item", key) of a dict


class _Unwatched(Exception):
    """What a guard asks is not in the dicts and tensors that are watched."""


class _Asked(NamedTuple):
    """What one guard says of the object at the end of its way."""

    kind: str
    expected: Any


class _Place:
    """An object on the way: what is asked of it, and which steps go on from it."""

    __slots__ = ("asked", "steps")

    def __init__(self) -> None:
        self.asked: list[_Asked] = []
        self.steps: dict[Step, _Place] = {}

    def at(self, way: Sequence[Step]) -> _Place:
        place = self
        for step in way:
            place = place.steps.setdefault(step, _Place())
        return place


class _Seen:
    """What a walk came through, each object once."""

    def __init__(self) -> None:
        self.dicts: dict[int, Any] = {}
        self.modules: dict[int, torch.nn.Module] = {}
        self.tensors: dict[int, torch.Tensor] = {}


class _State(NamedTuple):
    """What the quick check reads; `kept` are the objects whose memory it reads, but the root."""

    read: Callable[[], Any]
    stamp: Any
    tensors: tuple[torch.Tensor, ...]
    matches: dict[bool, Callable[..., bool]]  # by whether inference mode is on
    kept: tuple[Any, ...]


def watch_modules(guards: Sequence[Any]) -> list[bool]:
    """Which guards dynamo keeps, where one check of ours does the work of the others.

    Give it to torch.compile: `torch.compile(model, backend="ortable", options={"guard_filter_fn":
    ortable.watch_modules})`.  Calls of models with many modules get faster, and a change of
    whatever the guards watched is seen as before: a parameter, buffer, submodule or plain
    attribute assigned, deleted or added, `train()` and `eval()`, and dtype, device, shape, strides
    and `requires_grad` of a parameter.  Guards that ask for more than a module's attributes
    (configuration objects, globals, arguments) stay.

    A compiled graph belongs to one module then: where several modules share the code of a
    `forward`, each is compiled for itself.  Python 3.13.0 does not count what is assigned to
    attributes, and keeps all guards.

    Args:
        guards: the `GuardFilterEntry` of each guard of a frame.
    """
    keep = [True] * len(guards)
    if not writes_are_counted():
        return keep
    roots: dict[str, tuple[Any, _Place, list[int]]] = {}
    for entry in guards:
        source = entry.orig_guard.originating_source
        is_module = entry.guard_type == "TYPE_MATCH" and isinstance(entry.value, torch.nn.Module)
        if is_module and _is_root(source) and entry.value not in _restless:
            roots[source.name] = (entry, _Place(), [])
    for index, entry in enumerate(guards):
        found = _way(entry.orig_guard.originating_source)
        if found is None or found[0] not in roots:
            continue
        root, place, replaced = roots[found[0]]
        if entry is root:
            continue
        try:
            _note(root.value, place, found[1], entry)
        except _Unwatched:
            continue
        replaced.append(index)
    for root, place, replaced in roots.values():
        if replaced and _install(root, place):
            for index in replaced:
                keep[index] = False
    return keep


def _is_root(source: Any) -> bool:
    found = _way(source)
    return found is not None and not found[1] and type(source).__name__ in _WRAPPERS


def _way(source: Any) -> tuple[str, list[Step]] | None:
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


def _note(root: torch.nn.Module, place: _Place, way: list[Step], entry: Any) -> None:
    """Notes what a guard asks, if it is answered by what is watched.

    :raises _Unwatched: it is not
    """
    value: Any = root
    for step in way:
        _, value = _follow(value, step)
    asked = _question(value, entry)
    if asked is not None:
        place.at(way).asked.append(asked)


def _follow(value: Any, step: Step) -> tuple[Any, Any]:
    """The dict that a step reads, and what is there.

    :raises _Unwatched: something else than a dict decides
    """
    kind, key = step
    if kind == "attr":
        if not isinstance(value, torch.nn.Module):
            raise _Unwatched
        if hasattr(inspect.getattr_static(type(value), key, None), "__set__"):
            raise _Unwatched  # a property comes before the attribute
        where = value.__dict__
    elif type(value) in _DICTS:
        where = value
    else:
        raise _Unwatched
    found = where.get(key, _MISSING)
    if found is _MISSING:
        raise _Unwatched
    return where, found


def _question(value: Any, entry: Any) -> _Asked | None:
    """What a guard asks of an object; None: nothing.

    :raises _Unwatched: it is of a kind that is left to dynamo
    """
    from ortable.compat.torch import dynamo_config

    kind, guard = entry.guard_type, entry.orig_guard
    if kind == "EMPTY_NN_MODULE_HOOKS_DICT":
        if dynamo_config.skip_nnmodule_hook_guards:
            return None
        return _Asked("keys", [])
    if kind == "NOT_PRESENT_IN_GENERIC_DICT" and isinstance(value, torch.nn.Module):
        name = getattr(guard.create_fn, "keywords", {}).get("attr")
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
    raise _Unwatched


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


def _install(root: Any, place: _Place) -> bool:
    """Has the guard on the type of the outermost module bring the check with it; False where that
    cannot be done."""
    watch = _Watch(root.value, place)
    if watch.state is None or _leads_to(watch.state.kept, root.value):
        return False
    guard = root.orig_guard
    guard.create_fn = functools.partial(_create, create=guard.create_fn, watch=watch)
    hold(watch)
    return True


def _create(builder: Any, guard: Any, *, create: Callable[[Any, Any], Any], watch: _Watch) -> None:
    """What dynamo calls to build the guard: the one that was there, and the check."""
    if getattr(builder, "save_guards", False):
        raise OptionError(
            "watch_modules watches modules of this process, and cannot be saved with a compiled "
            "function. Leave guard_filter_fn out where you call aot_compile."
        )
    create(builder, guard)
    said = [f"the modules of {guard.name} are as they were (ortable.watch_modules)"]
    builder.get_guard_manager(guard).add_lambda_guard(watch.check(), said, guard.user_stack)


def _leads_to(starts: Sequence[Any], root: torch.nn.Module) -> bool:
    """Whether what is watched refers to the module itself, which then would never go: what dynamo
    holds, the garbage collector does not see."""
    seen: set[int] = {id(start) for start in starts}
    waiting = list(starts)
    while waiting:
        value = waiting.pop()
        if value is root or len(seen) > _MOST_OBJECTS:
            return True
        if isinstance(value, type | types.ModuleType | torch.Tensor):
            continue
        inner = value.__closure__ or () if isinstance(value, types.FunctionType) else value
        for each in inner if isinstance(inner, tuple) else gc.get_referents(inner):
            if gc.is_tracked(each) and id(each) not in seen:
                seen.add(id(each))
                waiting.append(each)
    return False


class _Watch:
    """The check of one module for one compiled frame; a holder, see `weights`."""

    references = 1
    storages: frozenset[int] = frozenset()

    def __init__(self, root: torch.nn.Module, place: _Place) -> None:
        self.place = place
        self.again = 0  # calls in a row that had to look closely
        this = weakref.ref(self)

        def gone(_: Any) -> None:
            watch = this()
            if watch is not None:
                watch.let_go()

        self.root = weakref.ref(root, gone)
        self.state = self._look(root)

    @property
    def tensors(self) -> tuple[torch.Tensor, ...]:
        """Parameters that are kept alive."""
        return self.state.tensors if self.state is not None else ()

    def let_go(self) -> None:
        """The module, or a parameter, is not used any more."""
        self.state = None

    def invalidate(self) -> None:
        """Values are not watched here."""

    def check(self) -> Callable[[Any], bool]:
        """What dynamo calls with the module."""
        root, watch = self.root, self
        inference = torch.is_inference_mode_enabled

        def unchanged(value: Any) -> bool:
            state = watch.state
            if state is not None and value is root():
                read, stamp, tensors, matches, _ = state
                match = matches.get(inference())
                if match is not None and read() == stamp and match(*tensors):
                    watch.again = 0
                    return True
            return watch.look_closely(value)

        return unchanged

    def look_closely(self, value: Any) -> bool:
        """Asks again all that the guards asked."""
        root = self.root()
        if root is None or value is not root:
            return False
        before, self.state = self.state, None
        self.again += 1
        if self.again > _RESTLESS:
            _restless.add(root)
            return False
        self.state = state = self._look(root)
        if state is None:
            return False
        if before is not None and list(map(id, before.tensors)) == list(map(id, state.tensors)):
            for mode, match in before.matches.items():
                if mode not in state.matches and match(*state.tensors):
                    state.matches[mode] = match
        return True

    def _look(self, root: torch.nn.Module) -> _State | None:
        """What is watched from now on; None where something is not as it was."""
        from ortable.compat.torch import TensorGuards

        seen = _Seen()
        if not _holds(self.place, root, seen):
            return None
        dicts = list(seen.dicts.values())
        modules = list(seen.modules.values())
        tensors = tuple(seen.tensors.values())
        sizes = [list(each.shape) for each in tensors]
        strides = [list(each.stride()) for each in tensors]
        match = TensorGuards(*tensors, dynamic_dims_sizes=sizes, dynamic_dims_strides=strides).check
        read = stamp_of(dicts, modules)
        matches = {torch.is_inference_mode_enabled(): match if tensors else lambda: True}
        kept = (*dicts, *(each for each in modules if each is not root))
        return _State(read, read(), tensors, matches, kept)


def _holds(place: _Place, value: Any, seen: _Seen) -> bool:
    """Whether all is as it was from here on; fills `seen`."""
    for asked in place.asked:
        if not _answers(asked, value, seen):
            return False
    if isinstance(value, torch.nn.Module):
        seen.modules.setdefault(id(value), value)
    for step, following in place.steps.items():
        try:
            where, found = _follow(value, step)
        except _Unwatched:
            return False
        seen.dicts.setdefault(id(where), where)
        if not _holds(following, found, seen):
            return False
    return True


def _answers(asked: _Asked, value: Any, seen: _Seen) -> bool:
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
    seen.tensors.setdefault(id(value), value)
    if not isinstance(value, torch.Tensor):
        return False
    metadata, identity = expected
    # the graph keeps the tensor: no other one has its id
    return identity in (None, id(value)) and _metadata(value) == metadata

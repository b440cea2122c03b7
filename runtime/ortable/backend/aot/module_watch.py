"""One check in place of dynamo's guards on a module: as long as no dict, class or tensor that they
look at has changed since they last held, they hold. Where one has, the guards themselves are asked.
In come the places that guards ask about and the guards, built apart, out comes the check that
dynamo calls; made by `watch_modules`."""

from __future__ import annotations

import gc
import types
import weakref
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import torch

from ortable.backend.execute.weights import hold
from ortable.compat.python import stamp_of
from ortable.compat.torch_guards import reasons_are_asked

from .module_guards import Place, Seen, holds

__all__ = ["ModuleWatch"]

_MOST_OBJECTS = 200_000
# Modules of one class that share a graph; further ones are asked as dynamo asks.
_MOST_MODULES = 64
# Calls after which a look at a module was worth its time.
_WORTH = 100
_LONGEST_WAIT = 1 << 20


class _Look(NamedTuple):
    """What the quick check reads; `kept` are the objects whose memory it reads, but the module."""

    read: Callable[[], Any]
    stamp: Any
    tensors: tuple[torch.Tensor, ...]
    matches: dict[bool, Callable[..., bool]]  # by whether inference mode is on
    kept: tuple[Any, ...]


class _Module:
    """One module, and how it was when the guards last held; a holder, see `weights`.

    A look takes as long as many calls of the guards: a module that changes all the time is left to
    them, for twice as many calls after each look that was not worth it.
    """

    __slots__ = ("__weakref__", "calls", "look", "price", "root", "wait")

    references = 1
    storages: frozenset[int] = frozenset()

    def __init__(self, root: weakref.ref[torch.nn.Module]) -> None:
        self.root = root
        self.look: _Look | None = None
        self.calls = 0  # that the last look has answered
        self.wait, self.price = 1, 0  # calls of the guards before the next look

    @property
    def tensors(self) -> tuple[torch.Tensor, ...]:
        """Parameters that are kept alive."""
        return self.look.tensors if self.look is not None else ()

    def let_go(self) -> None:
        """The module, or a parameter, is not used any more."""
        self.look = None

    def invalidate(self) -> None:
        """Values are not watched here."""

    def may_look(self) -> bool:
        """Whether a look at this call is likely to be worth its time."""
        if self.look is not None:
            if self.calls >= _WORTH:
                self.wait = self.price = 0
            self.calls, self.look = 0, None
        if self.wait:
            self.wait -= 1
            return False
        self.wait = self.price = min(2 * self.price + 1, _LONGEST_WAIT)
        return True


class ModuleWatch:
    """The check of one variable of a frame that is a module.

    :param place: what the guards ask about
    :param ask: dynamo's guards, asked of a module
    :param reasons: what they say of a module that they refuse
    :param by_identity: tensors are in the graph, and have to be those that were there
    """

    def __init__(
        self,
        place: Place,
        ask: Callable[[Any], bool],
        reasons: Callable[[Any], list[str]],
        by_identity: bool,
    ) -> None:
        self.place, self.by_identity = place, by_identity
        self.ask, self.reasons = ask, reasons
        self.modules: dict[int, _Module] = {}
        self.said = ["the modules are as they were"]

    def check(self) -> Callable[[Any], bool]:
        """What dynamo calls with the module."""
        modules, look_closely = self.modules, self.look_closely
        inference = torch.is_inference_mode_enabled

        def unchanged(value: Any) -> bool:
            module = modules.get(id(value))
            if module is not None and module.root() is value:
                look = module.look
                if look is not None:
                    read, stamp, tensors, matches, _ = look
                    match = matches.get(inference())
                    if match is not None and read() == stamp and match(*tensors):
                        module.calls += 1
                        return True
            return look_closely(value)

        return unchanged

    def look_closely(self, value: Any) -> bool:
        """Asks the guards, and notes the module as it is now if they hold."""
        if not self.ask(value) or (self.by_identity and not holds(self.place, value, Seen())):
            if reasons_are_asked():
                self.said[:] = self.reasons(value) or self.said
            return False
        module = self.modules.get(id(value))
        if module is None or module.root() is not value:
            module = self._met(value)
        if module is not None:
            before = module.look
            if module.may_look():
                module.look = _look_at(self.place, value, before)
        return True

    def _met(self, value: torch.nn.Module) -> _Module | None:
        """A module that was not seen before."""
        if len(self.modules) >= _MOST_MODULES:
            return None
        key, this = id(value), weakref.ref(self)

        def gone(reference: Any) -> None:
            watch = this()
            found = watch.modules.get(key) if watch is not None else None
            if watch is not None and found is not None and found.root is reference:
                del watch.modules[key]

        found = self.modules[key] = _Module(weakref.ref(value, gone))
        hold(found)
        return found


def _look_at(place: Place, root: torch.nn.Module, before: _Look | None) -> _Look | None:
    """The module as it is now; None where what is watched does not answer what the guards ask, or
    would keep the module alive."""
    from ortable.compat.torch import TensorGuards

    seen = Seen()
    if not holds(place, root, seen):
        return None
    dicts = list(seen.dicts.values())
    modules = list(seen.modules.values())
    kept = (*dicts, *(each for each in modules if each is not root))
    tensors = tuple(seen.tensors.values())
    if _leads_to([*kept, *tensors], root):
        return None
    sizes = [list(each.shape) for each in tensors]
    strides = [list(each.stride()) for each in tensors]
    match = TensorGuards(*tensors, dynamic_dims_sizes=sizes, dynamic_dims_strides=strides).check
    matches = {torch.is_inference_mode_enabled(): match if tensors else lambda: True}
    if before is not None and list(map(id, before.tensors)) == list(map(id, tensors)):
        for mode, other in before.matches.items():
            if mode not in matches and other(*tensors):
                matches[mode] = other
    read = stamp_of(dicts, [*modules, *tensors])
    return _Look(read, read(), tensors, matches, kept)


def _leads_to(starts: Sequence[Any], root: torch.nn.Module) -> bool:
    """Whether what is watched refers to the module itself, which then would never go: what dynamo
    holds, the garbage collector does not see."""
    seen: set[int] = {id(start) for start in starts}
    waiting = list(starts)
    while waiting:
        value = waiting.pop()
        if value is root or len(seen) > _MOST_OBJECTS:
            return True
        if isinstance(value, type | types.ModuleType):
            continue
        inner = value
        if isinstance(value, types.FunctionType):  # but for the globals that it sees
            inner = (*(value.__closure__ or ()), value.__defaults__, value.__kwdefaults__)
        for each in inner if isinstance(inner, tuple) else gc.get_referents(inner):
            if gc.is_tracked(each) and id(each) not in seen:
                seen.add(id(each))
                waiting.append(each)
    return False

"""Guards of dynamo on modules, replaced by one check of ours that costs less and sees as much.

At each call dynamo walks over every module, attribute and parameter that the graph was traced from.
Here those guards are found that the versions of dicts, the classes of modules and torch's own match
of tensors can answer; they are built apart, and asked where one of these differs (`module_watch`).
In come the guards of a frame, before dynamo builds them: from a compilation of the backend, which
is the default, or from dynamo's `guard_filter_fn`."""

from __future__ import annotations

import logging
import weakref
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from typing import Any, NamedTuple

import torch

from ortable.compat.python import writes_are_counted, writes_are_counted_in_memory
from ortable.compat.torch_guards import (
    as_kind,
    ask_apart,
    can_be_replaced,
    entries_of,
    guards_of_frame,
    is_filtered,
    is_saved,
    original,
)
from ortable.compat.undone import undone
from ortable.errors import OptionError

from .module_guards import Place, Unwatched, is_root, note, variable_of, way_of
from .module_watch import ModuleWatch

__all__ = ["watch_frame", "watch_modules"]

_log = logging.getLogger(__name__)
# Guards on one module, below which dynamo's own cost no more than a check in Python: those of a
# model with 80 parameters take as long.
_FEWEST = 400


class _Root(NamedTuple):
    """A module that a variable of the frame has, and the guards behind it that one check replaces,
    by their numbers."""

    entry: Any
    place: Place
    replaced: list[int]


def watch_modules(guards: Sequence[Any]) -> list[bool]:
    """Which guards dynamo keeps, where one check of ours does the work of the others.

    `backend="ortable"` does this by itself.  For another backend, give it to torch.compile:
    `torch.compile(model, backend=..., options={"guard_filter_fn": ortable.watch_modules})`.
    Calls of models with many modules get faster, and a change of whatever the guards watched is
    seen as before: a parameter, buffer, submodule or plain attribute assigned, deleted or added,
    `train()` and `eval()`, and dtype, device, shape, strides and `requires_grad` of a parameter.
    Guards that ask for more than a module's attributes (configuration objects, globals, arguments)
    stay.

    Modules that share a graph without it share one with it.  Python 3.13.0 does not count what is
    assigned to attributes, and keeps all guards.

    Args:
        guards: the `GuardFilterEntry` of each guard of a frame.
    """
    keep = [True] * len(guards)
    if not writes_are_counted() or not can_be_replaced():
        return keep
    for root in _roots(guards):
        if not root.replaced:
            continue
        behind = [guards[index].orig_guard for index in root.replaced]
        first = root.entry.orig_guard
        first.create_fn = as_kind(
            _create_filtered, first.create_fn, place=root.place, behind=behind
        )
        for index in root.replaced:
            keep[index] = False
    return keep


def watch_frame() -> None:
    """Has one check stand in for the guards on modules of the frame that is compiled now.

    Where guards are saved, where a `guard_filter_fn` of the user chooses them, and where this
    torch or Python has not what it takes, they stay.  Weights that dynamo leaves in the graph
    (`install_free_tensors`) have no guard that would see that a parameter is another one: the check
    is then built for few guards too, and where counts cost more to read.
    """
    free = _weights_are_left()
    counted = writes_are_counted() if free else writes_are_counted_in_memory()
    if not counted or not can_be_replaced():
        return
    groups: dict[str, list[Any]] = {}
    roots = {}
    for guard in guards_of_frame():
        found = way_of(guard.originating_source)
        if found is None:
            continue
        groups.setdefault(found[0], []).append(guard)
        if is_root(guard.originating_source) and guard.create_fn_name() == "TYPE_MATCH":
            roots[found[0]] = guard
    for name, root in roots.items():
        if len(groups[name]) < _FEWEST and not free:
            continue
        # The check comes with whichever is built first, so that the others can be left out.
        first = min(groups[name], key=lambda guard: guard.sort_key())
        if original(first.create_fn) is first.create_fn:  # a frame may have several graphs
            first.create_fn = as_kind(_create_watched, first.create_fn, root=root)


def _weights_are_left() -> bool:
    """Whether dynamo leaves weights in the graph, instead of handing them to it."""
    from ortable.compat.torch import dynamo_config

    return bool(dynamo_config.install_free_tensors)


def _roots(entries: Sequence[Any]) -> list[_Root]:
    """The modules that guards begin at, and which guards a check can replace."""
    roots: dict[str, _Root] = {}
    for entry in entries:
        source = entry.orig_guard.originating_source
        is_module = entry.guard_type == "TYPE_MATCH" and isinstance(entry.value, torch.nn.Module)
        if is_module and is_root(source) and variable_of(source) is not None:
            roots[source.name] = _Root(entry, Place(), [])
    for index, entry in enumerate(entries):
        found = way_of(entry.orig_guard.originating_source)
        root = roots.get(found[0]) if found is not None else None
        if found is None or root is None or entry is root.entry:
            continue
        try:
            note(root.entry.value, root.place, found[1], entry)
        except Unwatched:
            continue
        root.replaced.append(index)
    return list(roots.values())


def _create_filtered(
    builder: Any, guard: Any, *, create: Callable[[Any, Any], Any], place: Place, behind: list[Any]
) -> None:
    """Builds the guard on a module's class, and the check in place of those that the filter has
    taken away."""
    if is_saved(builder):
        raise OptionError(
            "watch_modules watches modules of this process, and cannot be saved with a compiled "
            "function. Leave guard_filter_fn out where you call aot_compile."
        )
    create(builder, guard)
    watch = _watch(builder, guard, place, behind)
    if watch is None:
        for each in behind:
            each.create(builder)


def _create_watched(
    builder: Any, guard: Any, *, create: Callable[[Any, Any], Any], root: Any
) -> None:
    """Builds the first guard of a module, and the check in place of those behind it."""
    if guard is root:
        create(builder, guard)
    behind = [] if is_saved(builder) or is_filtered(builder) else _build_check(builder, root)
    if guard is not root and all(each is not guard for each in behind):
        create(builder, guard)


def _build_check(builder: Any, root: Any) -> list[Any]:
    """Builds the check of a module, and returns the guards that are left out for it."""
    name = root.originating_source.name

    def is_behind(guard: Any) -> bool:
        found = way_of(guard.originating_source)
        return found is not None and found[0] == name

    entries = entries_of(builder, is_behind)
    for found in _roots(entries):
        behind = [entries[index].orig_guard for index in found.replaced]
        enough = len(behind) >= _FEWEST or _weights_are_left()
        if found.entry.orig_guard is not root or not enough:
            continue
        if _watch(builder, root, found.place, behind) is None:
            return []
        where = weakref.ref(builder.guard_manager)
        for each in behind:
            each.create_fn = as_kind(_create_unwatched, each.create_fn, where=where)
        return behind
    return []


def _create_unwatched(
    builder: Any, guard: Any, *, create: Callable[[Any, Any], Any], where: Any
) -> None:
    """Builds a guard unless the check is among the same guards."""
    if builder.guard_manager is not where():
        create(builder, guard)


def _watch(builder: Any, root: Any, place: Place, behind: list[Any]) -> ModuleWatch | None:
    """Adds the check to the guards that are built now; None where that cannot be done."""
    source = root.originating_source
    variable = variable_of(source)
    class_ = replace(  # the guard itself is among the others, too
        root, create_fn=original(root.create_fn), guard_types=None, code_list=None
    )
    try:
        with _as_made(behind):
            apart = ask_apart(builder, [class_, *behind], variable or None)
        if variable is None or apart is None:
            return None
        watch = ModuleWatch(place, *apart, by_identity=_weights_are_left())
        if not watch.look_closely(builder.get(root)):
            return None
        manager = builder.get_guard_manager(root)
        manager.add_lambda_guard(watch.check(), watch.said, root.user_stack)
    except Exception:  # of torch's own interfaces: its guards do the same
        _log.info("guards on %s stay as dynamo makes them", root.name, exc_info=True)
        return None
    return watch


@contextmanager
def _as_made(guards: list[Any]) -> Iterator[None]:
    """In the block guards are created as dynamo had made them."""
    ours = [guard.create_fn for guard in guards]

    def undo() -> None:
        for guard, create in zip(guards, ours, strict=True):
            guard.create_fn = create

    with undone(undo):
        for guard in guards:
            guard.create_fn = original(guard.create_fn)
        yield

"""What of dynamo builds guards: those of the frame that is compiled now, and guards on modules that
are built apart, to be asked when we ask. All is private; where something is missing or takes other
arguments, `can_be_replaced` says so, and guards stay as dynamo makes them. Called by the backend's
watch over modules."""

from __future__ import annotations

import functools
import inspect
import sys
from collections.abc import Callable, Sequence
from types import FunctionType
from typing import Any

from .torch import dynamo_guards

__all__ = [
    "as_kind",
    "ask_apart",
    "can_be_replaced",
    "entries_of",
    "guards_of_frame",
    "is_filtered",
    "is_saved",
    "original",
    "reasons_are_asked",
]


@functools.cache
def can_be_replaced() -> bool:
    """Whether this torch builds guards in the way that is known here."""
    try:
        builder = inspect.signature(dynamo_guards.GuardBuilder.__init__).parameters
        manager = inspect.signature(dynamo_guards.CheckFunctionManager.build_guards).parameters
        reason = dynamo_guards.get_guard_fail_reason_helper.__code__
        entry = inspect.signature(dynamo_guards.make_guard_filter_entry).parameters
        root = dynamo_guards.RootGuardManager()
        return bool(
            {"save_guards", "guard_filter_fn"} <= builder.keys()
            and list(manager)[:6]
            == [
                "self", "sorted_guards", "existing_diff_guard_sources", "f_code", "output_graph",
                "save_guards",
            ]
            and list(entry) == ["guard", "builder"]
            and reason.co_name
            and root.check({}) is True
            and root.check_verbose({}).result is True
        )  # fmt: skip
    except (AttributeError, TypeError, ValueError):
        return False


def guards_of_frame() -> list[Any]:
    """The guards that dynamo has noted for the frame it compiles now; none outside of one."""
    from .torch import TracingContext

    context = TracingContext.try_get()
    return [] if context is None else list(context.guards_context.dynamo_guards)


def entries_of(builder: Any, concerns: Callable[[Any], bool]) -> list[Any]:
    """Kind, value and guard of those guards of a frame that `concerns` is true of, in the order in
    which they are built, as a `guard_filter_fn` gets them."""
    made = dynamo_guards.make_guard_filter_entry
    found = [guard for guard in builder.check_fn_manager.output_graph.guards if concerns(guard)]
    return [made(guard, builder) for guard in sorted(found, key=lambda guard: guard.sort_key())]


def is_saved(builder: Any) -> bool:
    """Whether the guards that are built now go into a file."""
    return bool(builder.save_guards)


def is_filtered(builder: Any) -> bool:
    """Whether a `guard_filter_fn` of the user has chosen the guards that are built now."""
    return builder.guard_filter_fn is not None


def as_kind(
    function: Callable[..., None], create: Callable[..., None], **keywords: Any
) -> functools.partial[None]:
    """`function` in place of what creates a guard, under the name and the place in the order that
    dynamo and filters know the guard by; `original` finds `create` again."""
    first = original(create)
    inner = first.func if isinstance(first, functools.partial) else first
    code = function.__code__.replace(
        co_name=inner.__name__, co_firstlineno=inner.__code__.co_firstlineno
    )
    named = FunctionType(code, function.__globals__, inner.__name__)
    named.__kwdefaults__ = function.__kwdefaults__
    return functools.partial(named, create=create, **keywords)


def original(create: Callable[..., None]) -> Callable[..., None]:
    """What dynamo had made a guard with."""
    while isinstance(create, functools.partial) and "create" in create.keywords:
        create = create.keywords["create"]
    return create


def ask_apart(
    builder: Any, guards: Sequence[Any], name: str | None
) -> tuple[Callable[[Any], bool], Callable[[Any], list[str]]] | None:
    """Builds guards that all begin at one variable, apart from the others of the frame.

    Two functions of the variable's value: whether they hold, and what does not, in dynamo's words.
    None where one of them asks about other values, too.

    :param name: the local variable; None: a global one, which the guards find themselves
    """
    manager = builder.check_fn_manager
    graph = manager.output_graph
    inner, wrapper = manager.build_guards(guards, set(), builder.f_code, graph, False)
    if inner.no_tensor_aliasing_names or inner.shape_env_code:
        return None
    check, verbose = wrapper.root.check, wrapper.root.check_verbose

    def holds(value: Any) -> bool:
        return bool(check({name: value} if name is not None else {}))

    def reasons(value: Any) -> list[str]:
        return list(verbose({name: value} if name is not None else {}).verbose_code_parts)

    holds.manager = wrapper  # type: ignore[attr-defined]  # keeps what the guards are made of
    return holds, reasons


def reasons_are_asked() -> bool:
    """Whether a guard is asked by dynamo's search for the reason of a compilation."""
    code = dynamo_guards.get_guard_fail_reason_helper.__code__
    frame = sys._getframe(1)
    for _ in range(4):
        if frame.f_code is code:
            return True
        if frame.f_back is None:
            return False
        frame = frame.f_back
    return False

"""What of dynamo one needs to look at a compilation and leave no trace in those of the user; the
same in 2.13, 2.14 and 2.15. All is private, but for `torch.compile(isolate_recompiles=True)`,
which stubs of 2.13 do not declare."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from traceback import FrameSummary
from typing import Any

import torch
from torch.utils._python_dispatch import TorchDispatchMode

from ortable.errors import OrtableError

from .torch import dynamo_profile, graph_break_reasons
from .undone import undone


def innermost(model: Any) -> Any:
    """The module or function that `torch.compile` was given, where it returned `model`."""
    model = getattr(model, "_orig_mod", model)
    return getattr(model, "_torchdynamo_orig_callable", model)


def compiled_apart(
    function: Any, backend: Callable[..., Any], dynamic: bool | None
) -> Callable[..., Any]:
    """`torch.compile` with compiled code of its own: what is compiled of the function elsewhere is
    neither found nor counted."""
    compile_it: Any = torch.compile
    made = compile_it(function, backend=backend, dynamic=dynamic, isolate_recompiles=True)
    assert callable(made)
    return made


@contextmanager
def own_profile() -> Iterator[None]:
    """In the block dynamo has seen no sizes before, and afterwards it has seen none of those in
    the block: sizes that differ between two calls become dynamic."""
    state = dynamo_profile.get_code_state()
    before = dict(state)

    def undo() -> None:
        state.clear()
        state.update(before)

    with undone(undo):
        state.clear()
        yield


@contextmanager
def breaks_collected() -> Iterator[list[tuple[str, Sequence[FrameSummary]]]]:
    """A list that has, when the block ends, why dynamo broke graphs in it: its text, and the frames
    of the user's code from the outermost to the innermost."""
    known = {id(each) for each in graph_break_reasons}
    found: list[tuple[str, Sequence[FrameSummary]]] = []
    try:
        yield found
    finally:
        for each in graph_break_reasons:
            if id(each) not in known and each.graph_break:
                found.append((str(each.reason), list(each.user_stack)))


@contextmanager
def unwrapped() -> Iterator[None]:
    """An error of ours leaves the block as it was raised, without the one of dynamo around it."""
    try:
        yield
    except OrtableError:
        raise
    except Exception as error:
        cause = getattr(error, "inner_exception", None) or error.__cause__
        if isinstance(cause, OrtableError):
            raise cause from error
        raise


class OperatorClock(TorchDispatchMode):  # type: ignore[misc]
    """While it is on, each operator that torch runs adds its name, ``aten::sum.dim_IntList``, and
    when it began and ended, in nanoseconds of the system's clock, to `found`. Operators that one is
    made of are not told apart from it."""

    supports_higher_order_operators = True

    def __init__(self, found: list[tuple[str, int, int]]) -> None:
        super().__init__()
        self.found = found

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        """Runs an operator."""
        begin = time.time_ns()
        result = func(*args, **(kwargs or {}))
        self.found.append((func.name(), begin, time.time_ns()))
        return result

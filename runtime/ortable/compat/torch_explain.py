"""Interfaces of dynamo to inspect a compilation without changing the user's compiled code.

They are the same in 2.13, 2.14 and 2.15. All are private, except
`torch.compile(isolate_recompiles=True)`, which stubs of 2.13 do not declare.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from traceback import FrameSummary
from typing import Any

import torch
from torch.utils._python_dispatch import TorchDispatchMode

from ortable.errors import OrtableError

from .scoped_patch import restore_on_exit
from .torch import dynamo_profile, graph_break_reasons


def original_callable(model: Any) -> Any:
    """Return the module or function that was passed to `torch.compile` if it returned `model`."""
    model = getattr(model, "_orig_mod", model)
    return getattr(model, "_torchdynamo_orig_callable", model)


def compile_isolated(
    function: Any, backend: Callable[..., Any], dynamic: bool | None
) -> Callable[..., Any]:
    """Call `torch.compile` in isolation from the function's other compiled code."""
    compile_function: Any = torch.compile
    compiled = compile_function(function, backend=backend, dynamic=dynamic, isolate_recompiles=True)
    assert callable(compiled)
    return compiled


@contextmanager
def isolated_profile() -> Iterator[None]:
    """Hide dynamo's recorded sizes in the block, and afterwards restore them.

    dynamo makes sizes dynamic that differ from a recorded size.
    """
    state = dynamo_profile.get_code_state()
    saved_state = dict(state)

    def restore_state() -> None:
        state.clear()
        state.update(saved_state)

    with restore_on_exit(restore_state):
        state.clear()
        yield


@contextmanager
def collect_graph_breaks() -> Iterator[list[tuple[str, Sequence[FrameSummary]]]]:
    """Collect the reasons for dynamo's graph breaks in the block.

    Yields a list that is filled at the end. An item is the reason as text, and the frames of
    the user's code from the outermost to the innermost.
    """
    earlier_ids = {id(reason) for reason in graph_break_reasons}
    breaks: list[tuple[str, Sequence[FrameSummary]]] = []
    try:
        yield breaks
    finally:
        for reason in graph_break_reasons:
            if id(reason) not in earlier_ids and reason.graph_break:
                breaks.append((str(reason.reason), list(reason.user_stack)))


@contextmanager
def unwrap_ortable_errors() -> Iterator[None]:
    """Raise the error of ortable that dynamo wrapped in its own exception."""
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
    """While the mode is active, append an event to `found` for each operator that torch runs.

    An event is the name, such as ``aten::sum.dim_IntList``, and the begin and end in nanoseconds of
    the system clock. The time of an operator includes the operators that it calls.
    """

    supports_higher_order_operators = True

    def __init__(self, found: list[tuple[str, int, int]]) -> None:
        super().__init__()
        self.found = found

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        """Run an operator and record its time."""
        begin = time.time_ns()
        result = func(*args, **(kwargs or {}))
        self.found.append((func.name(), begin, time.time_ns()))
        return result

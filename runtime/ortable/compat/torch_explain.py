"""Interfaces of dynamo to inspect a compilation without changing the user's compiled code.

The same in 2.13, 2.14 and 2.15. All are private, except
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
    """The module or function that was passed to `torch.compile` if it returned `model`."""
    model = getattr(model, "_orig_mod", model)
    return getattr(model, "_torchdynamo_orig_callable", model)


def compile_isolated(
    function: Any, backend: Callable[..., Any], dynamic: bool | None
) -> Callable[..., Any]:
    """Call `torch.compile` with compiled code separate from that of the function elsewhere."""
    compile_it: Any = torch.compile
    compiled = compile_it(function, backend=backend, dynamic=dynamic, isolate_recompiles=True)
    assert callable(compiled)
    return compiled


@contextmanager
def isolated_profile() -> Iterator[None]:
    """Hide the sizes that dynamo has seen for the block, and forget those seen in it.

    Sizes that differ between two calls become dynamic.
    """
    state = dynamo_profile.get_code_state()
    before = dict(state)

    def restore_state() -> None:
        state.clear()
        state.update(before)

    with restore_on_exit(restore_state):
        state.clear()
        yield


@contextmanager
def collect_graph_breaks() -> Iterator[list[tuple[str, Sequence[FrameSummary]]]]:
    """Collect the reasons for dynamo's graph breaks in the block.

    Yields a list, filled at the end, of texts and the frames of the user's code from the outermost
    to the innermost.
    """
    seen = {id(reason) for reason in graph_break_reasons}
    breaks: list[tuple[str, Sequence[FrameSummary]]] = []
    try:
        yield breaks
    finally:
        for reason in graph_break_reasons:
            if id(reason) not in seen and reason.graph_break:
                breaks.append((str(reason.reason), list(reason.user_stack)))


@contextmanager
def unwrap_ortable_errors() -> Iterator[None]:
    """Raise errors of ortable as they were, without the one of dynamo around them."""
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
    """While it is on, append each operator that torch runs to `found`.

    An entry is the name, ``aten::sum.dim_IntList``, and the begin and end in nanoseconds of the
    system's clock. An operator includes those that it calls.
    """

    supports_higher_order_operators = True

    def __init__(self, found: list[tuple[str, int, int]]) -> None:
        super().__init__()
        self.found = found

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        """Run an operator."""
        begin = time.time_ns()
        result = func(*args, **(kwargs or {}))
        self.found.append((func.name(), begin, time.time_ns()))
        return result

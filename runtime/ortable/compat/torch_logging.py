"""torch's means to tell what a compilation does, all private: records for TORCH_TRACE, events of
its timeline, the name of a compilation. The same in 2.13, 2.14 and 2.15.

TORCH_LOGS and `torch._logging.set_logs(modules=...)` need nothing from here: torch takes the
name of any module that can be imported, `ortable` and those below it."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager
from types import CodeType
from typing import Any

from .torch import CompileContext, TracingContext, dynamo_timed, dynamo_wrappers, trace_structured

_WRAPPERS = dynamo_wrappers.__file__


def trace_artifact(name: str, encoding: str, payload: Callable[[], Any]) -> None:
    """Writes an artifact into the file of TORCH_TRACE, which tlparse shows; nothing when there is
    none, and then `payload` is not called.

    :param encoding: "string" or "json"; what `payload` returns is a text or plain values
    """
    trace_structured(
        "artifact",
        metadata_fn=lambda: {"name": name, "encoding": encoding},
        payload_fn=payload,
        expect_trace_id=False,
    )


def timed(name: str) -> AbstractContextManager[Any]:
    """The block as an event of torch's timeline of a compilation (chromium events in TORCH_TRACE,
    the profiler, `torch._dynamo.utils.compile_times`)."""
    block: AbstractContextManager[Any] = dynamo_timed(name)
    return block


def compiled_code() -> CodeType | None:
    """The code of the frame that torch compiles now; None where it compiles none, and for a
    function without Python code (`torch.relu`).

    The frame comes first among the codes that dynamo traced, then those it inlined, callers after
    those they call.  Around modules and functions of torch it is a wrapper of dynamo's, and what
    that calls is meant.
    """
    codes = TracingContext.get_traced_code() or []
    if not codes or codes[0].co_filename != _WRAPPERS:
        return codes[0] if codes else None
    return codes[-1] if len(codes) > 1 else None


def frame_compilation() -> int:
    """How often torch compiled the frame before that it compiles now: 0 the first time, and where
    it compiles none."""
    found = CompileContext.current_compile_id()
    return 0 if found is None else int(found.frame_compile_id or 0)

"""torch's private logging interfaces: TORCH_TRACE records, timeline events, compilation names.

They are the same in 2.13, 2.14 and 2.15. TORCH_LOGS and `torch._logging.set_logs(modules=...)` do
not use this module: torch accepts the name of any module that can be imported, such as `ortable`
and its submodules.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager
from types import CodeType
from typing import Any

from .torch import CompileContext, TracingContext, dynamo_timed, dynamo_wrappers, trace_structured

_WRAPPERS = dynamo_wrappers.__file__


def trace_artifact(name: str, encoding: str, payload: Callable[[], Any]) -> None:
    """Write an artifact into the file of TORCH_TRACE, which tlparse shows.

    Without such a file `payload` is not called.

    Args:
        name: the name of the artifact.
        encoding: "string" or "json".
        payload: returns a text, or plain values for "json".
    """
    trace_structured(
        "artifact",
        metadata_fn=lambda: {"name": name, "encoding": encoding},
        payload_fn=payload,
        expect_trace_id=False,
    )


def timeline_event(name: str) -> AbstractContextManager[Any]:
    """Record the block in torch's timeline of a compilation.

    The timeline is in the chromium events of TORCH_TRACE, in the profiler, and in
    `torch._dynamo.utils.compile_times`.
    """
    event: AbstractContextManager[Any] = dynamo_timed(name)
    return event


def compiled_code() -> CodeType | None:
    """Return the code object of the user's function that torch is compiling.

    Returns None if torch compiles nothing, or a function without Python code (`torch.relu`). dynamo
    traces the code of the frame first, then the inlined code, callees before callers. If the frame
    is dynamo's wrapper around a module or a function of torch, the result is the last code that
    dynamo traced, the wrapped function.
    """
    codes = TracingContext.get_traced_code() or []
    if not codes or codes[0].co_filename != _WRAPPERS:
        return codes[0] if codes else None
    return codes[-1] if len(codes) > 1 else None


def frame_compilation() -> int:
    """Return how often torch compiled the present frame before; 0 if it compiles none."""
    compile_id = CompileContext.current_compile_id()
    return 0 if compile_id is None else int(compile_id.frame_compile_id or 0)

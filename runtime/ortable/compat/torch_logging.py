"""torch's private logging interfaces: TORCH_TRACE records, timeline events, compilation names.

The same in 2.13, 2.14 and 2.15. TORCH_LOGS and `torch._logging.set_logs(modules=...)` need
nothing from here: torch takes the name of any module that can be imported, `ortable` and those
below it.
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
        name: of the artifact.
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
    """Show the block in torch's timeline of a compilation.

    That is chromium events in TORCH_TRACE, the profiler, `torch._dynamo.utils.compile_times`.
    """
    block: AbstractContextManager[Any] = dynamo_timed(name)
    return block


def compiled_code() -> CodeType | None:
    """The code of the frame that torch is compiling.

    None if it compiles none, and for a function without Python code (`torch.relu`). The frame comes
    first among the codes that dynamo traced, then those it inlined, callers after those they call.
    Around modules and functions of torch it is a wrapper of dynamo's, and this is what that calls.
    """
    codes = TracingContext.get_traced_code() or []
    if not codes or codes[0].co_filename != _WRAPPERS:
        return codes[0] if codes else None
    return codes[-1] if len(codes) > 1 else None


def frame_compilation() -> int:
    """How often torch has compiled the frame that it is compiling; 0 if it compiles none."""
    compile_id = CompileContext.current_compile_id()
    return 0 if compile_id is None else int(compile_id.frame_compile_id or 0)

"""Give fuzzed files to the loaders in a process with bounds on time and memory.

A file must be accepted or refused by an error of ortable at a line of the file; others are printed.
"""

from __future__ import annotations

import ast
import json
import re
import signal
import sys
import traceback
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import torch  # noqa: F401  # a loader imports torch, which opens libraries

from ortable.errors import SpecError
from ortable.interpreter.user_specs import compile_spec_file
from ortable.passes.rewrite import rule_selection

from .mutate import MARK, Input

CPU_LIMIT = 10  # CPU time of the process, so that a busy machine causes no failure
WALL_LIMIT = 300  # seconds of wall time, for a loader that waits
# Audit events that no loader may cause.
_FORBIDDEN_EVENTS = (
    "os.system",
    "os.exec",
    "os.posix_spawn",
    "os.fork",
    "os.remove",
    "os.rename",
    "os.mkdir",
)
_FORBIDDEN_PREFIXES = ("subprocess.", "socket.", "shutil.", "ctypes.dlopen", "pickle.", "urllib.")
_LOCATION = re.compile(r"^[^\n]*:\d+:\d+: error: ", re.MULTILINE)
_watching = False


class SideEffect(BaseException):
    """Loading a file had a side effect."""


class _TimeLimitError(BaseException):
    """Loading a file exceeded its time limit."""


def problem(file: Input, folder: Path) -> str | None:
    """Return the problem with how a file was loaded, or None.

    A file that is accepted, or refused by an error of ortable that has a line, has no problem.
    """
    path = folder / "given.yaml"
    path.write_bytes(file.text.encode("utf-8", "surrogatepass"))
    try:
        with _limit_time():
            if file.kind == "aten":
                source = compile_spec_file(path)
            else:
                source = rule_selection.compile_rules_to_source(path)
    except SpecError as error:
        text = error.message
        if not _LOCATION.search(text) and "cannot read" not in text:
            return f"no line: {text[:200]!r}"
        return None
    except (_TimeLimitError, SideEffect) as error:
        return f"{type(error).__name__}: {error} {_format_frame(error)}"
    except Exception as error:
        return f"{type(error).__name__} {_format_frame(error)}: {str(error)[:150]!r}"
    return marked(source)


def marked(source: str) -> str | None:
    """Return where compiled text uses the mark outside a string, or None."""
    try:
        tree = ast.parse(source)
    except (SyntaxError, ValueError, RecursionError, MemoryError) as error:
        return f"the compiled text is no Python: {error}"
    for node in ast.walk(tree):
        for name in (getattr(node, "id", None), getattr(node, "attr", None)):
            if name and MARK in name:
                return f"the mark is code at line {getattr(node, 'lineno', 0)} of the compiled text"
    return None


def _format_frame(error: BaseException) -> str:
    """Return the last line of ortable in the traceback of an error."""
    frames = traceback.extract_tb(error.__traceback__)
    own_frames = [frame for frame in frames if "ortable" in frame.filename] or list(frames)
    return f"{Path(own_frames[-1].filename).name}:{own_frames[-1].lineno} in {own_frames[-1].name}"


@contextmanager
def _limit_time() -> Iterator[None]:
    """Stop a loader that takes too long or does more than read."""
    global _watching
    handlers = [(s, signal.signal(s, _raise_timeout)) for s in (signal.SIGPROF, signal.SIGALRM)]
    signal.setitimer(signal.ITIMER_PROF, CPU_LIMIT)
    signal.setitimer(signal.ITIMER_REAL, WALL_LIMIT)
    _watching = True
    try:
        yield
    finally:
        _watching = False
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.setitimer(signal.ITIMER_PROF, 0)
        for number, handler in handlers:
            signal.signal(number, handler)


def _raise_timeout(number: int, frame: Any) -> None:
    bound = f"{CPU_LIMIT} s of work" if number == signal.SIGPROF else f"{WALL_LIMIT} s on the clock"
    raise _TimeLimitError(f"more than {bound}")


def watch() -> None:
    """Make forbidden audit events raise, for the rest of the life of the process."""
    sys.addaudithook(_audit_event)


def _audit_event(event: str, arguments: tuple[Any, ...]) -> None:
    if _watching and (event in _FORBIDDEN_EVENTS or event.startswith(_FORBIDDEN_PREFIXES)):
        raise SideEffect(f"{event} {arguments!r}"[:300])


def main() -> None:
    """Run ``worker FOLDER FIRST END``: print a JSON line per failure; keep the number in a file."""
    import difflib
    import faulthandler
    import resource

    from .mutate import made

    folder, first, end = Path(sys.argv[1]), int(sys.argv[2]), int(sys.argv[3])
    used = int(re.search(r"VmSize:\s+(\d+)", Path("/proc/self/status").read_text())[1])  # type: ignore[index]
    limit = (used << 10) + (2 << 30)
    resource.setrlimit(resource.RLIMIT_AS, (limit, limit))
    # suggestions of similar names take a third of the time; the tests run with them
    difflib.get_close_matches = lambda *_, **__: []
    problem(made(first), folder)  # reads tables outside the time limit of the first file
    watch()
    for number in range(first, end):
        (folder / "at").write_text(str(number))
        faulthandler.dump_traceback_later(WALL_LIMIT + 30, exit=True)  # where signals do not help
        failure = problem(made(number), folder)
        if failure is not None:
            print(json.dumps([number, failure]), flush=True)
    faulthandler.cancel_dump_traceback_later()


if __name__ == "__main__":
    main()

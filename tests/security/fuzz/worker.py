"""Gives files to the loaders of users' files, in a process with bounds on time and memory. In come
numbers of files, out go lines about those that were neither accepted nor refused by an error of
ortable at a line of the file; called by `__main__`, which starts the process, and by the tests."""

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

import torch  # noqa: F401  # a loader imports it, and that opens libraries

from ortable.errors import SpecError
from ortable.interpreter.user_specs import compile_spec_file
from ortable.passes.rewrite import rule_selection

from .mutate import MARK, Input

SECONDS = 10  # of the process's own time: a busy machine makes no finds
WAITED = 300  # seconds on the clock, for what waits and computes nothing
# What no loader of a file does.
_EVENTS = (
    "os.system",
    "os.exec",
    "os.posix_spawn",
    "os.fork",
    "os.remove",
    "os.rename",
    "os.mkdir",
)
_EVENT_PREFIXES = ("subprocess.", "socket.", "shutil.", "ctypes.dlopen", "pickle.", "urllib.")
_PLACE = re.compile(r"^[^\n]*:\d+:\d+: error: ", re.MULTILINE)
_watching = False


class Executed(BaseException):
    """Reading a file did something."""


class _TooLong(BaseException):
    """A file took more than its time."""


def problem(given: Input, folder: Path) -> str | None:
    """What is wrong with how a file was taken; None when it was accepted, or refused by an error of
    ours that says where."""
    path = folder / "given.yaml"
    path.write_bytes(given.text.encode("utf-8", "surrogatepass"))
    try:
        with _bounded():
            if given.kind == "aten":
                source = compile_spec_file(path)
            else:
                source = rule_selection.compile_rules_to_source(path)
    except SpecError as error:
        text = error.message
        if not _PLACE.search(text) and "cannot read" not in text:
            return f"no line: {text[:200]!r}"
        return None
    except (_TooLong, Executed) as error:
        return f"{type(error).__name__}: {error} {_frame(error)}"
    except Exception as error:
        return f"{type(error).__name__} {_frame(error)}: {str(error)[:150]!r}"
    return marked(source)


def marked(source: str) -> str | None:
    """Where compiled text names the mark other than inside a string."""
    try:
        tree = ast.parse(source)
    except (SyntaxError, ValueError, RecursionError, MemoryError) as error:
        return f"the compiled text is no Python: {error}"
    for node in ast.walk(tree):
        for name in (getattr(node, "id", None), getattr(node, "attr", None)):
            if name and MARK in name:
                return f"the mark is code at line {getattr(node, 'lineno', 0)} of the compiled text"
    return None


def _frame(error: BaseException) -> str:
    """The last line of ours that an error went through."""
    frames = traceback.extract_tb(error.__traceback__)
    ours = [each for each in frames if "ortable" in each.filename] or list(frames)
    return f"{Path(ours[-1].filename).name}:{ours[-1].lineno} in {ours[-1].name}"


@contextmanager
def _bounded() -> Iterator[None]:
    """Ends what takes too long, and what does more than read."""
    global _watching
    before = [(each, signal.signal(each, _ring)) for each in (signal.SIGPROF, signal.SIGALRM)]
    signal.setitimer(signal.ITIMER_PROF, SECONDS)
    signal.setitimer(signal.ITIMER_REAL, WAITED)
    _watching = True
    try:
        yield
    finally:
        _watching = False
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.setitimer(signal.ITIMER_PROF, 0)
        for number, handler in before:
            signal.signal(number, handler)


def _ring(number: int, frame: Any) -> None:
    bound = f"{SECONDS} s of work" if number == signal.SIGPROF else f"{WAITED} s on the clock"
    raise _TooLong(f"more than {bound}")


def watch() -> None:
    """From now on what a loader does to the system ends it. Stays for the life of the process."""
    sys.addaudithook(_hook)


def _hook(event: str, arguments: tuple[Any, ...]) -> None:
    if _watching and (event in _EVENTS or event.startswith(_EVENT_PREFIXES)):
        raise Executed(f"{event} {arguments!r}"[:300])


def main() -> None:
    """``worker FOLDER FIRST END``: a line of JSON for each find; the number is in a file."""
    import difflib
    import faulthandler
    import resource

    from .mutate import made

    folder, first, end = Path(sys.argv[1]), int(sys.argv[2]), int(sys.argv[3])
    used = int(re.search(r"VmSize:\s+(\d+)", Path("/proc/self/status").read_text())[1])  # type: ignore[index]
    most = (used << 10) + (2 << 30)
    resource.setrlimit(resource.RLIMIT_AS, (most, most))
    # hints at a similar name are a third of the time; the tests run with them
    difflib.get_close_matches = lambda *_, **__: []
    problem(made(first), folder)  # reads tables: not on the clock of the first file
    watch()
    for number in range(first, end):
        (folder / "at").write_text(str(number))
        faulthandler.dump_traceback_later(WAITED + 30, exit=True)  # what no signal stops
        found = problem(made(number), folder)
        if found is not None:
            print(json.dumps([number, found]), flush=True)
    faulthandler.cancel_dump_traceback_later()


if __name__ == "__main__":
    main()

"""File operations that fail, or during which the process dies. In come a function that writes
files and the number of an operation; called by the tests of this folder.

The layer stands between Python and the system: making, writing, flushing, closing, moving,
linking and removing files, and making folders, are counted one by one. What a library writes in
its own compiled code is one step to it that cannot be divided."""

from __future__ import annotations

import builtins
import contextlib
import errno
import io
import os
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any, NoReturn

FUNCTIONS = (
    "replace", "rename", "link", "unlink", "remove", "mkdir", "rmdir", "chmod", "fsync", "open",
)  # fmt: skip
ERRORS = (errno.ENOSPC, errno.EACCES, errno.EROFS, errno.EIO, errno.EMFILE)
DIED = 137  # as the shell calls a process that was killed

Happens = Callable[[str], None]


@dataclass
class Layer:
    """Counts operations; `happens` is called with the name of operation number `at`."""

    at: int
    happens: Happens
    names: list[str] = field(default_factory=list)
    done: bool = False

    def step(self, name: str, half: Callable[[], Any] | None = None) -> None:
        """One operation; where it is the one, half of it is done before."""
        self.names.append(name)
        if len(self.names) - 1 == self.at:
            self.done = True
            if half is not None:
                half()
            self.happens(name)

    def function(self, name: str, original: Callable[..., Any]) -> Callable[..., Any]:
        def called(*args: Any, **kwargs: Any) -> Any:
            reads = name == "open" and not args[1] & (os.O_WRONLY | os.O_RDWR)
            if not reads:
                self.step(name)
            return original(*args, **kwargs)

        return called

    def opened(self, original: Callable[..., Any]) -> Callable[..., Any]:
        def called(file: Any, mode: str = "r", *args: Any, **kwargs: Any) -> Any:
            if not set(mode) & set("wxa+"):
                return original(file, mode, *args, **kwargs)
            self.step("create")
            return _Stream(original(file, mode, *args, **kwargs), self)

        return called


class _Stream:
    """A file that is written to; what a stream does with the rest stays as it is."""

    def __init__(self, stream: Any, layer: Layer) -> None:
        self._stream, self._layer = stream, layer

    def write(self, data: Any) -> Any:
        def half() -> None:
            part = data[: len(data) // 2] if isinstance(data, str) else memoryview(data).cast("B")
            self._stream.write(part if isinstance(data, str) else part[: part.nbytes // 2])
            self._stream.flush()

        self._layer.step("write", half)
        return self._stream.write(data)

    def close(self) -> None:
        if not self._stream.closed:
            try:
                self._layer.step("close")
            except BaseException:
                self._stream.close()
                raise
        self._stream.close()

    def __getattr__(self, name: str) -> Any:
        return getattr(self._stream, name)

    def __enter__(self) -> _Stream:
        return self

    def __exit__(self, *error: object) -> None:
        self.close()


@contextlib.contextmanager
def layer(at: int, happens: Happens) -> Iterator[Layer]:
    """The layer is in place while the block runs."""
    made = Layer(at, happens)
    before = {name: getattr(os, name) for name in FUNCTIONS}
    plain = builtins.open
    try:
        for name, original in before.items():
            setattr(os, name, made.function(name, original))
        builtins.open = io.open = made.opened(plain)  # type: ignore[assignment]
        yield made
    finally:
        for name, original in before.items():
            setattr(os, name, original)
        builtins.open = io.open = plain


def count(work: Callable[[], Any]) -> list[str]:
    """The operations of ``work``, by name."""
    with layer(-1, _nothing) as found:
        work()
    return found.names


def fails_at(at: int, number: int, work: Callable[[], Any]) -> bool:
    """Runs ``work`` with an operation that the system refuses, with this ``errno``; whether it was
    reached. Errors come out as they are."""

    def refuse(name: str) -> NoReturn:
        raise OSError(number, os.strerror(number), name)

    with layer(at, refuse) as found:
        work()
    return found.done


def dies_at(at: int, work: Callable[[], Any]) -> bool:
    """Runs ``work`` in a child that is gone at an operation, without any cleaning up; whether it
    was reached."""
    child = os.fork()
    if child == 0:
        code = 1
        try:
            with layer(at, lambda name: os._exit(DIED)):
                work()
            code = 0
        finally:
            os._exit(code)
    code = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
    assert code in (0, DIED), "the child failed by itself"
    return code == DIED


def _nothing(name: str) -> None:
    """Operations are counted only."""

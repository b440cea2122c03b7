"""Let a file operation fail, or kill the process at it.

Only operations through Python's ``os`` and ``open`` are counted, not those of compiled libraries.
"""

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
KILLED_STATUS = 137  # exit status of a killed process in a shell

Callback = Callable[[str], None]


@dataclass
class Layer:
    """Count operations; call `on_operation` with the name of the operation number `index`."""

    index: int
    on_operation: Callback
    names: list[str] = field(default_factory=list)
    reached: bool = False

    def count_operation(self, name: str, do_half: Callable[[], Any] | None = None) -> None:
        """Count an operation; at the chosen operation, do half of it first."""
        self.names.append(name)
        if len(self.names) - 1 == self.index:
            self.reached = True
            if do_half is not None:
                do_half()
            self.on_operation(name)

    def wrap_function(self, name: str, original: Callable[..., Any]) -> Callable[..., Any]:
        def wrapper(*args: Any, **kwargs: Any) -> Any:
            is_read = name == "open" and not args[1] & (os.O_WRONLY | os.O_RDWR)
            if not is_read:
                self.count_operation(name)
            return original(*args, **kwargs)

        return wrapper

    def wrap_open(self, original: Callable[..., Any]) -> Callable[..., Any]:
        def wrapper(file: Any, mode: str = "r", *args: Any, **kwargs: Any) -> Any:
            if not set(mode) & set("wxa+"):
                return original(file, mode, *args, **kwargs)
            self.count_operation("create")
            return _Stream(original(file, mode, *args, **kwargs), self)

        return wrapper


class _Stream:
    """A file whose writes and close are counted; all else is passed to the stream."""

    def __init__(self, stream: Any, layer: Layer) -> None:
        self._stream, self._layer = stream, layer

    def write(self, data: Any) -> Any:
        def write_half() -> None:
            half = data[: len(data) // 2] if isinstance(data, str) else memoryview(data).cast("B")
            self._stream.write(half if isinstance(data, str) else half[: half.nbytes // 2])
            self._stream.flush()

        self._layer.count_operation("write", write_half)
        return self._stream.write(data)

    def close(self) -> None:
        if not self._stream.closed:
            try:
                self._layer.count_operation("close")
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
def install_layer(index: int, on_operation: Callback) -> Iterator[Layer]:
    """Install the layer while the block runs."""
    file_layer = Layer(index, on_operation)
    originals = {name: getattr(os, name) for name in FUNCTIONS}
    original_open = builtins.open
    try:
        for name, original in originals.items():
            setattr(os, name, file_layer.wrap_function(name, original))
        builtins.open = io.open = file_layer.wrap_open(original_open)  # type: ignore[assignment]
        yield file_layer
    finally:
        for name, original in originals.items():
            setattr(os, name, original)
        builtins.open = io.open = original_open


def list_operations(work: Callable[[], Any]) -> list[str]:
    """Return the names of the operations of ``work``."""
    with install_layer(-1, _do_nothing) as file_layer:
        work()
    return file_layer.names


def run_with_error(index: int, error_number: int, work: Callable[[], Any]) -> bool:
    """Run ``work`` with one failing operation; return whether the operation was reached."""

    def refuse(name: str) -> NoReturn:
        raise OSError(error_number, os.strerror(error_number), name)

    with install_layer(index, refuse) as file_layer:
        work()
    return file_layer.reached


def run_and_kill(index: int, work: Callable[[], Any]) -> bool:
    """Run ``work`` in a child that exits at an operation; return whether it exited there."""
    child = os.fork()
    if child == 0:
        status = 1
        try:
            with install_layer(index, lambda name: os._exit(KILLED_STATUS)):
                work()
            status = 0
        finally:
            os._exit(status)
    status = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
    assert status in (0, KILLED_STATUS), "the child failed with another error"
    return status == KILLED_STATUS


def _do_nothing(name: str) -> None:
    """Do nothing, so that operations are only counted."""

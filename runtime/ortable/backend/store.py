"""Values by key, in memory and in files of a folder that processes share: conversions, decisions of
`autotune`, settings of `tune`. Each has one `Store`.

A file appears whole. A folder is kept within a size and an age: files go that were not read for
longest, and it may be emptied at any time."""

from __future__ import annotations

import contextlib
import functools
import hashlib
import json
import os
import platform
import stat
import threading
import time
import warnings
import weakref
from collections import OrderedDict
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Generic, TypeVar

from ortable.compat.torch import loaded_cache_artifacts, record_cache_artifact
from ortable.ir.proto.atomic_files import NEW, write_file

T = TypeVar("T")
CONVERSION, DECISION, SETTINGS = ".ortable", ".autotune", ".tuned.json"  # suffixes
_KEPT = (CONVERSION, DECISION, SETTINGS)  # what counts, and may go
_CARRIED = "ortable-"  # before the names of files among those of torch's artifacts
_ABANDONED = 3600  # seconds: what a process that is gone has not finished writing
_LOOK = 600  # seconds between two looks at a folder that cannot be too large

_refused: set[str] = set()  # folders that were warned about
_folders: dict[str, tuple[int, float]] = {}  # bytes in a folder, and when they were counted
_stores: weakref.WeakSet[Store[Any]] = weakref.WeakSet()


class Uncacheable(Exception):
    """A graph, or an option, whose content no digest can tell; the message says which and why."""


@dataclass(frozen=True)
class Limits:
    """How large a folder may grow (bytes), and how long a file stays that nobody reads (seconds);
    0: no limit."""

    size: int = 0
    seconds: float = 0


class Store(Generic[T]):
    """The latest values in memory, and files of them, one a name. What a file holds that cannot be
    used is a miss and a warning; nothing in it is executed. Safe for threads.

    Args:
        suffix: how the names of the files end.
        encode: makes the content of the file of a name.
        decode: the inverse of `encode`; any exception says that a content cannot be used.
        made: what happens to a value that is in no file, for warnings.
        weigh: the bytes that a value takes in memory.
        count: how many values memory holds.
        size: how many bytes it holds.
        carried: the files go where `torch.compiler.save_cache_artifacts` takes them, and what
            `load_cache_artifacts` brought is moved into the folder when it is first looked for.
    """

    def __init__(
        self,
        suffix: str,
        encode: Callable[[str, T], bytes],
        decode: Callable[[str, bytes], T],
        *,
        made: str = "measured",
        weigh: Callable[[T], int] = lambda value: 0,
        count: int = 4096,
        size: int = 1 << 62,
        carried: bool = False,
    ) -> None:
        self._suffix, self._made, self._carried = suffix, made, carried
        self._encode, self._decode, self._weigh = encode, decode, weigh
        self._limits = (count, size)
        self._values: OrderedDict[str, tuple[T, int]] = OrderedDict()
        self._size = 0
        self._lock = threading.Lock()
        _stores.add(self)

    def __len__(self) -> int:
        return len(self._values)

    def get(self, key: str) -> T | None:
        """The value that memory has of a key, which becomes the latest."""
        with self._lock:
            found = self._values.get(key)
            if found is None:
                return None
            self._values.move_to_end(key)
            return found[0]

    def put(self, key: str, value: T) -> None:
        """Keep a value in memory, and drop the oldest past the limits."""
        size = self._weigh(value)
        count, largest = self._limits
        with self._lock:
            self._discard(key)
            self._values[key] = (value, size)
            self._size += size
            while self._values and (len(self._values) > count or self._size > largest):
                self._discard(next(iter(self._values)))

    def clear(self) -> None:
        """Forget what memory has."""
        with self._lock:
            self._values.clear()
            self._size = 0

    def _discard(self, key: str) -> None:
        self._size -= self._values.pop(key, (None, 0))[1]

    def path(self, folder: str, name: str) -> Path:
        """The file of a name."""
        return Path(folder) / f"{name}{self._suffix}"

    def load(self, folder: str | None, name: str, limits: Limits | None = None) -> T | None:
        """The value that a folder has of a name; None when there is none, or, with a warning, when
        it cannot be used."""
        if folder is None or not readable(Path(folder)):
            return None
        path = self.path(folder, name)
        for source in self._sources(path, name):
            try:
                content = source.read_bytes()
                value = self._decode(name, content)
            except (FileNotFoundError, NotADirectoryError):
                continue
            except Exception as error:  # whatever a damaged file makes a reader raise
                why = str(getattr(error, "message", error)) or type(error).__name__
                _warn(f"{source} is not used ({why}): it is {self._made} again.")
                value = None
            with contextlib.suppress(OSError):
                os.utime(path) if source == path else source.unlink()  # the last use: see `bound`
            if value is not None:
                self._note(name, content)
                if source != path:
                    self._write(path, content, limits)
                return value
        return None

    def save(self, folder: str | None, name: str, value: T, limits: Limits | None = None) -> bool:
        """Write a value, where there is a folder; False, with a warning, if that does not let it.

        :raises Uncacheable: a file cannot hold it
        """
        if folder is None:
            return False
        content = self._encode(name, value)
        self._note(name, content)
        return self._write(self.path(folder, name), content, limits)

    def _sources(self, path: Path, name: str) -> Iterator[Path]:
        yield path
        if self._carried:
            yield from sorted(loaded_cache_artifacts(_CARRIED + name).glob("*"))

    def _note(self, name: str, content: bytes) -> None:
        if self._carried:
            record_cache_artifact(_CARRIED + name, content)

    def _write(self, path: Path, content: bytes, limits: Limits | None) -> bool:
        try:
            write_whole(path, content)
        except OSError as error:
            _warn(f"{path} cannot be written ({error}): others have it {self._made} again.")
            return False
        if limits is not None:
            bound(path, len(content), limits)
        return True


def _unlock() -> None:
    """In a forked child, where a thread that had a lock does not exist."""
    for store in list(_stores):
        store._lock = threading.Lock()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_unlock)


def encode_measured(_: str, record: Any) -> bytes:
    """The fields of a dataclass as a line of JSON, with the processor in it for people."""
    return json.dumps({**asdict(record), "processor": processor()}).encode() + b"\n"


def _warn(message: str) -> None:
    warnings.warn(f"ortable: {message}", RuntimeWarning, stacklevel=3)


def readable(folder: Path) -> bool:
    """Whether what lies in a folder may be put to use: it is this user's, or root's, and not
    everybody may write into it. Where it is not, a warning says so, once a folder.

    What is read from a folder decides what runs and where memory lies: who writes into it is
    trusted as who wrote the program."""
    owner = getattr(os, "getuid", None)
    if owner is None:
        return True  # Windows, whose folders have no such owner or mode
    try:
        state = folder.stat()
    except OSError:
        return True  # it is made when something is written
    wrong = None
    if state.st_uid not in (owner(), 0):
        wrong = "it belongs to another user"
    elif state.st_mode & stat.S_IWOTH:
        wrong = "everybody may write into it"
    if wrong is not None and str(folder) not in _refused:
        _refused.add(str(folder))
        _warn(
            f"nothing is read from the folder {str(folder)!r}: {wrong}. Give cache_dir a folder of "
            "your own."
        )
    return wrong is None


def write_whole(path: Path, content: bytes) -> None:
    """Put a file in its place when all of it is written, and make the folder.

    :raises OSError: the folder does not let it; nothing is left behind
    """
    path.parent.mkdir(0o755, parents=True, exist_ok=True)  # not writable by all, as `readable`
    write_file(path, content)


def bound(written: Path, size: int, limits: Limits) -> None:
    """Remove what is too old or too much of a folder into which a file was written; it is read
    through only now and then, and when it may be too large."""
    folder = str(written.parent)
    total, looked = _folders.get(folder, (0, 0.0))
    now = time.time()
    if looked and now - looked < _LOOK and (not limits.size or total + size <= limits.size):
        _folders[folder] = (total + size, looked)
        return
    _folders[folder] = (_prune(written, limits, now), now)


def _prune(written: Path, limits: Limits, now: float) -> int:
    """The bytes that are left of a folder."""
    found: list[tuple[float, int, str]] = []
    with contextlib.suppress(OSError), os.scandir(written.parent) as entries:
        for entry in entries:
            with contextlib.suppress(OSError):
                state = entry.stat()
                if entry.name.endswith(_KEPT):
                    found.append((state.st_mtime, state.st_size, entry.path))
                elif entry.name.startswith(NEW) and now - state.st_mtime > _ABANDONED:
                    os.unlink(entry.path)
    total = sum(size for _, size, _ in found)
    for used, size, path in sorted(found):  # the one that was used longest ago first
        old = limits.seconds and now - used > limits.seconds
        much = limits.size and total > limits.size
        if (old or much) and path != str(written):
            with contextlib.suppress(OSError):
                os.unlink(path)
                total -= size
    return total


@functools.cache
def processor() -> str:
    """The kind of the processors, how many this process may use, and their instructions."""
    path = Path("/proc/cpuinfo")
    lines = path.read_text().splitlines() if path.exists() else []
    told = dict(line.split(":", 1) for line in reversed(lines) if ":" in line)
    named = {key.strip(): value.strip() for key, value in told.items()}
    flags = named.get("flags", named.get("Features", ""))
    kind = named.get("model name") or platform.processor() or platform.machine()
    allowed = getattr(os, "sched_getaffinity", None)
    count = len(allowed(0)) if allowed is not None else os.cpu_count()
    return f"{count} x {kind}, {hashlib.sha256(flags.encode()).hexdigest()[:12]}"

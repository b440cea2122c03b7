"""Key-value stores in memory and in files of a folder that processes share.

Conversions, decisions of `autotune` and settings of `tune` each have a `Store`. Files are written
atomically (trusted_folder.py), and the user may remove files at any time. Limits of size and age
apply to a folder: the least recently read files are removed.
"""

from __future__ import annotations

import contextlib
import functools
import hashlib
import json
import os
import platform
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
from ortable.ir.proto.atomic_files import TEMPORARY_PREFIX

from .trusted_folder import (
    UntrustedFolder,
    is_trusted_folder,
    read_file,
    touch_file,
    write_file,
)

T = TypeVar("T")
CONVERSION, DECISION, SETTINGS = ".ortable", ".autotune", ".tuned.json"  # file suffixes
_SUFFIXES = (CONVERSION, DECISION, SETTINGS)  # of the files that limits apply to
_ARTIFACT_PREFIX = "ortable-"  # marks our files among torch's cache artifacts
_ABANDONED_SECONDS = 3600  # an unfinished file of this age was left by a process that has died
_SCAN_SECONDS = 600  # time between scans for expired files, in a folder below its size limit

_folder_sizes: dict[str, tuple[int, float]] = {}  # bytes in a folder, and the time of the count
_stores: weakref.WeakSet[Store[Any]] = weakref.WeakSet()


class Uncacheable(Exception):
    """A graph or an option whose content has no digest; the message names it and the reason."""


@dataclass(frozen=True)
class Limits:
    """Maximum size of a folder (bytes) and age of an unread file (seconds); 0: no limit."""

    size: int = 0
    seconds: float = 0


class Store(Generic[T]):
    """Store the most recently used values in memory, and values by name in files. Thread-safe.

    If the content of a file is unusable, `load` warns and returns None; it never executes content.

    Args:
        suffix: the suffix of the file names.
        encode: takes a name and a value, and returns the content of its file.
        decode: the inverse of `encode`; any exception means that the content is unusable.
        verb: the participle in warnings that a value is computed again: "converted", "measured".
        weigh: returns the bytes that a value takes in memory.
        count: the maximum number of values in memory.
        size: the maximum number of bytes in memory.
        in_artifacts: include the files in `torch.compiler.save_cache_artifacts`, and move those
            that `load_cache_artifacts` loaded into the folder on their first lookup.
    """

    def __init__(
        self,
        suffix: str,
        encode: Callable[[str, T], bytes],
        decode: Callable[[str, bytes], T],
        *,
        verb: str = "measured",
        weigh: Callable[[T], int] = lambda value: 0,
        count: int = 4096,
        size: int = 1 << 62,
        in_artifacts: bool = False,
    ) -> None:
        self._suffix, self._verb, self._in_artifacts = suffix, verb, in_artifacts
        self._encode, self._decode, self._weigh = encode, decode, weigh
        self._limits = (count, size)
        self._values: OrderedDict[str, tuple[T, int]] = OrderedDict()
        self._size = 0
        self._lock = threading.Lock()
        _stores.add(self)

    def __len__(self) -> int:
        return len(self._values)

    def get(self, key: str) -> T | None:
        """Return the value of a key in memory and mark it as most recently used."""
        with self._lock:
            entry = self._values.get(key)
            if entry is None:
                return None
            self._values.move_to_end(key)
            return entry[0]

    def put(self, key: str, value: T) -> None:
        """Store a value in memory, and drop the least recently used values beyond the limits."""
        size = self._weigh(value)
        count, largest = self._limits
        with self._lock:
            self._discard_key(key)
            self._values[key] = (value, size)
            self._size += size
            while self._values and (len(self._values) > count or self._size > largest):
                self._discard_key(next(iter(self._values)))

    def clear(self) -> None:
        """Remove all values from memory."""
        with self._lock:
            self._values.clear()
            self._size = 0

    def _discard_key(self, key: str) -> None:
        self._size -= self._values.pop(key, (None, 0))[1]

    def path(self, folder: str, name: str) -> Path:
        """Return the path of the file of a name; raise ValueError for a name with a folder."""
        if os.path.basename(name) != name:
            raise ValueError(f"{name!r} is not the name of a file")
        return Path(folder) / f"{name}{self._suffix}"

    def load(self, folder: str | None, name: str, limits: Limits | None = None) -> T | None:
        """Load the value of a name from a folder.

        Returns:
            The value; None if there is no file, or, with a warning, if no file is usable.
        """
        if folder is None or not is_trusted_folder(Path(folder)):
            return None
        path = self.path(folder, name)
        for source in self._candidate_files(path, name):
            try:
                content = read_file(source)
                value = self._decode(name, content)
            except (FileNotFoundError, NotADirectoryError, UntrustedFolder):
                continue
            except Exception as error:  # a damaged file can raise anything
                reason = str(getattr(error, "message", error)) or type(error).__name__
                _emit_warning(f"{source} is not used ({reason}): its value is {self._verb} again.")
                value = None
            with contextlib.suppress(OSError):
                touch_file(path) if source == path else source.unlink()  # for `_prune_folder`
            if value is not None:
                self._record_artifact(name, content)
                if source != path:
                    self._write_file(path, content, limits)
                return value
        return None

    def save(self, folder: str | None, name: str, value: T, limits: Limits | None = None) -> bool:
        """Write a value if there is a folder; return False, with a warning, if that fails.

        Raises:
            Uncacheable: if the value cannot be represented in a file.
        """
        if folder is None:
            return False
        content = self._encode(name, value)
        self._record_artifact(name, content)
        return self._write_file(self.path(folder, name), content, limits)

    def _candidate_files(self, path: Path, name: str) -> Iterator[Path]:
        yield path
        if self._in_artifacts:
            yield from sorted(loaded_cache_artifacts(_ARTIFACT_PREFIX + name).glob("*"))

    def _record_artifact(self, name: str, content: bytes) -> None:
        if self._in_artifacts:
            record_cache_artifact(_ARTIFACT_PREFIX + name, content)

    def _write_file(self, path: Path, content: bytes, limits: Limits | None) -> bool:
        try:
            write_file(path, content)
        except UntrustedFolder:
            return False  # it has warned
        except OSError as error:
            _emit_warning(f"{path} cannot be written ({error}): it is {self._verb} again later.")
            return False
        if limits is not None:
            enforce_limits(path, len(content), limits)
        return True


def _reset_locks() -> None:
    """Replace the locks in a forked child: their owner threads do not exist there."""
    for store in list(_stores):
        store._lock = threading.Lock()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_reset_locks)


def encode_as_json(_: str, record: Any) -> bytes:
    """Encode a dataclass as a line of JSON; add the processor, which decoders ignore."""
    return json.dumps({**asdict(record), "processor": describe_processor()}).encode() + b"\n"


def _emit_warning(message: str) -> None:
    warnings.warn(f"ortable: {message}", RuntimeWarning, stacklevel=3)


def enforce_limits(written_path: Path, size: int, limits: Limits) -> None:
    """Remove the files beyond the limits of a folder, after a file of `size` bytes was written.

    The folder is scanned at intervals, and whenever its files may exceed the maximum size.
    """
    folder = str(written_path.parent)
    total, scanned_at = _folder_sizes.get(folder, (0, 0.0))
    now = time.time()
    if (
        scanned_at
        and now - scanned_at < _SCAN_SECONDS
        and (not limits.size or total + size <= limits.size)
    ):
        _folder_sizes[folder] = (total + size, scanned_at)
        return
    _folder_sizes[folder] = (_prune_folder(written_path, limits, now), now)


def _prune_folder(written_path: Path, limits: Limits, now: float) -> int:
    """Remove files beyond the limits and abandoned files; return the bytes that remain."""
    files: list[tuple[float, int, str]] = []
    with contextlib.suppress(OSError), os.scandir(written_path.parent) as entries:
        for entry in entries:
            with contextlib.suppress(OSError):
                state = entry.stat(follow_symlinks=False)
                if entry.name.endswith(_SUFFIXES):
                    files.append((state.st_mtime, state.st_size, entry.path))
                elif (
                    entry.name.startswith(TEMPORARY_PREFIX)
                    and now - state.st_mtime > _ABANDONED_SECONDS
                ):
                    os.unlink(entry.path)
    total = sum(size for _, size, _ in files)
    for used, size, path in sorted(files):  # least recently used first
        is_expired = limits.seconds and now - used > limits.seconds
        is_oversized = limits.size and total > limits.size
        if (is_expired or is_oversized) and path != str(written_path):
            with contextlib.suppress(OSError):
                os.unlink(path)
                total -= size
    return total


@functools.cache
def describe_processor() -> str:
    """Describe the processor model, its usable cores and a digest of its instruction sets."""
    path = Path("/proc/cpuinfo")
    lines = path.read_text(encoding="utf-8").splitlines() if path.exists() else []
    fields = dict(line.split(":", 1) for line in reversed(lines) if ":" in line)
    values = {key.strip(): value.strip() for key, value in fields.items()}
    flags = values.get("flags", values.get("Features", ""))
    model = values.get("model name") or platform.processor() or platform.machine()
    allowed = getattr(os, "sched_getaffinity", None)
    count = len(allowed(0)) if allowed is not None else os.cpu_count()
    return f"{count} x {model}, {hashlib.sha256(flags.encode()).hexdigest()[:12]}"

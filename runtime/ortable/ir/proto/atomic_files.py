"""Write files atomically: a model with its data files (`FileSet`), or one file (`write_file`)."""

from __future__ import annotations

import contextlib
import itertools
import os
import secrets
import stat
import time
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import IO

from onnx import ModelProto

from ortable.compat.scoped_patch import restore_on_exit

from .tensor_proto import external_tensors

try:
    import fcntl
except ImportError:  # Windows
    fcntl = None  # type: ignore[assignment]

_ENDING = ".data"
NEW = ".new-"  # how the name begins that a file of `write_file` has until it is complete
_TRIES, _PAUSE = 6000, 0.01  # a minute, in which many large models take their names
_MAX_OLD_MODEL_BYTES = 1 << 27  # bytes of an old model that is read to find its data files


def write_file(path: Path, content: bytes) -> None:
    """Replace a file atomically: readers see the old content or the new one.

    What is no regular file, as ``/dev/stdout``, is written directly.

    Raises:
        OSError: the system refuses; nothing is left behind.
    """
    if _is_stream(path):
        path.write_bytes(content)
        return
    path = Path(os.path.realpath(path))  # a link stays
    beside = path.with_name(f"{NEW}{os.getpid()}-{secrets.token_hex(8)}")
    try:
        beside.write_bytes(content)
        os.replace(beside, path)
    except BaseException:
        _remove_files([beside])
        raise


def _is_stream(path: Path) -> bool:
    """Return whether something other than a regular file is there.

    Checked once: another process may remove the file between two checks.
    """
    try:
        return not stat.S_ISREG(path.stat().st_mode)
    except OSError:
        return False


class FileSet:
    """Writes a model file and its data files, so that the model of this path is at every moment
    the old one or the new one, whole.

    Data files are complete under temporary names before any takes its own. Where a name is taken,
    perhaps by what the old model reads, the files get free names first; one ``os.replace`` puts
    the new model in the place of the old one; then the files take the wanted names beside the
    others (hard links), and a second ``os.replace`` makes the model name these. A process that
    dies on the way leaves a model that is whole, and perhaps files that no model names. (If it
    dies during the last step the data has two names, which ONNX Runtime reads and `onnx.load`
    refuses; saving again puts it right.)

    What a name stands for is on the disk before the name is: each file is flushed (fsync) before
    it takes its place, and the folder at the end, so that a machine that loses power keeps the old
    model or the new one, too."""

    def __init__(self, target: str | os.PathLike[str]) -> None:
        self.target = Path(target)
        self._temporary: dict[str, Path] = {}
        self._streams: list[IO[bytes]] = []

    def open(self, name: str) -> IO[bytes]:
        """A stream for the data file ``name``, bare: it is in the folder of the model."""
        self._temporary[name] = temporary = unused_path(self.target.parent, name)
        stream = temporary.open("xb")
        self._streams.append(stream)
        return stream

    def publish(self, content: Callable[[Mapping[str, str]], bytes]) -> None:
        """Puts the files in their places. ``content(names)`` is the model when its data files are
        not called as in `open` but ``names[name]``.

        Raises OSError for what the system refuses; then the old files are unchanged."""
        for stream in self._streams:
            _flush_file(stream)  # may be the write that does not fit on the disk
            stream.close()
        lock = FolderLock(self.target.parent)
        with restore_on_exit(lock.release):
            lock.acquire()
            self._move_into_place(content)
        _flush_folder(self.target.parent)

    def _move_into_place(self, content: Callable[[Mapping[str, str]], bytes]) -> None:
        old = self._old_data_files()
        renamed = self._free_names()
        placed: list[Path] = []
        try:
            for name, temporary in self._temporary.items():
                path = self._sibling_path(renamed.get(name, name))
                os.replace(temporary, path)
                placed.append(path)
            self._replace_model(content(renamed))
        except BaseException:
            _remove_files(placed)
            raise
        _remove_files(old - set(placed))
        with contextlib.suppress(OSError):  # a file system without hard links: names stay
            self._take_names(renamed, content)

    def _take_names(
        self, renamed: Mapping[str, str], content: Callable[[Mapping[str, str]], bytes]
    ) -> None:
        for name, free in renamed.items():
            temporary = self._sibling_path(f".{free}.link")
            os.link(self._sibling_path(free), temporary)
            os.replace(temporary, self._sibling_path(name))
        if renamed:
            self._replace_model(content({}))
            _remove_files(self._sibling_path(free) for free in renamed.values())

    def _replace_model(self, content: bytes) -> None:
        temporary = unused_path(self.target.parent, self.target.name)
        try:
            with temporary.open("xb") as stream:
                stream.write(content)
                _flush_file(stream)
            os.replace(temporary, self.target)
        except BaseException:
            _remove_files([temporary])
            raise

    def _free_names(self) -> dict[str, str]:
        """Empty when no file has one of the names; otherwise a free name for each."""
        if not any(os.path.lexists(self._sibling_path(name)) for name in self._temporary):
            return {}
        start = self.target.name
        for number in itertools.count(1):
            names = {
                name: f"{start}.{number}{name.removeprefix(start)}" for name in self._temporary
            }
            if not any(os.path.lexists(self._sibling_path(free)) for free in names.values()):
                return names
        raise AssertionError("unreachable")

    def _sibling_path(self, name: str) -> Path:
        return self.target.parent / name

    def __enter__(self) -> FileSet:
        return self

    def __exit__(self, *error: object) -> None:
        for stream in self._streams:
            with contextlib.suppress(OSError):
                stream.close()
        _remove_files(self._temporary.values())

    def _old_data_files(self) -> set[Path]:
        """Data files, named as here, that the present model of this path reads."""
        folder, start = self.target.parent, f"{self.target.name}."
        candidates = {
            path.name
            for path in folder.glob("*" + _ENDING)
            if path.name.startswith(start) and path.is_file()
        }
        try:
            if not candidates or self.target.stat().st_size > _MAX_OLD_MODEL_BYTES:
                return set()
            model = ModelProto.FromString(self.target.read_bytes())
        except Exception:  # no file, or no model: protobuf raises its own classes
            return set()
        named = {
            entry.value
            for tensor in external_tensors(model)
            for entry in tensor.external_data
            if entry.key == "location"
        }
        return {folder / name for name in candidates & named}


class FolderLock:
    """A system lock on a folder, held while files are put into place.

    Without it each of two writers takes the other's data files for those of the old model. It
    leaves no file, and ends with the process. Acquire it inside the block that releases it: a
    Ctrl-C between acquiring it and entering a block would leak it.
    """

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._handles: list[int] = []

    def acquire(self) -> None:
        """Take the lock; go on without it where the system has none (Windows, some network drives)
        or where somebody holds it for a minute."""
        if fcntl is None:
            return
        with contextlib.suppress(OSError):
            self._handles.append(os.open(self._folder, os.O_RDONLY))
            for _ in range(_TRIES):
                try:
                    return fcntl.flock(self._handles[-1], fcntl.LOCK_EX | fcntl.LOCK_NB)
                except BlockingIOError:
                    time.sleep(_PAUSE)

    def release(self) -> None:
        """Release the lock, where it was taken; a second call does nothing."""
        if self._handles:
            # not only closed: a process that was forked meanwhile has it open, too
            with contextlib.suppress(OSError):
                fcntl.flock(self._handles[-1], fcntl.LOCK_UN)
            os.close(self._handles.pop())


def _remove_files(paths: Iterable[Path]) -> None:
    for path in paths:
        with contextlib.suppress(OSError):
            path.unlink()


def _flush_file(stream: IO[bytes]) -> None:
    stream.flush()
    os.fsync(stream.fileno())


def _flush_folder(folder: Path) -> None:
    """The names of a folder go to the disk, where the system can open folders."""
    with contextlib.suppress(OSError):
        handle = os.open(folder, os.O_RDONLY)
        try:
            os.fsync(handle)
        finally:
            os.close(handle)


def unused_path(folder: Path, name: str) -> Path:
    """Where a file or folder can come into being that is to be called ``name``: what is made there
    gets the permissions that the system gives to new ones.

    `tempfile` makes files that nobody else may read, and to give them those permissions later, the
    process's umask must be known. It can be asked for only by setting it, for all threads: a second
    thread that asks, or a Ctrl-C, would leave a process whose files everybody may write."""
    return folder / f".{name[:40]}.{os.getpid()}-{secrets.token_hex(8)}"

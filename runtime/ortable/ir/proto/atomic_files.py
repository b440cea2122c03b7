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

_SUFFIX = ".data"
TEMPORARY_PREFIX = ".new-"  # prefix of the temporary files of `write_file`
# `FolderLock` waits up to a minute, in which another process can rename the files of many models.
_TRIES, _PAUSE = 6000, 0.01
_MAX_OLD_MODEL_BYTES = 1 << 27  # larger old models are not read to find their data files


def write_file(path: Path, content: bytes) -> None:
    """Replace a file atomically, so that readers see either the old or the new content.

    A path that is not a regular file, such as ``/dev/stdout``, is written directly.

    Raises:
        OSError: the system cannot write the file; no temporary file remains.
    """
    if _is_stream(path):
        path.write_bytes(content)
        return
    path = Path(os.path.realpath(path))  # replaces the target of a symbolic link, not the link
    temporary = path.with_name(f"{TEMPORARY_PREFIX}{os.getpid()}-{secrets.token_hex(8)}")
    try:
        with temporary.open("xb") as stream:
            stream.write(content)
        os.replace(temporary, path)
    except BaseException:
        _remove_files([temporary])
        raise


def _is_stream(path: Path) -> bool:
    """Whether the path exists and is not a regular file.

    One call of ``stat`` decides, because another process may remove the file between two calls.
    """
    try:
        return not stat.S_ISREG(path.stat().st_mode)
    except OSError:
        return False


class FileSet:
    """Writes a model file and its data files atomically.

    At every moment, the path of the model holds the complete old or the complete new model. The
    data files are written completely under temporary names and then renamed. If a final name is
    taken, perhaps by a data file of the old model, the steps are:

    1. Rename the data files to unused names.
    2. Replace the old model (``os.replace``) by one that refers to these names.
    3. Create hard links with the final names, and replace the model by one that refers to them.

    If the process dies in between, the model is complete, and there may be unused data files. If it
    dies during the last step, the data has two names; `onnx.load` rejects such files, ONNX Runtime
    reads them, and saving again repairs them.

    Each file is flushed (fsync) before it is renamed, and the folder is flushed at the end, so that
    the old or the new model also survives a power failure.
    """

    def __init__(self, target: str | os.PathLike[str]) -> None:
        self.target = Path(target)
        self._temporary: dict[str, Path] = {}
        self._streams: list[IO[bytes]] = []

    def open(self, name: str) -> IO[bytes]:
        """Open a data file for writing; ``name`` is its final name in the folder of the model."""
        self._temporary[name] = temporary = unused_path(self.target.parent, name)
        stream = temporary.open("xb")
        self._streams.append(stream)
        return stream

    def publish(self, content: Callable[[Mapping[str, str]], bytes]) -> None:
        """Write the model and rename the data files to their final names.

        Args:
            content: returns the bytes of the model. Its argument maps names passed to `open` to the
                actual names of the files, where they differ.

        Raises:
            OSError: the system cannot write a file; the old files are unchanged.
        """
        for stream in self._streams:
            _flush_file(stream)  # raises if the disk is full
            stream.close()
        lock = FolderLock(self.target.parent)
        with restore_on_exit(lock.release):
            lock.acquire()
            self._move_into_place(content)
        _flush_folder(self.target.parent)

    def _move_into_place(self, content: Callable[[Mapping[str, str]], bytes]) -> None:
        old_files = self._old_data_files()
        renamed = self._find_unused_names()
        new_paths: list[Path] = []
        try:
            for name, temporary in self._temporary.items():
                path = self._sibling_path(renamed.get(name, name))
                os.replace(temporary, path)
                new_paths.append(path)
            self._replace_model(content(renamed))
        except BaseException:
            _remove_files(new_paths)
            raise
        _remove_files(old_files - set(new_paths))
        with contextlib.suppress(OSError):  # the file system may not support hard links
            self._link_final_names(renamed, content)

    def _link_final_names(
        self, renamed: Mapping[str, str], content: Callable[[Mapping[str, str]], bytes]
    ) -> None:
        for name, unused_name in renamed.items():
            temporary = self._sibling_path(f".{unused_name}.link")
            os.link(self._sibling_path(unused_name), temporary)
            os.replace(temporary, self._sibling_path(name))
        if renamed:
            self._replace_model(content({}))
            _remove_files(self._sibling_path(unused_name) for unused_name in renamed.values())

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

    def _find_unused_names(self) -> dict[str, str]:
        """Return unused names by final names of data files; empty if all final names are unused."""
        if not any(os.path.lexists(self._sibling_path(name)) for name in self._temporary):
            return {}
        prefix = self.target.name
        for number in itertools.count(1):
            names = {
                name: f"{prefix}.{number}{name.removeprefix(prefix)}" for name in self._temporary
            }
            if not any(
                os.path.lexists(self._sibling_path(unused_name)) for unused_name in names.values()
            ):
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
        """Return data files of the old model at this path that were written by a `FileSet`."""
        folder, start = self.target.parent, f"{self.target.name}."
        candidates = {
            path.name
            for path in folder.glob("*" + _SUFFIX)
            if path.name.startswith(start) and path.is_file()
        }
        try:
            if not candidates or self.target.stat().st_size > _MAX_OLD_MODEL_BYTES:
                return set()
            model = ModelProto.FromString(self.target.read_bytes())
        except Exception:  # no file, or not a model: protobuf raises its own classes
            return set()
        locations = {
            entry.value
            for tensor in external_tensors(model)
            for entry in tensor.external_data
            if entry.key == "location"
        }
        return {folder / name for name in candidates & locations}


class FolderLock:
    """A system lock (flock) on a folder, held while files are renamed.

    Without the lock, two writers would treat each other's data files as those of the old model. The
    lock needs no lock file and ends with the process. Callers must acquire it inside the ``with``
    block that releases it: a Ctrl-C between an earlier `acquire` and the block would leak it.
    """

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._handles: list[int] = []

    def acquire(self) -> None:
        """Wait for the lock; return without it after a minute or if it is not supported."""
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
        """Release the lock if it is held."""
        if self._handles:
            # closing the file is not enough if a process that was forked meanwhile inherited it
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
    """Flush the entries of a folder to the disk, on systems that can open folders."""
    with contextlib.suppress(OSError):
        handle = os.open(folder, os.O_RDONLY)
        try:
            os.fsync(handle)
        finally:
            os.close(handle)


def unused_path(folder: Path, name: str) -> Path:
    """Return an unused path for a temporary file or folder that is later renamed to ``name``.

    Callers create it with the default permissions of new files. `tempfile` is not used, because its
    files are readable by their owner only, and computing the default permissions requires the umask
    of the process. The umask can only be read by setting it for all threads; a second thread, or a
    Ctrl-C, could then leave the process with a wrong umask.
    """
    return folder / f".{name[:40]}.{os.getpid()}-{secrets.token_hex(8)}"

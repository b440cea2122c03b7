"""Read and write the files of a cache folder, which other users may know, share or have prepared.

A cached model is run, so whoever can put a file there is trusted like the author of the program.
Files are opened relative to the folder that was checked, never through a link, so that nobody can
exchange the folder or a file between a check and its use. Used by store.py.
"""

from __future__ import annotations

import contextlib
import os
import secrets
import stat
import warnings
from collections.abc import Iterator
from pathlib import Path

from ortable.ir.proto.atomic_files import TEMPORARY_PREFIX

_warned_folders: set[str] = set()  # folders with a warning already emitted
# Windows has neither folder handles nor these owners and modes.
_HAS_HANDLES = {os.open, os.unlink, os.rename} <= os.supports_dir_fd and hasattr(os, "getuid")
_FLAGS = getattr(os, "O_BINARY", 0) | getattr(os, "O_CLOEXEC", 0)
_FOLDER = os.O_RDONLY | getattr(os, "O_DIRECTORY", 0) | _FLAGS
# O_NONBLOCK: opening a pipe would wait for a writer
_OLD_FILE = os.O_RDONLY | getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_NONBLOCK", 0) | _FLAGS
_NEW_FILE = os.O_WRONLY | os.O_CREAT | os.O_EXCL | _FLAGS


class UntrustedFolder(OSError):
    """A folder that other users than this one, root and its group may write to."""


def read_file(path: Path) -> bytes:
    """Return the content of a regular file in a trusted folder.

    Raises:
        OSError: there is no such file, or it is a link; UntrustedFolder with a warning.
        ValueError: the file is not regular, is world-writable, or another user has written it.
    """
    with _open_folder(path.parent) as (handle, folder_state):
        file = os.open(_name_in(path, handle), _OLD_FILE, dir_fd=handle)
        try:
            state = os.fstat(file)
            if not stat.S_ISREG(state.st_mode):
                raise ValueError("it is not a regular file")
            if folder_state is not None:
                if state.st_mode & stat.S_IWOTH:
                    raise ValueError("it is world-writable")
                if not _is_own(state) and not folder_state.st_mode & stat.S_IWGRP:
                    raise ValueError("another user has written it")
            with open(file, "rb", closefd=False) as stream:
                return stream.read()
        finally:
            os.close(file)


def write_file(path: Path, content: bytes) -> None:
    """Write a file atomically, and create its folder; a link at the path is replaced.

    Raises:
        OSError: the file cannot be written; no partial file remains. UntrustedFolder with a
            warning.
    """
    path.parent.mkdir(0o755, parents=True, exist_ok=True)
    temporary = path.with_name(f"{TEMPORARY_PREFIX}{os.getpid()}-{secrets.token_hex(8)}")
    with _open_folder(path.parent) as (handle, _):
        source, target = _name_in(temporary, handle), _name_in(path, handle)
        try:
            with open(os.open(source, _NEW_FILE, 0o664, dir_fd=handle), "wb") as stream:
                stream.write(content)
            os.replace(source, target, src_dir_fd=handle, dst_dir_fd=handle)
        except BaseException:
            with contextlib.suppress(OSError):
                os.unlink(source, dir_fd=handle)
            raise


def touch_file(path: Path) -> None:
    """Set the times of a file in a trusted folder to now; a link is not followed."""
    with _open_folder(path.parent) as (handle, _):
        follows = os.utime not in os.supports_follow_symlinks
        os.utime(_name_in(path, handle), dir_fd=handle, follow_symlinks=follows)


def is_trusted_folder(folder: Path) -> bool:
    """Return whether a folder is absent, or can be used; otherwise warn, once per folder."""
    try:
        with _open_folder(folder):
            return True
    except UntrustedFolder:
        return False
    except OSError:
        return True  # the first write creates it


@contextlib.contextmanager
def _open_folder(folder: Path) -> Iterator[tuple[int | None, os.stat_result | None]]:
    """Yield a handle of a trusted folder and its state; None and None without handles.

    Raises UntrustedFolder, and warns once, if another user may write to the folder.
    """
    if not _HAS_HANDLES:
        yield None, None
        return
    handle = os.open(folder, _FOLDER)
    try:
        state = os.fstat(handle)
        reason = None
        if not _is_own(state):
            reason = "it belongs to another user"
        elif state.st_mode & stat.S_IWOTH:
            reason = "it is world-writable"
        if reason is not None:
            _warn_untrusted(folder, reason)
            raise UntrustedFolder(f"the folder {str(folder)!r} is not used: {reason}")
        yield handle, state
    finally:
        os.close(handle)


def _is_own(state: os.stat_result) -> bool:
    return state.st_uid in (os.getuid(), 0)


def _name_in(path: Path, handle: int | None) -> str:
    """Return the name of a file relative to the handle of its folder."""
    return str(path) if handle is None else path.name


def _warn_untrusted(folder: Path, reason: str) -> None:
    if str(folder) not in _warned_folders:
        _warned_folders.add(str(folder))
        warnings.warn(
            f"ortable: nothing is read from the folder {str(folder)!r}, or written to it: "
            f"{reason}. Set cache_dir to a folder that only you can write to.",
            RuntimeWarning,
            stacklevel=3,
        )

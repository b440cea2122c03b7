"""Write the external data files of a model in chunks, and map them into memory.

A tensor whose memory layout equals that of the file is not copied.
"""

from __future__ import annotations

import errno
import math
import re
import shutil
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path, PurePosixPath, PureWindowsPath
from typing import Any, NamedTuple

import numpy as np
from onnx import TensorProto, numpy_helper

from ortable import dtypes
from ortable.errors import BuilderError, OptionError
from ortable.ir import initializers

from .atomic_files import FileSet

CHUNK_BYTES = 1 << 20  # bytes that are copied at once


def iter_chunks(value: Any, name: str) -> Iterator[memoryview]:
    """Yield the bytes of a tensor in ONNX's format, row-major and little endian.

    ``value`` is a numpy array, TensorProto, `Deferred`, or torch tensor of any layout and device.
    Raises BuilderError if it cannot be read, or holds strings.
    """
    if isinstance(value, initializers.Deferred):
        value = value.load()
    if isinstance(value, TensorProto):
        if value.raw_data:
            yield memoryview(value.raw_data)
            return
        value = initializers.to_numpy(value, name)
    if initializers.dtype_of(value) == dtypes.string:
        raise BuilderError(f"Initializer {name!r} holds strings, which cannot be external data.")
    if initializers.is_torch(value):
        value = value.detach()
    elif dtypes.from_numpy(value.dtype) in dtypes.SUB_BYTE:
        value = np.ascontiguousarray(value).reshape(-1)  # elements of two rows may share a byte
    parts = [value] if _has_file_layout(value) else _split_rows(value, value.nbytes)
    for part in parts:
        yield _bytes_of(initializers.to_numpy(part, name))


def memory_key(value: Any) -> Any:
    """Return a key that is equal for tensors that view the same memory identically."""
    key = initializers.storage_key(value) if initializers.is_torch(value) else None
    return id(value) if key is None else key


def _has_file_layout(value: Any) -> bool:
    """Whether the memory layout of the tensor equals that of the file."""
    if isinstance(value, np.ndarray):
        is_packed = dtypes.from_numpy(value.dtype) in dtypes.SUB_BYTE
        return bool(value.flags.c_contiguous) and value.dtype.byteorder != ">" and not is_packed
    if not initializers.is_readable(value):
        # a CUDA tensor is copied in parts; the error for a meta tensor shows its full shape
        return value.device.type in ("cpu", "meta")
    return bool(value.is_contiguous()) and not value.is_conj() and not value.is_neg()


def _split_rows(value: Any, nbytes: int) -> Iterator[Any]:
    """Yield consecutive parts of at most `CHUNK_BYTES` bytes."""
    if nbytes <= CHUNK_BYTES or not value.shape:
        yield value
        return
    rows = value.shape[0]
    row_bytes = nbytes // rows
    if row_bytes > CHUNK_BYTES:
        for row in range(rows):
            yield from _split_rows(value[row], row_bytes)
        return
    step = CHUNK_BYTES // row_bytes
    for start in range(0, rows, step):
        yield value[start : start + step]


def _bytes_of(array: np.ndarray) -> memoryview:
    if dtypes.from_numpy(array.dtype) in dtypes.SUB_BYTE:
        return memoryview(numpy_helper.from_array(array).raw_data)
    if array.dtype.byteorder == ">":
        array = array.astype(array.dtype.newbyteorder("<"))
    # viewed as bytes, because memoryview supports neither bfloat16 nor a size of 0
    return np.ascontiguousarray(array).reshape(-1).view(np.uint8).data


ALIGNMENT = 64  # alignment of tensors in a data file in bytes
PAGE = 65536  # alignment of large tensors, sufficient for memory mapping on every system
_MIN_LARGE_BYTES = 1 << 20  # bytes from which tensors are aligned to `PAGE`
_UNSAFE_CHARACTERS = re.compile(r"[^A-Za-z0-9_.-]+")


class TensorLocation(NamedTuple):
    """File, offset and length of the data of a tensor; the fields are keys of external_data."""

    location: str
    offset: int
    length: int


@dataclass(frozen=True)
class Shards:
    """Assignment of tensors to data files.

    ``groups`` has, for each file, the keys and tensors in it. Of tensors that share memory, only
    the first is in a group; ``aliases`` maps the keys of the others to the key of the first.
    ``one_each`` is set if each tensor has its own file, which is named after the tensor.
    """

    groups: list[list[tuple[str, Any]]]
    aliases: dict[str, str]
    one_each: bool = False

    def file_names(self, prefix: str) -> list[str]:
        """Return a file name without folder for each group, such as ``model.onnx.data``."""
        count = len(self.groups)
        if self.one_each:
            names = [
                f"{prefix}.{_UNSAFE_CHARACTERS.sub('_', group[0][0])[:120]}.data"
                for group in self.groups
            ]
            if len({name.lower() for name in names}) == count:
                return names
        if count == 1:
            return [f"{prefix}.data"]
        return [f"{prefix}.{index:05}-of-{count:05}.data" for index in range(1, count + 1)]


def plan_shards(
    entries: Sequence[tuple[str, Any]], one_file: bool = True, max_bytes: int | None = None
) -> Shards:
    """Assign tensors to one file, to a file for each tensor, or to files of at most ``max_bytes``.

    A tensor of more than ``max_bytes`` has its own file. ``entries`` are keys and tensors. Raises
    OptionError if ``max_bytes`` is not positive, or is given with ``one_file=False``.
    """
    if max_bytes is not None and (not one_file or max_bytes <= 0):
        raise OptionError(
            f"max_shard_bytes={max_bytes} must be a positive number of bytes, and requires "
            "all_tensors_to_one_file=True"
        )
    groups: list[list[tuple[str, Any]]] = []
    aliases: dict[str, str] = {}
    first_keys: dict[Any, str] = {}
    size = 0
    for key, value in entries:
        first_key = first_keys.setdefault(memory_key(value), key)
        if first_key != key:
            aliases[key] = first_key
            continue
        nbytes = initializers.nbytes_of(value)
        end = size + _padding(size, nbytes) + nbytes
        if not groups or not one_file or (max_bytes is not None and end > max_bytes):
            groups.append([])
            end = nbytes
        groups[-1].append((key, value))
        size = end
    return Shards(groups, aliases, not one_file)


def _padding(position: int, nbytes: int) -> int:
    """Return the bytes before a tensor of ``nbytes`` in a data file, which align it."""
    return -position % (PAGE if nbytes >= _MIN_LARGE_BYTES else ALIGNMENT)


def write_shards(
    files: FileSet,
    shards: Shards,
    names: Sequence[str],
    progress: Callable[[int, int, str], None] | None = None,
) -> dict[str, TensorLocation]:
    """Write the tensors to the files in chunks; return the location of each tensor by key.

    ``progress(done, total, name)`` is called before each tensor, and at the end without a name;
    ``done`` and ``total`` are bytes.
    """
    report_progress = progress or (lambda done, total, name: None)
    locations: dict[str, TensorLocation] = {}
    total = sum(initializers.nbytes_of(value) for group in shards.groups for _, value in group)
    done = 0
    for group, file in zip(shards.groups, names, strict=True):
        stream, position = files.open(file), 0
        for key, value in group:
            report_progress(done, total, key)
            padding = _padding(position, initializers.nbytes_of(value))
            stream.write(b"\0" * padding)
            start = position + padding
            position = start
            for chunk in iter_chunks(value, key):
                stream.write(chunk)
                position += chunk.nbytes
            locations[key] = TensorLocation(file, start, position - start)
            done += position - start
    report_progress(done, total, "")
    for key, original in shards.aliases.items():
        locations[key] = locations[original]
    return locations


def check_space(target: Path, nbytes: int) -> None:
    """Raise OSError if the disk of the file ``target`` has less than ``nbytes`` left."""
    free = shutil.disk_usage(target.parent).free
    if nbytes > free:
        raise OSError(
            errno.ENOSPC,
            f"the weights take {nbytes / 1e9:.2f} GB, but the disk has {free / 1e9:.2f} GB left",
            str(target),
        )


def set_location(tensor: TensorProto, location: TensorLocation) -> None:
    """Set the location of the external data of a tensor."""
    del tensor.external_data[:]
    for key, value in zip(TensorLocation._fields, location, strict=True):
        entry = tensor.external_data.add()
        entry.key, entry.value = key, str(value)


def safe_path(folder: Path, location: str, name: str) -> Path:
    """Return the file of an external tensor; raise BuilderError if it is outside ``folder``."""
    parts = {*PurePosixPath(location).parts, *PureWindowsPath(location).parts}
    is_absolute = PurePosixPath(location).is_absolute() or PureWindowsPath(location).anchor
    path = folder / location
    try:
        is_inside = path.resolve().is_relative_to(folder.resolve())
        is_file = path.is_file()
    except (OSError, ValueError, RuntimeError):  # a NUL character, a long name, or a loop of links
        is_inside = is_file = False
    if not location or is_absolute or ".." in parts or not is_inside:
        raise BuilderError(
            f"Initializer {name!r} is in {location[:200]!r}, which is not in the folder of the "
            "model; a model may only read files of its folder."
        )
    if not is_file:
        raise BuilderError(f"Initializer {name!r} is in {str(path)!r}, which is not a file.")
    return path


def _parse_offset(text: str, name: str) -> int:
    """Parse an offset or a length; raise BuilderError if the text is not an integer."""
    if not re.fullmatch(r"-?[0-9]{1,18}", text):
        raise BuilderError(
            f"Initializer {name!r} has {text[:40]!r} as offset or length, which is not an integer."
        )
    return int(text)


class MappedFiles:
    """Reads external tensors of models in ``folder``; equal locations return the same array."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._files: dict[str, np.ndarray] = {}
        self._arrays: dict[Any, np.ndarray] = {}

    def read_tensor(self, tensor: TensorProto) -> np.ndarray:
        """Return a tensor as a read-only memory map; unpack types below one byte into a copy."""
        entries = {entry.key: entry.value for entry in tensor.external_data}
        key = (*sorted(entries.items()), tensor.data_type, tuple(tensor.dims))
        array = self._arrays.get(key)
        if array is None:
            array = self._arrays[key] = self._map_tensor(tensor, entries)
        return array

    def _map_tensor(self, tensor: TensorProto, entries: Mapping[str, str]) -> np.ndarray:
        content = self._map_file(entries.get("location", ""), tensor.name)
        offset = _parse_offset(entries.get("offset", "0"), tensor.name)
        length = _parse_offset(entries.get("length", str(content.nbytes - offset)), tensor.name)
        dtype, shape = tensor.data_type, tuple(tensor.dims)
        part = content[offset : offset + length]
        is_packed = dtype in dtypes.SUB_BYTE
        expected = length if is_packed else dtypes.itemsize(dtype) * math.prod(shape)
        if min((offset, length, *shape)) < 0 or part.nbytes != length or length != expected:
            raise BuilderError(
                f"Initializer {tensor.name!r} has {expected} bytes, but its file "
                f"{entries.get('location')!r} has {part.nbytes} of {length} at {offset}."
            )
        if is_packed:
            proto = TensorProto(data_type=dtype, dims=shape, raw_data=part.tobytes())
            return initializers.proto_to_numpy(proto, tensor.name)
        return part.view(dtypes.to_numpy(dtype)).reshape(shape)

    def _map_file(self, location: str, name: str) -> np.ndarray:
        if location not in self._files:
            path = safe_path(self.folder, location, name)
            is_empty = path.stat().st_size == 0  # an empty file cannot be mapped
            self._files[location] = (
                np.empty(0, np.uint8) if is_empty else np.memmap(path, np.uint8, "r")
            )
        return self._files[location]

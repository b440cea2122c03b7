"""What of CPython is not promised: the version that a dict counts up whenever it is written. In
come dicts and objects, out comes a function that tells whether one of them was written since;
called by the backend's check of modules."""

from __future__ import annotations

import functools
import operator
import sys
import sysconfig
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, ClassVar

import numpy

__all__ = [
    "full_collections_are_told",
    "stamp_of",
    "writes_are_counted",
    "writes_are_counted_in_memory",
]

_BASE = 4096  # nothing lies in the first page
_TYPE, _VERSION = 8, 24  # bytes from the beginning of an object, of a dict
_DICT = (-24, -32, -16)  # where an object may have the address of its dict


class _Memory:
    """All that a process can address, as words of 8 bytes."""

    __array_interface__: ClassVar[dict[str, Any]] = {
        "shape": (((1 << 47) - _BASE) // 8,),
        "typestr": "<u8",
        "data": (_BASE, True),
        "version": 3,
    }


def stamp_of(dicts: Sequence[Any], objects: Sequence[Any]) -> Callable[[], Any]:
    """A function whose result changes when one of the dicts is written, or when one of the objects
    gets another class or another `__dict__`.  The caller keeps all of them alive for as long as it
    calls it.

    Words in one place after the other are read far faster than objects are asked: most of the time
    these are in no cache of the processor any more.
    """
    read = _words(dicts, objects) if _counts(_words) else None
    return read or _asked(dicts, objects)


@functools.cache
def writes_are_counted() -> bool:
    """Whether this Python tells that a dict was written: 3.13.0 does not count attributes that are
    assigned."""
    return _counts(_words) or _counts(_asked)


def writes_are_counted_in_memory() -> bool:
    """Whether the counts can be read from memory, all of them in one go: 3.14 has none there."""
    return _counts(_words)


def full_collections_are_told() -> bool:
    """Whether `gc.callbacks` hear of generation 2 when all objects were looked at, also if nobody
    asked for it. Without the global lock all automatic collections are of everything and say 0;
    those of 3.14.0 to 3.14.4 go on from where the last one stopped and say 1."""
    free_threaded = bool(sysconfig.get_config_var("Py_GIL_DISABLED"))
    return not free_threaded and not (3, 14) <= sys.version_info[:3] < (3, 14, 5)


def _asked(dicts: Sequence[Any], objects: Sequence[Any]) -> Callable[[], Any]:
    from .torch import dict_version

    own = operator.attrgetter("__dict__")
    return lambda: (
        list(map(dict_version, dicts)),
        list(map(type, objects)),
        list(map(id, map(own, objects))),
    )


def _words(dicts: Sequence[Any], objects: Sequence[Any]) -> Callable[[], bytes] | None:
    """The same from memory; None where an object keeps its dict somewhere else."""
    take = numpy.asarray(_Memory()).take
    addresses = [id(d) + _VERSION for d in dicts] + [id(each) + _TYPE for each in objects]
    for each in objects:
        places = [(id(each) + offset - _BASE) // 8 for offset in _DICT]
        found = take(places).tolist()
        if id(each.__dict__) not in found:
            return None
        addresses.append(id(each) + _DICT[found.index(id(each.__dict__))])
    where = numpy.array([(at - _BASE) // 8 for at in addresses], dtype=numpy.int64)
    return lambda: take(where).tobytes()


@functools.cache
def _counts(stamp: Callable[..., Callable[[], Any] | None]) -> bool:
    """Whether such a stamp changes at each write; the words are where CPython 3.11 to 3.13 have
    them, and 3.14 has none."""

    class Other:
        pass

    class Probe:
        def set(self, value: int) -> None:
            self.value = value

    probe = Probe()
    inside = probe.__dict__
    if stamp is _words and not _has_words(probe, inside):
        return False
    read = stamp([inside], [probe])
    if read is None:
        return False
    before = read()
    writes: list[Callable[[], object]] = [partial(probe.set, i) for i in range(100)]
    writes += [
        partial(inside.update, value=1),
        partial(setattr, probe, "other", 2),
        partial(delattr, probe, "other"),
        partial(inside.pop, "value"),
        partial(setattr, probe, "__class__", Other),
        partial(setattr, probe, "__dict__", {"value": 3}),
    ]
    for write in writes:
        write()
        now = read()
        if now == before or now != read():
            return False
        before = now
    return True


def _has_words(*objects: object) -> bool:
    return (
        sys.implementation.name == "cpython"
        and sys.version_info < (3, 14)
        and sys.maxsize > 1 << 62
        and sys.byteorder == "little"
        and all(id(each) < 1 << 47 for each in objects)
    )

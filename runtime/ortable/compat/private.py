"""Names that a library does not promise: the object itself, or, where the installed version has
none, a stand-in that says so when it is used."""

from __future__ import annotations

import importlib
import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Literal, NoReturn

from ortable.errors import VersionError

from .versions import TESTED, installed


@dataclass(frozen=True)
class Private:
    """One name: ``module:attribute``, or a module alone; what kind of thing it is; and what ortable
    uses it to do. The tested versions all have it, but for those that ``versions`` leaves out."""

    path: str
    kind: Literal["class", "function", "mapping", "module", "value"]
    serves: str
    versions: str = "all"

    @property
    def library(self) -> str:
        """The library that has it."""
        return self.path.partition(":")[0].partition(".")[0]


def missing(library: str, path: str, serves: str) -> VersionError:
    """The error for a name that the installed version of a library does not have."""
    tested = ", ".join(TESTED[library])
    return VersionError(
        f"{library} {installed(library)} has no {path.replace(':', '.')}, which ortable uses to "
        f"{serves}. ortable is tested with {library} {tested}: install one of these, or a newer "
        "ortable."
    )


class Missing:
    """Stands where a name was: whatever is done with it raises the error."""

    def __init__(self, error: VersionError) -> None:
        object.__setattr__(self, "_error", error)

    def _fail(self, *args: Any, **kwargs: Any) -> NoReturn:
        raise object.__getattribute__(self, "_error")

    __call__ = __enter__ = __exit__ = __getattr__ = __instancecheck__ = __subclasscheck__ = _fail
    __contains__ = __getitem__ = __iter__ = __len__ = __mro_entries__ = __or__ = __ror__ = _fail


def resolve(entry: Private) -> Any:
    """The object, or a stand-in where there is none."""
    module, _, attribute = entry.path.partition(":")
    try:
        found: Any = importlib.import_module(module)
        return getattr(found, attribute) if attribute else found
    except (ImportError, AttributeError) as cause:
        error = missing(entry.library, entry.path, entry.serves)
        error.__cause__ = cause
        return Missing(error)


def looked_up(module: str, names: Mapping[str, Private]) -> Callable[[str], Any]:
    """The ``__getattr__`` of a module whose names are those of a table: each is resolved when it is
    first asked for, and is an attribute of the module from then on. One that is missing is looked
    for again: another thread may be importing the library, and Python shows a part of it then."""

    def find(name: str) -> Any:
        entry = names.get(name)
        if entry is None:
            raise AttributeError(f"module {module!r} has no attribute {name!r}")
        found = resolve(entry)
        if type(found) is not Missing:
            vars(sys.modules[module])[name] = found
        return found

    return find

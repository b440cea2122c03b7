"""Resolve private names of libraries.

A name that the installed version lacks becomes a placeholder that raises an error on use.
"""

from __future__ import annotations

import importlib
import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Literal, NoReturn

from ortable.errors import VersionError

from .versions import TESTED, installed_version


@dataclass(frozen=True)
class PrivateName:
    """A private name of a library.

    ``path`` is ``module:attribute`` or a module; ``purpose`` is the purpose for which ortable uses
    it, as a verb phrase for messages. Every tested version has the name, unless ``versions``
    excludes it.
    """

    path: str
    kind: Literal["class", "function", "mapping", "module", "value"]
    purpose: str
    versions: str = "all"

    @property
    def library(self) -> str:
        """The library that defines the name."""
        return self.path.partition(":")[0].partition(".")[0]


def missing_name_error(library: str, path: str, purpose: str) -> VersionError:
    """Return the error for a name that the installed version of a library does not have."""
    tested = ", ".join(TESTED[library])
    return VersionError(
        f"{library} {installed_version(library)} has no {path.replace(':', '.')}, which "
        f"ortable uses to {purpose}. ortable is tested with {library} {tested}: install one of "
        "these, or a newer ortable."
    )


class MissingName:
    """Placeholder of a name that a library lacks; every use raises the error."""

    def __init__(self, error: VersionError) -> None:
        object.__setattr__(self, "_error", error)

    def _raise_error(self, *args: Any, **kwargs: Any) -> NoReturn:
        raise object.__getattribute__(self, "_error")

    __call__ = __enter__ = __exit__ = __getattr__ = __instancecheck__ = __subclasscheck__ = (
        _raise_error
    )
    __contains__ = __getitem__ = __iter__ = __len__ = __mro_entries__ = __or__ = __ror__ = (
        _raise_error
    )


def resolve_name(private_name: PrivateName) -> Any:
    """Return the object that has the name, or a `MissingName` if the library lacks it."""
    module, _, attribute = private_name.path.partition(":")
    try:
        target: Any = importlib.import_module(module)
        return getattr(target, attribute) if attribute else target
    except (ImportError, AttributeError) as cause:
        error = missing_name_error(private_name.library, private_name.path, private_name.purpose)
        error.__cause__ = cause
        return MissingName(error)


def module_getattr(module: str, names: Mapping[str, PrivateName]) -> Callable[[str], Any]:
    """Make the ``__getattr__`` of a module that resolves the names of a table.

    A name is resolved on first use, and then becomes an attribute of the module. A missing name is
    looked up again each time: another thread may be importing the library, and a partly imported
    module lacks names.
    """

    def find_name(name: str) -> Any:
        private_name = names.get(name)
        if private_name is None:
            raise AttributeError(f"module {module!r} has no attribute {name!r}")
        value = resolve_name(private_name)
        if type(value) is not MissingName:
            vars(sys.modules[module])[name] = value
        return value

    return find_name

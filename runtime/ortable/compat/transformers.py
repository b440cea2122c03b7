"""The model classes of transformers for a task."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ortable.errors import VersionError

_TABLE = "_model_mapping"


def is_automatic(kind: Any) -> bool:
    """Whether a class selects among others by the configuration."""
    return hasattr(kind, _TABLE)


def models_of(automatic: Any) -> Mapping[type, Any]:
    """Map configuration classes to the model class, or several.

    Raises VersionError if this version of transformers stores its table elsewhere.
    """
    table: Mapping[type, Any] | None = getattr(automatic, _TABLE, None)
    if table is None:
        raise VersionError(
            f"this version of transformers has no {automatic.__name__}.{_TABLE}, by which the "
            "shell finds the class of a task: name the class in place of the folder"
        )
    return table

"""Find the model class to which an Auto class of transformers maps a configuration."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ortable.errors import VersionError

_MAPPING_ATTRIBUTE = "_model_mapping"


def is_automatic(model_class: Any) -> bool:
    """Whether a class is an Auto class, which selects a model class by configuration."""
    return hasattr(model_class, _MAPPING_ATTRIBUTE)


def models_of(auto_class: Any) -> Mapping[type, Any]:
    """Return the Auto class's mapping from a configuration class to one or several model classes.

    Raises:
        VersionError: this version of transformers stores the mapping elsewhere.
    """
    mapping: Mapping[type, Any] | None = getattr(auto_class, _MAPPING_ATTRIBUTE, None)
    if mapping is None:
        raise VersionError(
            f"this version of transformers has no {auto_class.__name__}.{_MAPPING_ATTRIBUTE}, "
            "which the command line reads to find the model class: pass a class name, not a folder"
        )
    return mapping

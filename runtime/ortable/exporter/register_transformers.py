"""register_transformers: transformers' own exporters find ortable. Called by users; it is here, and
not beside the backend itself, so that transformers is imported by the call and not before."""

from __future__ import annotations

import importlib.util

from ortable.errors import VersionError

_NEEDED = (
    "the registry of exporters of transformers, transformers.exporters.register_backend, is what "
    'ortable.register_transformers() enters ortable in: pip install -U "transformers>=5.23"'
)


def register_transformers() -> None:
    """Register ortable with transformers as the export format ``"ortable"``.

    Afterwards ``AutoHfExporter.from_config({"export_format": "ortable"})`` is an exporter, and
    ``ExportedModel.from_pretrained`` loads and runs what it saved. Calling it again does nothing.

    Raises:
        VersionError: transformers is not installed, or has no registry of exporters.
    """
    if importlib.util.find_spec("transformers") is None:
        raise VersionError(f"transformers is not installed; {_NEEDED}")
    try:
        from .transformers_backend import register_ortable
    except ImportError as error:
        raise VersionError(f"{error}; {_NEEDED}") from error
    register_ortable()

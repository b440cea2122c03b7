"""Register ortable with the exporters of transformers.

`register_transformers` is not in `transformers_backend.py`, because importing that file imports
transformers.
"""

from __future__ import annotations

import importlib.util

from ortable.errors import VersionError

_REQUIREMENT = (
    "ortable.register_transformers() needs transformers.exporters.register_backend: "
    'pip install -U "transformers>=5.23"'
)


def register_transformers() -> None:
    """Register ortable with transformers as the export format ``"ortable"``.

    Afterwards ``AutoHfExporter.from_config({"export_format": "ortable"})`` is an exporter, and
    ``ExportedModel.from_pretrained`` loads and runs what the exporter saved. Further calls of
    this function do nothing.

    Raises:
        VersionError: transformers is not installed, or has no registry of exporters.
    """
    if importlib.util.find_spec("transformers") is None:
        raise VersionError(f"transformers is not installed; {_REQUIREMENT}")
    try:
        from .transformers_backend import register_ortable
    except ImportError as error:
        raise VersionError(f"{error}; {_REQUIREMENT}") from error
    register_ortable()

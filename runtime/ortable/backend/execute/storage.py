"""Records of what was compiled: one per graph, in a dict of the caller or in files.
Calls of the compiled graph never touch them."""

from __future__ import annotations

import itertools
from collections.abc import MutableMapping
from pathlib import Path
from typing import Any

from onnx import ModelProto, printer

__all__ = ["dump_model", "store"]

_numbers = itertools.count()


def store(storage: MutableMapping[str, Any] | None, record: dict[str, Any]) -> None:
    """Appends `record` to `storage["instance"]`; nothing when `storage` is None."""
    if storage is not None:
        storage.setdefault("instance", []).append(record)


def dump_model(prefix: str | None, model: ModelProto, graph_text: str) -> Path | None:
    """Writes `<prefix>_<n>.onnx` and `<prefix>_<n>.txt` (the FX graph, then the ONNX graph).

    `n` counts the models dumped by this process.  The folder is created.  Returns the path of the
    model, None when there is no prefix.
    """
    if prefix is None:
        return None
    number = next(_numbers)
    path = Path(f"{prefix}_{number}.onnx")
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(model.SerializeToString())
    path.with_suffix(".txt").write_text(f"{graph_text}\n\n{printer.to_text(model)}\n")
    return path

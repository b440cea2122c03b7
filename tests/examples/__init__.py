"""Tests of the runnable examples of the documentation."""

from __future__ import annotations

import functools
import importlib.util
import sys
from pathlib import Path
from types import ModuleType

EXAMPLES = Path(__file__).parents[2] / "examples"


@functools.cache  # scripts that register an operator with torch may run only once
def script(name: str) -> ModuleType:
    """Import a script of examples/ under its name, by which dynamo imports it again."""
    spec = importlib.util.spec_from_file_location(Path(name).name, EXAMPLES / f"{name}.py")
    assert spec is not None and spec.loader is not None
    module = sys.modules[spec.name] = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module

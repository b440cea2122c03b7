"""Importing the package or the builder does not load torch; public names resolve lazily."""

from __future__ import annotations

import subprocess
import sys

import pytest

import ortable


@pytest.mark.parametrize("statement", ["import ortable", "from ortable import GraphBuilder"])
def test_import_does_not_load_torch(statement):
    code = f"import sys; {statement}; print('torch' in sys.modules, 'sympy' in sys.modules)"
    path = [entry for entry in sys.path if entry]
    completed = subprocess.run(
        [sys.executable, "-c", f"import sys; sys.path[:0] = {path!r}; {code}"],
        capture_output=True,
        text=True,
        check=True,
    )
    assert completed.stdout.strip() == "False False"


def test_unknown_names_are_attribute_errors():
    with pytest.raises(AttributeError, match="module 'ortable' has no attribute 'nothing'"):
        _ = ortable.nothing
    assert "GraphBuilder" in dir(ortable)
    assert set(ortable.__all__) <= set(dir(ortable))

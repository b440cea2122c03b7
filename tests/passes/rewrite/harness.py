"""The rewrites of the specs with their cases, for the tests of this folder; what tries a rule on a
case is shipped with the package (`ortable.debug.harness`), since users try theirs with it."""

from __future__ import annotations

from functools import cache
from pathlib import Path

from ortable_generated.onnx.traits import BY_TRAIT
from ortablegen.rewrites.model import Rewrite
from ortablegen.rewrites.read import read_rewrites
from ortablegen.source.diagnostics import Diagnostics, SpecErrors

ROOT = Path(__file__).parents[3]
FOLDER = ROOT / "specs" / "rewrites"


@cache
def all_rewrites() -> tuple[Rewrite, ...]:
    """Every rewrite of the specs, read as codegen reads them."""
    diagnostics = Diagnostics()
    found = read_rewrites(FOLDER, ROOT, diagnostics, BY_TRAIT)
    if diagnostics.errors:
        raise SpecErrors(diagnostics)
    return found

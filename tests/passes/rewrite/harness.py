"""The packaged rewrites with their samples, for the tests of this folder.

`ortable.testing`, which is part of the package, tries a rule on a sample.
"""

from __future__ import annotations

from functools import cache
from pathlib import Path
from typing import Any

from ortable.builder import GraphBuilder
from ortable.ir.local_functions import _value_key
from ortable_generated.onnx.traits import BY_TRAIT
from ortablegen.rewrites.model import Rewrite
from ortablegen.rewrites.read import read_rewrites
from ortablegen.source.diagnostics import Diagnostics, SpecErrors

ROOT = Path(__file__).parents[3]
FOLDER = ROOT / "specs" / "rewrites"


@cache
def all_rewrites() -> tuple[Rewrite, ...]:
    """Return every rewrite of the specs, parsed as in code generation."""
    diagnostics = Diagnostics()
    rewrites = read_rewrites(FOLDER, ROOT, diagnostics, BY_TRAIT)
    if diagnostics.errors:
        raise SpecErrors(diagnostics)
    return rewrites


def shape_of_graph(builder: GraphBuilder) -> tuple[Any, ...]:
    """Return a structural key of the outputs that ignores the names of results and nodes."""
    keys: dict[str, Any] = {"": None}
    for info in builder.inputs:
        keys[info.name] = ("input", info.name)
    for name, value in builder.initializers_dict.items():
        keys[name] = ("constant", _value_key(value))
    for node in builder.nodes:
        inputs = tuple(keys[name] for name in node.inputs)
        attrs = tuple(sorted((key, repr(value)) for key, value in node.attrs.items()))
        for index, name in enumerate(node.outputs):
            keys[name] = hash((node.key, inputs, attrs, index))
    return tuple(keys[info.name] for info in builder.outputs)

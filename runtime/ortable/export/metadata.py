"""What a model says about itself: the versions that made it, what torch did to the graph first, and
the state_dict name of each weight (the names of initializers are those of torch.export's
placeholders)."""

from __future__ import annotations

from typing import Any

import torch

from .program import Program


def annotate(model: Any, program: Program) -> None:
    """Write ``metadata_props`` and producer of a ModelProto or LargeModel, and the doc_string of
    its initializers.

    Keys: ``ortable.version``, ``torch.version``, ``ortable.steps`` (absent when torch did nothing
    to the graph).
    """
    from .. import __version__

    proto = model.proto if hasattr(model, "proto") else model
    for value in proto.graph.input if program.fakes else ():
        value.doc_string = ", ".join(program.fakes.get(value.name, ()))
    proto.producer_name = "ortable"
    proto.producer_version = __version__
    properties = {"ortable.version": __version__, "torch.version": torch.__version__}
    if program.notes:
        properties["ortable.steps"] = "; ".join(program.notes)
    known = {prop.key for prop in proto.metadata_props}
    for key, value in properties.items():
        if key not in known:
            proto.metadata_props.add(key=key, value=value)
    for initializer in proto.graph.initializer:
        path = program.paths.get(initializer.name)
        if path is not None:
            initializer.doc_string = path

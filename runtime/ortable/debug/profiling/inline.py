"""Local functions of a model as plain nodes, each with the path of the module that it was called
for, and a name for every node. In comes a ModelProto, out goes another one that computes the same;
called by `models` before a session is made. ONNX Runtime inlines these functions itself, but then
equal modules, which share a function, have the names of the first."""

from __future__ import annotations

import onnx
import onnx.inliner
from onnx import FunctionProto, GraphProto, ModelProto, NodeProto

from ortable.ir.proto.trust import check_functions
from ortable.ir.proto.walk import nodes_below

PATH = "module_path"
RESULT = "ortable.profile.result"


def named_and_inlined(model: ModelProto) -> ModelProto:
    """The model with its modules' functions inlined and a name for every node; itself where there
    is nothing to do."""
    ours = [
        (f.domain, f.name) for f in model.functions if any(p.key == PATH for p in f.metadata_props)
    ]
    named = all(node.name for node, _ in nodes_below(model.graph))
    if not ours and named:
        return model
    check_functions(model)
    made = ModelProto()
    made.CopyFrom(model)
    if ours:
        special = _specialized(made, ours)
        made = onnx.inliner.inline_selected_functions(made, special, False)
        kept = [f for f in made.functions if (f.domain, f.name) not in ours]
        del made.functions[:]
        made.functions.extend(kept)
    for number, (node, _) in enumerate(nodes_below(made.graph)):
        node.name = node.name or f"{node.op_type}_{number}"
    return made


def _specialized(model: ModelProto, ours: list[tuple[str, str]]) -> list[tuple[str, str]]:
    """Gives the model, in place, a function for each call of those that are ours; their names."""
    special: list[tuple[str, str]] = []
    known = {(f.domain, f.name): f for f in model.functions if (f.domain, f.name) in ours}

    def call(node: NodeProto, path: str) -> None:
        function = known.get((node.domain, node.op_type))
        if function is None:
            return
        made = FunctionProto()
        made.CopyFrom(function)
        made.name = f"{function.name}__call_{len(special)}"
        special.append((made.domain, made.name))
        node.op_type = made.name
        home = _path(function)
        graph = GraphProto()
        graph.node.extend(made.node)
        for inner, _ in nodes_below(graph):
            moved = _moved(_path(inner), home, path)
            _set_path(inner, moved)
            # Inlining renames results; pictures name those of a call after its module.
            name = next(filter(None, inner.output), "")
            inner.metadata_props.add(key=RESULT, value=f"{path}/{name}" if path else name)
            call(inner, moved)
        del made.node[:]
        made.node.extend(graph.node)
        model.functions.append(made)

    for node, _ in list(nodes_below(model.graph)):
        call(node, _path(node))
    return special


def _moved(path: str, home: str, to: str) -> str:
    """A path below one module as the same path below another."""
    if path != home and not path.startswith(f"{home}."):
        return path or to
    return to + path[len(home) :]


def _path(about: NodeProto | FunctionProto) -> str:
    return next((prop.value for prop in about.metadata_props if prop.key == PATH), "")


def _set_path(node: NodeProto, path: str) -> None:
    for prop in node.metadata_props:
        if prop.key == PATH:
            prop.value = path
            return
    if path:
        node.metadata_props.add(key=PATH, value=path)

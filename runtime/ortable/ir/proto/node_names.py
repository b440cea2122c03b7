"""Names of the nodes that a model is written with: path of the torch module, then the result that
the node computes (``layers.0.fc1/linear``, ``layers.0.fc1/linear.matmul``). In comes a graph, whose
nodes are changed in place; called by `write_model` and `function_protos`."""

from __future__ import annotations

from ortable.ir.captures import inner_graphs
from ortable.ir.node import Node
from ortable.ir.origins import Rewritten, stem
from ortable.ir.state import GraphState


def name_nodes(graph: GraphState, within: str = "") -> None:
    """Names the nodes that were made for an FX node, here and in the graphs inside nodes. A name
    that somebody chose stays. ``within``: the module whose body this is; paths start there."""
    read = graph.origin_metadata
    declared = {info.name for info in graph.outputs}
    for node in graph.nodes:
        for inner in inner_graphs(node) if node.attrs else ():
            name_nodes(inner, within)
        made_for = node.origin.original() if isinstance(node.origin, Rewritten) else node.origin
        source = None if made_for is None else stem(made_for)
        if source is None or not _is_automatic(node):
            continue
        if isinstance(made_for, dict):
            about = made_for
        else:
            about = {} if read is None else read(made_for)
        label = next((name for name in node.outputs if name), source)
        if label in declared:
            label = source
        path = about.get("module_path", "")
        if within and path.startswith(within):
            path = path[len(within) :].lstrip(".")
        node.name = graph.node_names.unique(f"{path}/{label}" if path else label)


def _is_automatic(node: Node) -> bool:
    rest = node.name.removeprefix(node.op_type)
    return not rest or (rest.isdecimal() and rest != node.name)

"""The forward graph that AOTAutograd makes for training without what it saves for the backward:
the graph for inference. In comes a GraphModule of kind "forward", out comes another one of kind
"inference" with the same arguments; called by `forward_only`."""

from __future__ import annotations

from typing import Any

from torch.fx import Graph, GraphModule, Node

__all__ = ["guards_of", "inference_form"]


def inference_form(graph_module: GraphModule, count: int) -> GraphModule:
    """A graph with the first `count` results of a forward graph, and what they depend on; the graph
    itself stays as it is."""
    graph = Graph()
    copies: dict[Node, Node] = {}
    output = graph_module.graph.output_node()
    for node in graph_module.graph.nodes:
        if node.op == "placeholder":
            # AOTAutograd's names of arguments tell a forward graph, too
            copies[node] = graph.placeholder(f"argument_{len(copies)}")
            copies[node].meta = dict(node.meta)
        elif node is not output:
            copies[node] = graph.node_copy(node, lambda each: copies[each])
    results = output.args[0]
    assert isinstance(results, list | tuple)
    kept = [copies[each] if isinstance(each, Node) else each for each in results[:count]]
    made = graph.output(tuple(kept))
    made.meta = dict(output.meta)
    described = output.meta.get("desc")
    if isinstance(described, list | tuple):
        made.meta["desc"] = list(described)[:count]
    graph.eliminate_dead_code()
    return GraphModule(graph_module, graph)


def guards_of(graph_module: GraphModule) -> int:
    """How many guards stand on the sizes of a graph: those that come after its compilation are
    checked by nobody."""
    found: dict[int, int] = {}
    for node in graph_module.graph.nodes:
        for size in _sizes(node.meta.get("val")):
            env = size.node.shape_env
            if env is not None:
                found[id(env)] = len(env.guards) + len(env.replacements)
    return sum(found.values())


def _sizes(value: Any) -> list[Any]:
    if hasattr(value, "node"):
        return [value]
    return [size for size in getattr(value, "shape", ()) if hasattr(size, "node")]

"""Give results the torch names of the results that they replaced.

A result that has a torch name already keeps it. The passes record replacements in
`Graph.successors`; `pipeline` calls `inherit_names`.
"""

from __future__ import annotations

from ortable.ir import Graph, editing
from ortable.ir.captures import captured_by_protos, inner_graphs
from ortable.ir.node import fx_node_name


def inherit_names(graph: Graph) -> None:
    """Replace automatic names by the names of the replaced results, also in subgraphs."""
    for node in graph.nodes:
        for inner in inner_graphs(node) if node.attrs else ():
            inherit_names(inner)
    if not graph.successors:
        return
    protected_names = {info.name for info in graph.outputs} | captured_by_protos(graph.nodes)
    new_names: dict[str, str] = {}
    for replaced in graph.successors:
        if "." in replaced or replaced.startswith("_onx_") or replaced in graph.values:
            continue  # not a name of torch, or the result still exists
        current = _final_name(graph.successors, replaced)
        if (
            current not in protected_names
            and current not in new_names
            and _is_automatic(graph, current)
        ):
            new_names[current] = replaced
    graph.successors.clear()
    if new_names:
        editing.rename_results(graph, new_names)


def _final_name(successors: dict[str, str], name: str) -> str:
    """Return the result at the end of the chain of replacements."""
    seen = {name}
    while name in successors:
        name = successors[name]
        if name in seen:
            break
        seen.add(name)
    return name


def _is_automatic(graph: Graph, name: str) -> bool:
    """Whether a result of this graph has a name that derives from the FX node of its producer."""
    if not graph.is_own(name) or "." not in name:
        return False
    producer = graph.values[name].producer
    origin = None if producer is None else fx_node_name(producer.origin)
    return origin is not None and name.startswith(f"{origin}.")

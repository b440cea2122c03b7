"""Control flow whose graphs write into their operands: AOTAutograd wraps it in
``auto_functionalized_v2``, and each graph ends in ``copy_`` into its own inputs. Here it becomes
the same control flow with graphs that return what they would have written."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch.fx import Graph, GraphModule, Node

from ortable.errors import UnsupportedCase
from ortable.interpreter.outputs import flatten_output

WRAPPER = "auto_functionalized_v2"


def is_wrapped(args: Sequence[Any]) -> bool:
    """Whether the first argument of the wrapper is control flow that ``functional_call`` knows."""
    return isinstance(args[0], torch._ops.HigherOrderOperator) and args[0].name() in _CALLS


def functional_call(args: Sequence[Any], arguments: dict[str, Any]) -> tuple[str, list[Any]]:
    """Name and arguments of the control flow that returns its own results, then the new values of
    ``_all_bases``.

    Raises UnsupportedCase when a graph writes into a view, or into a carry of a loop.
    """
    name = args[0].name()
    return name, _CALLS[name](arguments)


def holds_writes(node: Node) -> bool:
    """Whether a graph that ``node`` names belongs to wrapped control flow only: its ``copy_`` are
    results."""
    users = list(node.users)
    return bool(users) and all(
        getattr(user.target, "__name__", "") == WRAPPER
        and isinstance(user.args[0], torch._ops.HigherOrderOperator)
        for user in users
    )


def _cond(arguments: dict[str, Any]) -> list[Any]:
    operands, places = _operands(arguments, "operand")
    kept = range(len(operands))
    branches = [
        _returning(arguments[key], kept, [places[base] for base in sorted(places)])
        for key in ("true_fn", "false_fn")
    ]
    return [arguments["pred"], *branches, operands]


def _while_loop(arguments: dict[str, Any]) -> list[Any]:
    carried, written = _operands(arguments, "carried_input")
    if written:
        raise UnsupportedCase(
            "the body of a while_loop writes into a carried tensor: return the new value instead"
        )
    captured, places = _operands(arguments, "additional_input")
    mutated = [places[base] for base in sorted(places)]
    read = [place for place in range(len(captured)) if place not in mutated]
    inputs = [*range(len(carried)), *(len(carried) + place for place in [*mutated, *read])]
    condition = _returning(arguments["cond_fn"], inputs, [])
    body = _returning(arguments["body_fn"], inputs, [len(carried) + place for place in mutated])
    both = [[captured[place] for place in places] for places in (mutated, read)]
    return [condition, body, [*carried, *both[0]], both[1]]


_CALLS = {"cond": _cond, "while_loop": _while_loop}


def _operands(arguments: dict[str, Any], word: str) -> tuple[list[Any], dict[int, int]]:
    """The operands called ``word0``, ``word1``..., and the place of each written one by the index
    of its base."""
    operands: list[Any] = []
    places: dict[int, int] = {}
    bases = arguments["_all_bases"]
    while True:
        name = f"{word}{len(operands)}"
        base = arguments.get(f"_{name}_base_index")
        if base is not None:
            view = any(f"_{name}_{kind}" in arguments for kind in ("slice_dim", "storage_offset"))
            if view or base in places:
                raise UnsupportedCase(
                    "a branch or a body writes into a view of a tensor: write into the whole "
                    "tensor, or return the new value"
                )
            places[base] = len(operands)
            operands.append(bases[base])
        elif name in arguments:
            operands.append(arguments[name])
        else:
            return operands, places


def _returning(
    graph_module: GraphModule, inputs: Sequence[int], written: Sequence[int]
) -> GraphModule:
    """A copy of a graph with its inputs in another order, which returns the last values of the
    inputs ``written`` after its own results."""
    graph = Graph()
    nodes = list(graph_module.graph.nodes)
    given = [node for node in nodes if node.op == "placeholder"]
    known = {given[place]: graph.node_copy(given[place]) for place in inputs}
    last: dict[Node, Node] = {}
    for node in nodes:
        if node.target is torch.ops.aten.copy_.default and node.args[0] in given:
            last[node.args[0]] = known[node.args[1]]
        elif node.op == "output":
            leaves = [known.get(leaf, leaf) for leaf in flatten_output(node.args[0])]
            finals = [last.get(given[place], known[given[place]]) for place in written]
            graph.output((*leaves, *finals))
        elif node.op != "placeholder":
            known[node] = graph.node_copy(node, known.__getitem__)
    return GraphModule(graph_module, graph)

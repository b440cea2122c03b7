"""Partitions that are not worth a session: a few cheap operators between operators that the table
places in torch. They join these, which saves two changes of side and loses nothing. In come an
AotGraph and what torch runs of it, out comes what torch runs then; called by `aot.build`."""

from __future__ import annotations

import operator
from collections.abc import Mapping

from torch.fx import Node

from ortable.backend.lower.aot_graph import AotGraph
from ortable.backend.lower.work import LONG, MANY, count_small, operator_name, products_of
from ortable_generated.aten import traits

from .partition import Partition, partition_graph
from .placement import is_draw, is_placed_by_choice, mixes_dtypes

_LONG_AMONG_MANY = 2e8  # as LONG, for one of many partitions
_FEW = 2
_WHY = "too little between operators that run in torch to be worth a session"


def absorb_small_partitions(
    graph: AotGraph, in_torch: Mapping[Node, str], everywhere: bool = False
) -> dict[Node, str]:
    """`in_torch` with the partitions that are too small, and the reason.

    Only neighbours of operators that torch runs because it is faster, unless `everywhere`: around
    those that it must run the user wants sessions, and around draws, too.  Partitions merge and
    vanish as nodes change sides, so this repeats until nothing changes; each round takes at least
    one partition away.
    """
    found = dict(in_torch)
    faster = {
        node for node in found if not is_draw(node) and (everywhere or is_placed_by_choice(node))
    }
    trains = graph.kind != "inference" and graph.device == "cpu"
    chosen = {node for node in faster if is_placed_by_choice(node)} if trains else set()
    while faster:
        small: set[Node] = set()
        partitions = partition_graph(graph, found).partitions
        enough = LONG if len(partitions) <= _FEW else _LONG_AMONG_MANY
        for each in partitions:
            trained = _is_beside(each, chosen)
            if _is_beside(each, faster) and not _is_worth_a_session(each, trained, enough):
                small.update(each.nodes)
                chosen.update(each.nodes if trained else ())
        if not small:
            break
        found.update(dict.fromkeys(small, _WHY))
        faster.update(small)
    return found


def _is_beside(partition: Partition, faster: set[Node]) -> bool:
    """Whether one of `faster` gives something to a partition, or takes something from it."""
    ends = [n for node in (*partition.inputs, *partition.outputs) for n in (node, *node.users)]
    sources = [node.args[0] for node in partition.inputs if node.target is operator.getitem]
    return not faster.isdisjoint([*ends, *(n for n in sources if isinstance(n, Node))])


def _is_worth_a_session(partition: Partition, trains: bool, enough: float) -> bool:
    """Whether a partition has a heavy operator, or many small ones, or something that torch cannot
    run from a graph of AOTAutograd as it stands there. Where it trains, its products must be worth
    that the threads of both libraries wait for each other at its ends."""
    names = [operator_name(node) for node in partition.nodes]
    if "" in names or any("drawn" in n.kwargs or mixes_dtypes(n) for n in partition.nodes):
        return True
    if trains:
        return products_of(partition.nodes) > enough
    if not traits.HEAVY.isdisjoint(names):
        return True
    return count_small(names) > MANY

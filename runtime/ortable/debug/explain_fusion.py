"""What ONNX Runtime made of a graph: which nodes became which, and which are gone. In come a model
and the one that a session wrote after optimizing it; called by `explain`.

Both are cut at the values that have the same name in both. What lies between two cuts in the one
became what lies there in the other."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass

from onnx import ModelProto, NodeProto

from ortable.ir.proto.walk import nodes_between

_NCHWC = "com.microsoft.nchwc"


@dataclass(frozen=True)
class Fusion:
    """Nodes of the ONNX graph that ONNX Runtime replaced: the operators of `before` by those of
    `after`, `times` times, for these `lines` of the model."""

    before: tuple[str, ...]
    after: tuple[str, ...]
    times: int
    lines: tuple[str, ...]

    def __str__(self) -> str:
        where = f" (at {self.lines[0]}" if self.lines else ""
        more = f" and {len(self.lines) - 1} more lines" if len(self.lines) > 1 else ""
        times = "" if self.times == 1 else f", {self.times} times"
        return f"{_sum(self.before)} became {_sum(self.after)}{times}{where}{more}" + (
            ")" if where else ""
        )


def fusions_of(before: ModelProto, after: ModelProto) -> tuple[list[Fusion], Counter[str]]:
    """What became of what, most frequent first, and the operators of nodes that are gone: computed
    once for all as constants, or without effect."""
    made = {name: node for node in before.graph.node for name in node.output if name}
    shared = {name for node in after.graph.node for name in node.output} & made.keys()
    shared |= {value.name for value in before.graph.input}
    found: dict[tuple[tuple[str, ...], tuple[str, ...]], list[str]] = {}
    removed: Counter[str] = Counter()
    gone = {id(node): node for node in before.graph.node}
    for region in _regions(after, shared):
        old = nodes_between(
            [n for node in region for n in node.output if n in shared], made, shared
        )
        old = [node for node in old if gone.pop(id(node), None) is not None]
        names = tuple(map(_name, old)), tuple(map(_name, region))
        kept = Counter(names[1])
        if kept <= Counter(names[0]):  # the same nodes, without what was constant among them
            removed += Counter(names[0]) - kept
        elif old:
            found.setdefault(names, []).append(_line(old))
    rows = [
        Fusion(names[0], names[1], len(lines), tuple(dict.fromkeys(filter(None, lines))))
        for names, lines in found.items()
    ]
    removed.update(_name(node) for node in gone.values())
    return sorted(rows, key=lambda row: -row.times), removed


def _regions(model: ModelProto, shared: set[str]) -> list[list[NodeProto]]:
    """The nodes in groups that are joined by values of names of their own."""
    groups: dict[int, list[NodeProto]] = {}
    of_value: dict[str, int] = {}
    for number, node in enumerate(model.graph.node):
        joined = {of_value[name] for name in node.input if name in of_value}
        members = [each for group in sorted(joined) for each in groups.pop(group)]
        groups[number] = [*members, node]
        for name, group in of_value.items():
            if group in joined:
                of_value[name] = number
        of_value.update({name: number for name in node.output if name and name not in shared})
    return list(groups.values())


def _name(node: NodeProto) -> str:
    return f"nchwc.{node.op_type}" if node.domain == _NCHWC else node.op_type


def _line(nodes: Iterable[NodeProto]) -> str:
    """The line of the model that the first of the nodes which has one stands for."""
    for node in nodes:
        for prop in node.metadata_props:
            if prop.key == "source":
                return str(prop.value)
    return ""


def _sum(names: Iterable[str]) -> str:
    """``Gemm + Relu``, ``2 Conv + Relu``, ``nothing``."""
    counts = Counter(names)
    parts = [name if count == 1 else f"{count} {name}" for name, count in counts.items()]
    return " + ".join(parts) or "nothing"

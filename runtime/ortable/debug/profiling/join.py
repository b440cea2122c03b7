"""Kernels joined with what the graph says of its nodes. In come a model with `metadata_props` and
the one that a session made of it, out comes an Origin for each kernel: module, ATen operator and
source line. Called by `account`.

ONNX Runtime's optimizers rename, fuse and add nodes, and drop metadata. A node of the optimized
model stands for the nodes of ours that lie between what it computes and what other nodes compute:
it is known by the values that it computes, or by the name that it kept or was given after them."""

from __future__ import annotations

import os
import re
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from onnx import ModelProto, NodeProto

from ortable.compat.torch import higher_order_operators
from ortable.ir.pictures.modules import texts_in
from ortable.ir.proto.walk import nodes_below, nodes_between

from .inline import PATH, RESULT
from .report import shared_parts

ADDED = "added by ONNX Runtime"
UNKNOWN = "no ATen operator is known"
_EXPORTED = "_export_root"  # how torch.export calls what it traced a part of control flow from
_GLOBAL = re.compile(r"^G\['(\w+)'\]")  # how dynamo calls a module that is a global name
_CUT = re.compile(r"[^0-9A-Za-z]")
_MOST_LINES = 3  # of a fused node
_TORCH_ONNX = "pkg.torch.onnx."
_FRAME = re.compile(
    r'File "(?P<file>[^"]+)", line (?P<line>\d+), in [^\n]*\n[ \t]*(?P<code>[^\n]*)'
)
_IN_TORCH = re.compile(r"[/\\]site-packages[/\\]torch[/\\]")


@dataclass(frozen=True)
class Origin:
    """What a kernel was made for: the dotted path of a module, operators of torch, lines, and the
    first results of the nodes that it is named after, or of all that it stands for."""

    module: str = ""
    operator: str = UNKNOWN
    line: str = ""
    results: tuple[str, ...] = field(default=(), compare=False)


@dataclass(frozen=True, eq=False)
class _Node:
    """A node of our model, with what its metadata say."""

    proto: NodeProto
    module: str
    operator: str
    line: str
    result: str


def origins_of(
    before: ModelProto, after: ModelProto | None
) -> Callable[[str, str], tuple[str, Origin]]:
    """A function of a kernel's node name and its operator, which gives the operator with its domain
    and the origin.
    """
    ours = _Ours(before)
    known: dict[str, list[tuple[NodeProto, Origin]]] = defaultdict(list)
    if after is not None:
        for node, origin in _joined(ours, after):
            known[node.name].append((node, origin))

    def find(name: str, op_type: str) -> tuple[str, Origin]:
        for node, origin in known.get(name, ()):
            if node.op_type == op_type:
                foreign = node.domain not in ("", "ai.onnx")
                return f"{node.domain}.{op_type}" if foreign else op_type, origin
        found = ours.named(name)
        return op_type, ours.merged(found, op_type) if found else Origin(operator=ADDED)

    return find


class _Ours:
    """The nodes of our model, by name and by what they compute."""

    def __init__(self, model: ModelProto) -> None:
        self.made: dict[str, NodeProto] = {}
        self.names: dict[str, list[NodeProto]] = defaultdict(list)
        self.about: dict[int, _Node] = {}
        for proto, parent in nodes_below(model.graph):
            self.about[id(proto)] = _read(proto, self.about.get(id(parent)))
            self.names[proto.name].append(proto)
            for name in filter(None, proto.output):
                self.made.setdefault(name, proto)

    def base(self, name: str) -> str:
        """The node or value that a node of ONNX Runtime is called after; empty: none."""
        starts = [name, *(name[: cut.start()] for cut in reversed(list(_CUT.finditer(name))))]
        return next((each for each in starts if each in self.names or each in self.made), "")

    def named(self, name: str) -> list[NodeProto]:
        """The nodes that a name tells."""
        base = self.base(name)
        return self.names[base] if base in self.names else [self.made[base]] if base else []

    def computed(self, node: NodeProto) -> tuple[bool, list[str]]:
        """Values of our model that a node of the optimized one computes, and whether it has them
        from its name alone."""
        real = [name for name in node.output if name in self.made]
        if real:
            return False, real
        return True, [name for each in self.named(node.name) for name in each.output if name]

    def merged(self, protos: Sequence[NodeProto], op_type: str) -> Origin:
        """One origin for nodes that became one of this operator."""
        return _merged([self.about[id(proto)] for proto in protos], op_type)


def _read(proto: NodeProto, parent: _Node | None) -> _Node:
    about = {prop.key: prop.value for prop in proto.metadata_props}
    path, target, line = _told(about)
    path = _GLOBAL.sub(r"\1", path)
    if path == _EXPORTED or path.startswith(f"{_EXPORTED}."):
        path = path[len(_EXPORTED) + 1 :]
    operator = _operator(target)
    if parent is not None:  # a part of control flow
        path, operator = path or parent.module, operator or parent.operator
        line = line or parent.line
    result = about.get(RESULT) or next(filter(None, proto.output), "")
    return _Node(proto, path, operator, line, result)


def _operator(target: str) -> str:
    """``aten.add.Tensor`` as torch's schemas have it: ``aten::add.Tensor``; empty for an input."""
    if "." not in target:
        return target if target in higher_order_operators else ""
    space, _, rest = target.partition(".")
    name, _, overload = rest.partition(".")
    if not overload or space == "operator":
        return target
    return f"{space}::{name}" if overload == "default" else f"{space}::{name}.{overload}"


def _joined(ours: _Ours, after: ModelProto) -> Iterator[tuple[NodeProto, Origin]]:
    """The nodes that run, each with its origin."""
    nodes = [node for node, _ in nodes_below(after.graph)]
    computed = [ours.computed(node) for node in nodes]
    cut = {name for _, values in computed for name in values}
    # values that nodes are called after come first: a node behind them has the same ones
    order = sorted(range(len(nodes)), key=lambda number: not computed[number][0])
    claimed: set[int] = set()
    found: dict[int, Origin] = {}
    for number in order:
        old = nodes_between(computed[number][1], ours.made, cut)
        old = [node for node in old if id(node) not in claimed]
        claimed.update(map(id, old))
        if old:
            found[number] = ours.merged(old, nodes[number].op_type)
    _place_the_added(nodes, found)
    for number, node in enumerate(nodes):
        yield node, found.get(number, Origin(operator=ADDED))


def _place_the_added(nodes: Sequence[NodeProto], found: dict[int, Origin]) -> None:
    """Gives nodes that stand for none of ours the module around them: that of their neighbours."""
    maker = {name: number for number, node in enumerate(nodes) for name in node.output if name}
    readers: dict[str, list[int]] = defaultdict(list)
    for number, node in enumerate(nodes):
        for name in node.input:
            readers[name].append(number)
    wanting = [number for number in range(len(nodes)) if number not in found]
    while wanting:
        placed = {}
        for number in wanting:
            near = [maker[name] for name in nodes[number].input if name in maker]
            near += [each for name in nodes[number].output for each in readers[name]]
            modules = [found[each].module for each in near if each in found]
            if modules:
                placed[number] = Origin(common_module(modules), ADDED)
        if not placed:
            return
        found.update(placed)
        wanting = [number for number in wanting if number not in placed]


def _merged(nodes: Sequence[_Node], op_type: str) -> Origin:
    """One origin for nodes that became one of this operator: all operators of torch; module and
    line of those that the operator is named after ("Conv" in "FusedConv"), or of all."""
    told = [node for node in nodes if node.operator or node.line or node.module]
    main = [node for node in told if node.proto.op_type in op_type] or told
    operators = dict.fromkeys(node.operator for node in told if node.operator)
    lines = list(dict.fromkeys(node.line for node in main if node.line))
    named = [node for node in nodes if node.proto.op_type in op_type] or nodes
    return Origin(
        common_module([node.module for node in main]),
        " + ".join(operators) or UNKNOWN,
        lines[0] if len(lines) == 1 else _places(lines),
        tuple(node.result for node in named if node.proto.op_type != "Constant"),
    )


def _places(lines: Sequence[str]) -> str:
    """``net.py:3, net.py:4``: lines without their text."""
    places = list(dict.fromkeys(line.partition(": ")[0] for line in lines))
    more = f" and {len(places) - _MOST_LINES} more" if len(places) > _MOST_LINES else ""
    return ", ".join(places[:_MOST_LINES]) + more


def common_module(paths: Iterable[str]) -> str:
    """The innermost module that all paths are in; empty: the root."""
    split = [path.split(".") if path else [] for path in paths]
    return ".".join(split[0][: shared_parts(split)]) if split else ""


# -- what metadata say


def _told(about: Mapping[str, str]) -> tuple[str, str, str]:
    """The module's path, the target and the line; each empty where nothing tells it."""
    if any(key.startswith(_TORCH_ONNX) for key in about):
        return _of_torch_onnx(about)
    return about.get(PATH, ""), about.get("aten_target", ""), about.get("source", "")


def _of_torch_onnx(about: Mapping[str, str]) -> tuple[str, str, str]:
    """The same of a model that torch.onnx wrote: scopes from the root to the node, classes beside
    them, the last one being the operator, and a trace of the stack."""
    scopes = texts_in(about.get(f"{_TORCH_ONNX}name_scopes", ""))
    classes = texts_in(about.get(f"{_TORCH_ONNX}class_hierarchy", ""))
    frames = list(_FRAME.finditer(about.get(f"{_TORCH_ONNX}stack_trace", "")))
    frames = [each for each in frames if not _IN_TORCH.search(each["file"])] or frames
    line = ""
    if frames:
        last = frames[-1]
        line = f"{os.path.basename(last['file'])}:{last['line']}: {last['code'].strip()}"
    return scopes[-2] if len(scopes) > 1 else "", classes[-1] if classes else "", line

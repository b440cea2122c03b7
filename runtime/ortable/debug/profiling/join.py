"""Kernels joined with what the graph says of its nodes. In come a model with `metadata_props` and
the one that a session made of it, out comes an Origin for each kernel: module, ATen operator and
source line. Called by `account`; and by `models`, before a session is made, for local functions of
a model as plain nodes, each with the path of the module that it was called for. ONNX Runtime
inlines these functions itself, but then equal modules have the names of the first.

ONNX Runtime's optimizers rename, fuse and add nodes, and drop metadata. A node of the optimized
model stands for the nodes of ours that lie between what it computes and what other nodes compute:
it is known by the values that it computes, or by the name that it kept or was given after them."""

from __future__ import annotations

import os
import re
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

import onnx
import onnx.inliner
from onnx import FunctionProto, GraphProto, ModelProto, NodeProto

from ortable.compat.torch import higher_order_operators
from ortable.ir.pictures.modules import texts_in
from ortable.ir.proto.trust import check_functions
from ortable.ir.proto.walk import nodes_below, nodes_between, places_of

from .report import shared_parts

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
    places, claimed = places_of(ours.made), set[int]()
    found: dict[int, Origin] = {}
    for number in order:
        old = nodes_between(computed[number][1], ours.made, places, cut)
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

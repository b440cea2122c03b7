"""Join kernels with the metadata of graph nodes: module, ATen operator and source line.

`models` calls `inline_module_functions` first, so that local functions are plain nodes, each with
the path of the module that it was called for: ONNX Runtime inlines them too, but then equal modules
have the names of the first.

ONNX Runtime's optimizers rename, fuse and add nodes, and drop metadata. A node of the optimized
model stands for the original nodes between its results and the results of other nodes: it is
identified by the values that it computes, or by the name that it has or was derived from them.
"""

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
from ortable.ir.proto.model_validation import check_functions
from ortable.ir.proto.walk import node_positions, nodes_below, nodes_between

from .report import shared_parts

PATH = "module_path"
RESULT = "ortable.profile.result"


def inline_module_functions(model: ModelProto) -> ModelProto:
    """Inline the modules' functions and name every node; a model without either is returned."""
    module_functions = [
        (f.domain, f.name) for f in model.functions if any(p.key == PATH for p in f.metadata_props)
    ]
    named = all(node.name for node, _ in nodes_below(model.graph))
    if not module_functions and named:
        return model
    check_functions(model)
    inlined = ModelProto()
    inlined.CopyFrom(model)
    if module_functions:
        specialized = _specialize_functions(inlined, module_functions)
        inlined = onnx.inliner.inline_selected_functions(inlined, specialized, False)
        remaining = [f for f in inlined.functions if (f.domain, f.name) not in module_functions]
        del inlined.functions[:]
        inlined.functions.extend(remaining)
    for number, (node, _) in enumerate(nodes_below(inlined.graph)):
        node.name = node.name or f"{node.op_type}_{number}"
    return inlined


def _specialize_functions(
    model: ModelProto, module_functions: list[tuple[str, str]]
) -> list[tuple[str, str]]:
    """Add a copy of each module function per call, in place; return their names."""
    specialized: list[tuple[str, str]] = []
    functions = {
        (f.domain, f.name): f for f in model.functions if (f.domain, f.name) in module_functions
    }

    def specialize_call(node: NodeProto, path: str) -> None:
        function = functions.get((node.domain, node.op_type))
        if function is None:
            return
        copied = FunctionProto()
        copied.CopyFrom(function)
        copied.name = f"{function.name}__call_{len(specialized)}"
        specialized.append((copied.domain, copied.name))
        node.op_type = copied.name
        function_path = _module_path(function)
        graph = GraphProto()
        graph.node.extend(copied.node)
        for inner, _ in nodes_below(graph):
            rebased = _rebase_path(_module_path(inner), function_path, path)
            _set_path(inner, rebased)
            # Inlining renames results; pictures name those of a call after its module.
            name = next(filter(None, inner.output), "")
            inner.metadata_props.add(key=RESULT, value=f"{path}/{name}" if path else name)
            specialize_call(inner, rebased)
        del copied.node[:]
        copied.node.extend(graph.node)
        model.functions.append(copied)

    for node, _ in list(nodes_below(model.graph)):
        specialize_call(node, _module_path(node))
    return specialized


def _rebase_path(path: str, home: str, to: str) -> str:
    """Move a path below one module to another."""
    if path != home and not path.startswith(f"{home}."):
        return path or to
    return to + path[len(home) :]


def _module_path(about: NodeProto | FunctionProto) -> str:
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
_SEPARATOR = re.compile(r"[^0-9A-Za-z]")
_MAX_LINES = 3  # of a fused node
_TORCH_ONNX = "pkg.torch.onnx."
_FRAME = re.compile(
    r'File "(?P<file>[^"]+)", line (?P<line>\d+), in [^\n]*\n[ \t]*(?P<code>[^\n]*)'
)
_IN_TORCH = re.compile(r"[/\\]site-packages[/\\]torch[/\\]")


@dataclass(frozen=True)
class KernelOrigin:
    """The origin of a kernel: module path, torch operators, lines, and results of its nodes."""

    module: str = ""
    operator: str = UNKNOWN
    line: str = ""
    results: tuple[str, ...] = field(default=(), compare=False)


@dataclass(frozen=True, eq=False)
class _SourceNode:
    """A node of the original model, with its metadata."""

    proto: NodeProto
    module: str
    operator: str
    line: str
    result: str


def make_origin_finder(
    before: ModelProto, after: ModelProto | None
) -> Callable[[str, str], tuple[str, KernelOrigin]]:
    """Make a function that maps a kernel's node name and operator to its domain and origin."""
    sources = _SourceNodes(before)
    origins: dict[str, list[tuple[NodeProto, KernelOrigin]]] = defaultdict(list)
    if after is not None:
        for node, origin in _join_nodes(sources, after):
            origins[node.name].append((node, origin))

    def find_origin(name: str, op_type: str) -> tuple[str, KernelOrigin]:
        for node, origin in origins.get(name, ()):
            if node.op_type == op_type:
                foreign = node.domain not in ("", "ai.onnx")
                return f"{node.domain}.{op_type}" if foreign else op_type, origin
        nodes = sources.find_named(name)
        return op_type, sources.merge_origins(nodes, op_type) if nodes else KernelOrigin(
            operator=ADDED
        )

    return find_origin


class _SourceNodes:
    """The nodes of the original model, by name and by what they compute."""

    def __init__(self, model: ModelProto) -> None:
        self.producers: dict[str, NodeProto] = {}
        self.names: dict[str, list[NodeProto]] = defaultdict(list)
        self.about: dict[int, _SourceNode] = {}
        for proto, parent in nodes_below(model.graph):
            self.about[id(proto)] = _read_node(proto, self.about.get(id(parent)))
            self.names[proto.name].append(proto)
            for name in filter(None, proto.output):
                self.producers.setdefault(name, proto)

    def find_base(self, name: str) -> str:
        """Find the node or value that a node of ONNX Runtime is named after; empty if none."""
        starts = [name, *(name[: cut.start()] for cut in reversed(list(_SEPARATOR.finditer(name))))]
        return next(
            (start for start in starts if start in self.names or start in self.producers), ""
        )

    def find_named(self, name: str) -> list[NodeProto]:
        """Find the nodes that a name is derived from."""
        base = self.find_base(name)
        return self.names[base] if base in self.names else [self.producers[base]] if base else []

    def find_computed(self, node: NodeProto) -> tuple[bool, list[str]]:
        """Find the original values that an optimized node computes.

        The flag says that they are known from the node's name alone.
        """
        real = [name for name in node.output if name in self.producers]
        if real:
            return False, real
        return True, [
            name for original in self.find_named(node.name) for name in original.output if name
        ]

    def merge_origins(self, protos: Sequence[NodeProto], op_type: str) -> KernelOrigin:
        """Merge the origins of nodes that became one of this operator."""
        return _merge_nodes([self.about[id(proto)] for proto in protos], op_type)


def _read_node(proto: NodeProto, parent: _SourceNode | None) -> _SourceNode:
    about = {prop.key: prop.value for prop in proto.metadata_props}
    path, target, line = _parse_metadata(about)
    path = _GLOBAL.sub(r"\1", path)
    if path == _EXPORTED or path.startswith(f"{_EXPORTED}."):
        path = path[len(_EXPORTED) + 1 :]
    operator = _operator_name(target)
    if parent is not None:  # a part of control flow
        path, operator = path or parent.module, operator or parent.operator
        line = line or parent.line
    result = about.get(RESULT) or next(filter(None, proto.output), "")
    return _SourceNode(proto, path, operator, line, result)


def _operator_name(target: str) -> str:
    """Convert ``aten.add.Tensor`` to ``aten::add.Tensor``; empty for an input."""
    if "." not in target:
        return target if target in higher_order_operators else ""
    space, _, rest = target.partition(".")
    name, _, overload = rest.partition(".")
    if not overload or space == "operator":
        return target
    return f"{space}::{name}" if overload == "default" else f"{space}::{name}.{overload}"


def _join_nodes(
    sources: _SourceNodes, after: ModelProto
) -> Iterator[tuple[NodeProto, KernelOrigin]]:
    """Yield the nodes that run, each with its origin."""
    nodes = [node for node, _ in nodes_below(after.graph)]
    computed = [sources.find_computed(node) for node in nodes]
    boundary = {name for _, values in computed for name in values}
    # values that nodes are called after come first: a node behind them has the same ones
    order = sorted(range(len(nodes)), key=lambda number: not computed[number][0])
    order_of, claimed = node_positions(sources.producers), set[int]()
    origins: dict[int, KernelOrigin] = {}
    for number in order:
        originals = nodes_between(computed[number][1], sources.producers, order_of, boundary)
        originals = [node for node in originals if id(node) not in claimed]
        claimed.update(map(id, originals))
        if originals:
            origins[number] = sources.merge_origins(originals, nodes[number].op_type)
    _assign_neighbor_modules(nodes, origins)
    for number, node in enumerate(nodes):
        yield node, origins.get(number, KernelOrigin(operator=ADDED))


def _assign_neighbor_modules(nodes: Sequence[NodeProto], origins: dict[int, KernelOrigin]) -> None:
    """Give added nodes the module of their neighbors."""
    maker = {name: number for number, node in enumerate(nodes) for name in node.output if name}
    readers: dict[str, list[int]] = defaultdict(list)
    for number, node in enumerate(nodes):
        for name in node.input:
            readers[name].append(number)
    missing = [number for number in range(len(nodes)) if number not in origins]
    while missing:
        placed = {}
        for number in missing:
            near = [maker[name] for name in nodes[number].input if name in maker]
            near += [neighbor for name in nodes[number].output for neighbor in readers[name]]
            modules = [origins[neighbor].module for neighbor in near if neighbor in origins]
            if modules:
                placed[number] = KernelOrigin(common_module(modules), ADDED)
        if not placed:
            return
        origins.update(placed)
        missing = [number for number in missing if number not in placed]


def _merge_nodes(nodes: Sequence[_SourceNode], op_type: str) -> KernelOrigin:
    """Merge nodes that became one of this operator into one origin.

    It has all operators of torch; module and line are those of the nodes that the operator is named
    after ("Conv" in "FusedConv"), or of all.
    """
    described = [node for node in nodes if node.operator or node.line or node.module]
    main = [node for node in described if node.proto.op_type in op_type] or described
    operators = dict.fromkeys(node.operator for node in described if node.operator)
    lines = list(dict.fromkeys(node.line for node in main if node.line))
    named = [node for node in nodes if node.proto.op_type in op_type] or nodes
    return KernelOrigin(
        common_module([node.module for node in main]),
        " + ".join(operators) or UNKNOWN,
        lines[0] if len(lines) == 1 else _format_locations(lines),
        tuple(node.result for node in named if node.proto.op_type != "Constant"),
    )


def _format_locations(lines: Sequence[str]) -> str:
    """Format locations without their text: ``net.py:3, net.py:4``."""
    locations = list(dict.fromkeys(line.partition(": ")[0] for line in lines))
    more = f" and {len(locations) - _MAX_LINES} more" if len(locations) > _MAX_LINES else ""
    return ", ".join(locations[:_MAX_LINES]) + more


def common_module(paths: Iterable[str]) -> str:
    """Return the innermost module that contains all paths; empty for the root."""
    split = [path.split(".") if path else [] for path in paths]
    return ".".join(split[0][: shared_parts(split)]) if split else ""


# -- metadata


def _parse_metadata(about: Mapping[str, str]) -> tuple[str, str, str]:
    """Parse module path, target and line; each empty if unknown."""
    if any(key.startswith(_TORCH_ONNX) for key in about):
        return _parse_torch_onnx_metadata(about)
    return about.get(PATH, ""), about.get("aten_target", ""), about.get("source", "")


def _parse_torch_onnx_metadata(about: Mapping[str, str]) -> tuple[str, str, str]:
    """Parse the metadata of torch.onnx.

    It has scopes from the root to the node, their classes (the last is the operator), and a stack
    trace.
    """
    scopes = texts_in(about.get(f"{_TORCH_ONNX}name_scopes", ""))
    classes = texts_in(about.get(f"{_TORCH_ONNX}class_hierarchy", ""))
    frames = list(_FRAME.finditer(about.get(f"{_TORCH_ONNX}stack_trace", "")))
    frames = [frame for frame in frames if not _IN_TORCH.search(frame["file"])] or frames
    line = ""
    if frames:
        last = frames[-1]
        line = f"{os.path.basename(last['file'])}:{last['line']}: {last['code'].strip()}"
    return scopes[-2] if len(scopes) > 1 else "", classes[-1] if classes else "", line

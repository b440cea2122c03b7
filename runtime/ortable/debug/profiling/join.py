"""Join kernels with the metadata of graph nodes: module, ATen operator and source line.

`models.py` calls `inline_module_functions` first, which replaces local functions by nodes that have
the module paths of the calls. ONNX Runtime would inline the functions with the module paths of
their first call.

ONNX Runtime's optimizers rename, fuse and add nodes, and drop metadata. A node of the optimized
model is joined with the original nodes between its results and the results of other optimized
nodes. It is identified by the values that it computes, or by a name derived from an original name.
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
from ortable.ir.pictures.modules import parse_string_list
from ortable.ir.proto.model_validation import check_functions
from ortable.ir.proto.walk import node_positions, nodes_below, nodes_between

from .report import shared_parts

MODULE_PATH_KEY = "module_path"
RESULT_KEY = "ortable.profile.result"


def inline_module_functions(model: ModelProto) -> ModelProto:
    """Inline the functions of modules and name all nodes; return the model if nothing changes."""
    module_functions = [
        (f.domain, f.name)
        for f in model.functions
        if any(p.key == MODULE_PATH_KEY for p in f.metadata_props)
    ]
    all_named = all(node.name for node, _ in nodes_below(model.graph))
    if not module_functions and all_named:
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
    """Copy the module functions for each call, in place; return the names of the copies."""
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
        for inner_node, _ in nodes_below(graph):
            rebased = _rebase_path(_module_path(inner_node), function_path, path)
            _set_path(inner_node, rebased)
            # inlining renames results; pictures name a result by module path and original name
            name = next(filter(None, inner_node.output), "")
            inner_node.metadata_props.add(key=RESULT_KEY, value=f"{path}/{name}" if path else name)
            specialize_call(inner_node, rebased)
        del copied.node[:]
        copied.node.extend(graph.node)
        model.functions.append(copied)

    for node, _ in list(nodes_below(model.graph)):
        specialize_call(node, _module_path(node))
    return specialized


def _rebase_path(path: str, old_root: str, new_root: str) -> str:
    """Move a path from below module `old_root` to below module `new_root`."""
    if path != old_root and not path.startswith(f"{old_root}."):
        return path or new_root
    return new_root + path[len(old_root) :]


def _module_path(proto: NodeProto | FunctionProto) -> str:
    return next((prop.value for prop in proto.metadata_props if prop.key == MODULE_PATH_KEY), "")


def _set_path(node: NodeProto, path: str) -> None:
    for prop in node.metadata_props:
        if prop.key == MODULE_PATH_KEY:
            prop.value = path
            return
    if path:
        node.metadata_props.add(key=MODULE_PATH_KEY, value=path)


ADDED_NODE = "added by ONNX Runtime"
UNKNOWN_OPERATOR = "no ATen operator is known"
_EXPORT_ROOT = "_export_root"  # torch.export's name of the root in a branch of control flow
_GLOBAL_PATTERN = re.compile(r"^G\['(\w+)'\]")  # dynamo's name of a module in a global variable
_SEPARATOR = re.compile(r"[^0-9A-Za-z]")
_MAX_LINES = 3  # listed for a fused node
_TORCH_ONNX = "pkg.torch.onnx."
_FRAME_PATTERN = re.compile(
    r'File "(?P<file>[^"]+)", line (?P<line>\d+), in [^\n]*\n[ \t]*(?P<code>[^\n]*)'
)
_IN_TORCH = re.compile(r"[/\\]site-packages[/\\]torch[/\\]")


@dataclass(frozen=True)
class KernelOrigin:
    """The origin of a kernel: module path, ATen operators, source lines, and original results."""

    module: str = ""
    operator: str = UNKNOWN_OPERATOR
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
    """Make a function that maps name and type of a node to its qualified type and its origin."""
    sources = _SourceNodes(before)
    origins: dict[str, list[tuple[NodeProto, KernelOrigin]]] = defaultdict(list)
    if after is not None:
        for node, origin in _join_nodes(sources, after):
            origins[node.name].append((node, origin))

    def find_origin(name: str, op_type: str) -> tuple[str, KernelOrigin]:
        for node, origin in origins.get(name, ()):
            if node.op_type == op_type:
                is_custom = node.domain not in ("", "ai.onnx")
                return f"{node.domain}.{op_type}" if is_custom else op_type, origin
        nodes = sources.find_named(name)
        return op_type, sources.merge_origins(nodes, op_type) if nodes else KernelOrigin(
            operator=ADDED_NODE
        )

    return find_origin


class _SourceNodes:
    """The nodes of the original model, by name and by result."""

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
        """Find the original node or value whose name is a prefix of `name`; empty if none."""
        cuts = [name, *(name[: cut.start()] for cut in reversed(list(_SEPARATOR.finditer(name))))]
        return next(
            (prefix for prefix in cuts if prefix in self.names or prefix in self.producers), ""
        )

    def find_named(self, name: str) -> list[NodeProto]:
        """Find the original nodes whose name or result name is a prefix of `name`."""
        base = self.find_base(name)
        return self.names[base] if base in self.names else [self.producers[base]] if base else []

    def find_computed(self, node: NodeProto) -> tuple[bool, list[str]]:
        """Find the original values that an optimized node computes.

        The flag is true if only the name of the node identifies them.
        """
        remaining = [name for name in node.output if name in self.producers]
        if remaining:
            return False, remaining
        return True, [
            name for original in self.find_named(node.name) for name in original.output if name
        ]

    def merge_origins(self, protos: Sequence[NodeProto], op_type: str) -> KernelOrigin:
        """Merge the origins of original nodes that became a node of type `op_type`."""
        return _merge_nodes([self.about[id(proto)] for proto in protos], op_type)


def _read_node(proto: NodeProto, parent: _SourceNode | None) -> _SourceNode:
    metadata = {prop.key: prop.value for prop in proto.metadata_props}
    path, target, line = _parse_metadata(metadata)
    path = _GLOBAL_PATTERN.sub(r"\1", path)
    if path == _EXPORT_ROOT or path.startswith(f"{_EXPORT_ROOT}."):
        path = path[len(_EXPORT_ROOT) + 1 :]
    operator = _operator_name(target)
    if parent is not None:  # a node in a branch or body of control flow
        path, operator = path or parent.module, operator or parent.operator
        line = line or parent.line
    result = metadata.get(RESULT_KEY) or next(filter(None, proto.output), "")
    return _SourceNode(proto, path, operator, line, result)


def _operator_name(target: str) -> str:
    """Convert ``aten.add.Tensor`` to ``aten::add.Tensor``; empty if it is not an operator."""
    if "." not in target:
        return target if target in higher_order_operators else ""
    namespace, _, qualified_name = target.partition(".")
    name, _, overload = qualified_name.partition(".")
    if not overload or namespace == "operator":
        return target
    return f"{namespace}::{name}" if overload == "default" else f"{namespace}::{name}.{overload}"


def _join_nodes(
    sources: _SourceNodes, after: ModelProto
) -> Iterator[tuple[NodeProto, KernelOrigin]]:
    """Yield the nodes of the optimized model, each with its origin."""
    nodes = [node for node, _ in nodes_below(after.graph)]
    computed = [sources.find_computed(node) for node in nodes]
    boundary = {name for _, values in computed for name in values}
    # nodes that are identified by results claim their original nodes before others, since the name
    # of a node may lead to the same original nodes
    order = sorted(range(len(nodes)), key=lambda number: not computed[number][0])
    positions, claimed = node_positions(sources.producers), set[int]()
    origins: dict[int, KernelOrigin] = {}
    for number in order:
        originals = nodes_between(computed[number][1], sources.producers, positions, boundary)
        originals = [node for node in originals if id(node) not in claimed]
        claimed.update(map(id, originals))
        if originals:
            origins[number] = sources.merge_origins(originals, nodes[number].op_type)
    _assign_neighbor_modules(nodes, origins)
    for number, node in enumerate(nodes):
        yield node, origins.get(number, KernelOrigin(operator=ADDED_NODE))


def _assign_neighbor_modules(nodes: Sequence[NodeProto], origins: dict[int, KernelOrigin]) -> None:
    """Assign the common module of their neighbors to the nodes that ONNX Runtime added."""
    producer = {name: number for number, node in enumerate(nodes) for name in node.output if name}
    readers: dict[str, list[int]] = defaultdict(list)
    for number, node in enumerate(nodes):
        for name in node.input:
            readers[name].append(number)
    missing = [number for number in range(len(nodes)) if number not in origins]
    while missing:
        assigned = {}
        for number in missing:
            neighbors = [producer[name] for name in nodes[number].input if name in producer]
            neighbors += [neighbor for name in nodes[number].output for neighbor in readers[name]]
            modules = [origins[neighbor].module for neighbor in neighbors if neighbor in origins]
            if modules:
                assigned[number] = KernelOrigin(common_module(modules), ADDED_NODE)
        if not assigned:
            return
        origins.update(assigned)
        missing = [number for number in missing if number not in assigned]


def _merge_nodes(nodes: Sequence[_SourceNode], op_type: str) -> KernelOrigin:
    """Merge the origins of original nodes that became a node of type `op_type`.

    The origin has all ATen operators. Module and line are those of the nodes whose type is a part
    of `op_type` ("Conv" in "FusedConv"), or of all nodes.
    """
    described = [node for node in nodes if node.operator or node.line or node.module]
    matching = [node for node in described if node.proto.op_type in op_type] or described
    operators = dict.fromkeys(node.operator for node in described if node.operator)
    lines = list(dict.fromkeys(node.line for node in matching if node.line))
    same_type = [node for node in nodes if node.proto.op_type in op_type] or nodes
    return KernelOrigin(
        common_module([node.module for node in matching]),
        " + ".join(operators) or UNKNOWN_OPERATOR,
        lines[0] if len(lines) == 1 else _format_locations(lines),
        tuple(node.result for node in same_type if node.proto.op_type != "Constant"),
    )


def _format_locations(lines: Sequence[str]) -> str:
    """Format source lines without their code: ``net.py:3, net.py:4``."""
    locations = list(dict.fromkeys(line.partition(": ")[0] for line in lines))
    more = f" and {len(locations) - _MAX_LINES} more" if len(locations) > _MAX_LINES else ""
    return ", ".join(locations[:_MAX_LINES]) + more


def common_module(paths: Iterable[str]) -> str:
    """Return the innermost module that contains all paths; empty for the root."""
    parts = [path.split(".") if path else [] for path in paths]
    return ".".join(parts[0][: shared_parts(parts)]) if parts else ""


# -- metadata


def _parse_metadata(metadata: Mapping[str, str]) -> tuple[str, str, str]:
    """Parse module path, operator and source line; each is empty if unknown."""
    if any(key.startswith(_TORCH_ONNX) for key in metadata):
        return _parse_torch_onnx_metadata(metadata)
    return (
        metadata.get(MODULE_PATH_KEY, ""),
        metadata.get("aten_target", ""),
        metadata.get("source", ""),
    )


def _parse_torch_onnx_metadata(metadata: Mapping[str, str]) -> tuple[str, str, str]:
    """Parse the metadata of torch.onnx.

    The metadata has the scopes from the root to the node, their classes (the operator is last), and
    a stack trace.
    """
    scopes = parse_string_list(metadata.get(f"{_TORCH_ONNX}name_scopes", ""))
    classes = parse_string_list(metadata.get(f"{_TORCH_ONNX}class_hierarchy", ""))
    frames = list(_FRAME_PATTERN.finditer(metadata.get(f"{_TORCH_ONNX}stack_trace", "")))
    frames = [frame for frame in frames if not _IN_TORCH.search(frame["file"])] or frames
    line = ""
    if frames:
        last = frames[-1]
        line = f"{os.path.basename(last['file'])}:{last['line']}: {last['code'].strip()}"
    return scopes[-2] if len(scopes) > 1 else "", classes[-1] if classes else "", line

"""Join kernels with the metadata of graph nodes: module, ATen operator and source line.

`models.py` calls `inline_module_functions` first, which replaces local functions by nodes that have
the module paths of the calls. Otherwise ONNX Runtime would inline the functions, and the nodes of
every call would have the paths that the function stores, those of a single call.

ONNX Runtime's optimizers rename, fuse and add nodes, and drop metadata. A node of the optimized
model is joined with the original nodes that compute its results from results of other optimized
nodes: a FusedConv with the result `relu` with the original Conv and Relu. If the names of its
results are new, the prefix of its own name leads to an original node.
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
    """Copy the model, inline the functions of modules, and name all nodes.

    If there is nothing to change, return `model` itself. Functions of modules have a module path.
    """
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
        copy_names = _specialize_functions(inlined, module_functions)
        inlined = onnx.inliner.inline_selected_functions(inlined, copy_names, False)
        remaining = [f for f in inlined.functions if (f.domain, f.name) not in module_functions]
        del inlined.functions[:]
        inlined.functions.extend(remaining)
    for number, (node, _) in enumerate(nodes_below(inlined.graph)):
        node.name = node.name or f"{node.op_type}_{number}"
    return inlined


def _specialize_functions(
    model: ModelProto, module_functions: list[tuple[str, str]]
) -> list[tuple[str, str]]:
    """Give each call of a module function its own copy; return domain and name of the copies.

    The nodes of a copy have the module paths of the call. The model is changed in place.
    """
    copy_names: list[tuple[str, str]] = []
    functions = {
        (f.domain, f.name): f for f in model.functions if (f.domain, f.name) in module_functions
    }

    def specialize_call(node: NodeProto, path: str) -> None:
        function = functions.get((node.domain, node.op_type))
        if function is None:
            return
        copied = FunctionProto()
        copied.CopyFrom(function)
        copied.name = f"{function.name}__call_{len(copy_names)}"
        copy_names.append((copied.domain, copied.name))
        node.op_type = copied.name
        function_path = _module_path(function)
        graph = GraphProto()
        graph.node.extend(copied.node)
        for inner_node, _ in nodes_below(graph):
            rebased = _rebase_path(_module_path(inner_node), function_path, path)
            _set_path(inner_node, rebased)
            # inlining renames results, but a picture finds a result by module path and old name
            name = next(filter(None, inner_node.output), "")
            inner_node.metadata_props.add(key=RESULT_KEY, value=f"{path}/{name}" if path else name)
            specialize_call(inner_node, rebased)
        del copied.node[:]
        copied.node.extend(graph.node)
        model.functions.append(copied)

    for node, _ in list(nodes_below(model.graph)):
        specialize_call(node, _module_path(node))
    return copy_names


def _rebase_path(path: str, old_root: str, new_root: str) -> str:
    """Move a path to another root: `a.0.up` with the roots `a.0` and `a.1` becomes `a.1.up`.

    A path outside of `old_root` stays, and an empty path becomes `new_root`.
    """
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
_SEPARATOR = re.compile(r"[^0-9A-Za-z]")  # may precede what ONNX Runtime appends to a name
_MAX_LINES = 3  # source lines that are listed for a fused node
_TORCH_ONNX = "pkg.torch.onnx."  # prefix of the metadata keys of torch.onnx
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
    """A node of the original model, its metadata, and the name of its first result."""

    proto: NodeProto
    module: str
    operator: str
    line: str
    result: str


def make_origin_finder(
    before: ModelProto, after: ModelProto | None
) -> Callable[[str, str], tuple[str, KernelOrigin]]:
    """Make a function that maps name and type of a node that ran to its full type and its origin.

    Args:
        before: the original model.
        after: the optimized model; None if it is unknown, so that only names lead to origins.

    Returns:
        A function: ("conv_nchwc", "Conv") -> ("com.microsoft.nchwc.Conv", its origin).
    """
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
        self.nodes_by_name: dict[str, list[NodeProto]] = defaultdict(list)
        self.source_nodes: dict[int, _SourceNode] = {}  # by id of the proto
        for proto, parent in nodes_below(model.graph):
            self.source_nodes[id(proto)] = _read_node(proto, self.source_nodes.get(id(parent)))
            self.nodes_by_name[proto.name].append(proto)
            for name in filter(None, proto.output):
                self.producers.setdefault(name, proto)

    def find_base(self, name: str) -> str:
        """Find the longest prefix of `name` that names an original node or value; empty if none.

        A prefix ends before a separator: `relu_nchwc` and `relu` are prefixes of `relu_nchwc`.
        """
        prefixes = [
            name,
            *(name[: cut.start()] for cut in reversed(list(_SEPARATOR.finditer(name)))),
        ]
        return next(
            (
                prefix
                for prefix in prefixes
                if prefix in self.nodes_by_name or prefix in self.producers
            ),
            "",
        )

    def find_named(self, name: str) -> list[NodeProto]:
        """Find the original nodes that `find_base(name)` names, or the producer of the value."""
        base = self.find_base(name)
        return (
            self.nodes_by_name[base]
            if base in self.nodes_by_name
            else [self.producers[base]]
            if base
            else []
        )

    def find_computed(self, node: NodeProto) -> tuple[bool, list[str]]:
        """Find the original values that an optimized node computes.

        They follow a flag, which is true if the name of the node identifies the values, because
        none of its results has the name of an original value.
        """
        results = [name for name in node.output if name in self.producers]
        if results:
            return False, results
        return True, [
            name for original in self.find_named(node.name) for name in original.output if name
        ]

    def merge_origins(self, protos: Sequence[NodeProto], op_type: str) -> KernelOrigin:
        """Merge the origins of original nodes that became a node of type `op_type`."""
        return _merge_nodes([self.source_nodes[id(proto)] for proto in protos], op_type)


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
    """Convert ``aten.add.Tensor`` to ``aten::add.Tensor``; ``operator.add`` stays.

    Return an empty string for names without a dot that are not higher-order operators.
    """
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
    # nodes that are identified by name claim their original nodes first: the result of an added
    # node, such as the ReorderOutput after a Conv of another layout, may lead to the same ones
    order = sorted(range(len(nodes)), key=lambda index: not computed[index][0])
    positions, claimed = node_positions(sources.producers), set[int]()
    origins: dict[int, KernelOrigin] = {}
    for index in order:
        originals = nodes_between(computed[index][1], sources.producers, positions, boundary)
        originals = [node for node in originals if id(node) not in claimed]
        claimed.update(map(id, originals))
        if originals:
            origins[index] = sources.merge_origins(originals, nodes[index].op_type)
    _assign_neighbor_modules(nodes, origins)
    for index, node in enumerate(nodes):
        yield node, origins.get(index, KernelOrigin(operator=ADDED_NODE))


def _assign_neighbor_modules(nodes: Sequence[NodeProto], origins: dict[int, KernelOrigin]) -> None:
    """Add origins of the nodes that ONNX Runtime added: the common module of their neighbors.

    Neighbors are the producers of inputs and the readers of results. In a chain of added nodes, the
    modules spread from both ends.
    """
    producers = {name: index for index, node in enumerate(nodes) for name in node.output if name}
    readers: dict[str, list[int]] = defaultdict(list)
    for index, node in enumerate(nodes):
        for name in node.input:
            readers[name].append(index)
    missing = [index for index in range(len(nodes)) if index not in origins]
    while missing:
        new_origins = {}
        for index in missing:
            neighbors = [producers[name] for name in nodes[index].input if name in producers]
            neighbors += [neighbor for name in nodes[index].output for neighbor in readers[name]]
            modules = [origins[neighbor].module for neighbor in neighbors if neighbor in origins]
            if modules:
                new_origins[index] = KernelOrigin(common_module(modules), ADDED_NODE)
        if not new_origins:
            return
        origins.update(new_origins)
        missing = [index for index in missing if index not in new_origins]


def _merge_nodes(nodes: Sequence[_SourceNode], op_type: str) -> KernelOrigin:
    """Merge the origins of original nodes that became a node of type `op_type`.

    The origin has all ATen operators. Module, line and results are those of the nodes whose type is
    a part of `op_type` ("Conv" in "FusedConv"), or of all nodes if there is no such node.
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
    """Format source lines without their code: ``net.py:3, net.py:4, net.py:5 and 2 more``."""
    locations = list(dict.fromkeys(line.partition(": ")[0] for line in lines))
    more = f" and {len(locations) - _MAX_LINES} more" if len(locations) > _MAX_LINES else ""
    return ", ".join(locations[:_MAX_LINES]) + more


def common_module(paths: Iterable[str]) -> str:
    """Return the innermost module that contains all paths; empty for the root."""
    parts = [path.split(".") if path else [] for path in paths]
    return ".".join(parts[0][: shared_parts(parts)]) if parts else ""


# -- metadata


def _parse_metadata(metadata: Mapping[str, str]) -> tuple[str, str, str]:
    """Return module path, target (``aten.add.Tensor``) and source line; empty if unknown."""
    if any(key.startswith(_TORCH_ONNX) for key in metadata):
        return _parse_torch_onnx_metadata(metadata)
    return (
        metadata.get(MODULE_PATH_KEY, ""),
        metadata.get("aten_target", ""),
        metadata.get("source", ""),
    )


def _parse_torch_onnx_metadata(metadata: Mapping[str, str]) -> tuple[str, str, str]:
    """Parse the metadata that torch.onnx writes.

    `name_scopes` has the module paths from the root on, and last the node; `class_hierarchy` has
    the classes of the modules, and last the target; `stack_trace` has the innermost frame last.
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

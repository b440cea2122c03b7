"""Rewrite an exported program for conversion, where its graph requires it.

The rewrites functionalize graphs that write in place, decompose operators without a converter, and
apply the user's decomposition table. exported_program.py calls `prepare_program`;
custom_operators.py uses the decompositions.
"""

from __future__ import annotations

import contextlib
import functools
import threading
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any

import torch
from torch.export import ExportedProgram
from torch.fx import Graph, GraphModule, Interpreter, Node
from torch.fx.node import map_arg

from ortable.compat.scoped_patch import restore_on_exit
from ortable.compat.torch import (
    HigherOrderOperator,
    OperatorBase,
    OpOverload,
    composite_kernel,
    get_decompositions,
    is_alias_of,
    is_composite,
    overload_name,
    pytree,
    set_constants,
    set_example_inputs,
    wrap_constant_lifting,
)
from ortable.errors import ExportError
from ortable.exporter.dispatchers.dispatcher import direct_converter, find_user_converter
from ortable.exporter.frontend.export_request import ExportOptions
from ortable.exporter.frontend.module_calls import AUTOCAST
from ortable.interpreter.calls import arguments_by_name
from ortable.interpreter.control_flow import find_call_layout
from ortable.interpreter.modules import find_attribute
from ortable.interpreter.mutation import first_write, write_reason
from ortable.interpreter.tables import ConverterTables
from ortable_generated.aten import traits

from .fake_quantization import replace_observers


def implicit_aliases(
    graph_module: GraphModule, dispatcher: Any, mutates: Mapping[str, str]
) -> dict[OperatorBase, Callable[..., Any]]:
    """Return the bodies of composite operators with aliasing that their schemas do not declare.

    Such operators return memory of an input (``meshgrid``, ``broadcast_tensors``), or write into an
    input (``instance_norm`` with running statistics). ``mutates`` maps an operator to the flag that
    makes it write into its running statistics.

    Raises ExportError if a user's converter handles an operator that returns memory of an input.
    """
    bodies: dict[OperatorBase, Callable[..., Any]] = {}
    for node in find_operator_nodes(graph_module):
        target: Any = node.target
        if target in bodies:
            continue
        # expose_aliases rewrites these calls
        is_exposed = _is_identity(node) or target.name() in traits.HIDDEN_VIEW
        if is_composite(target) and write_reason(node, mutates) is not None:
            bodies[target] = get_composite_body(target)
            continue
        if not is_exposed and not _has_implicit_alias(node):
            continue
        if find_user_converter(dispatcher, target.name()) is not None:
            raise ExportError(
                f"node '{node.name}' ({target.name()}) returns memory of its input, and the graph "
                "writes in place; torch loses such a write if your converter handles the "
                "operator. Remedy: do not write in place, or leave the converter out."
            )
        if not is_exposed:
            bodies[target] = get_composite_body(target)
    return bodies


def _has_implicit_alias(node: Node) -> bool:
    """Whether a composite operator returns memory of an input, and its schema does not say so."""
    target: Any = node.target
    schema = target._schema
    if schema.is_mutable or not is_composite(target) or target.name() in traits.RETURNS_NEW_STORAGE:
        return False
    if target.name() in traits.IDENTITY_IN_EVAL:  # decomposed dropout draws other random numbers
        return False
    return not any(r.alias_info is not None for r in schema.returns) and _returns_input_memory(node)


@contextlib.contextmanager
def expose_aliases(graph_module: GraphModule) -> Iterator[None]:
    """Rewrite aliases that torch takes for copies, so that torch sees them in the block.

    Users of a dropout that drops nothing read the dropout's input, and ``unsafe_split`` becomes
    ``split``.
    """
    changed: list[tuple[Node, Any, Any, Any]] = []

    def undo() -> None:
        for user, target, args, kwargs in reversed(changed):
            user.target, user.args, user.kwargs = target, args, kwargs

    with restore_on_exit(undo):
        for node in find_operator_nodes(graph_module):
            target: Any = node.target
            visible_name = traits.HIDDEN_VIEW.get(target.name())
            if visible_name is not None:
                changed.append((node, target, node.args, node.kwargs))
                node.target = _find_overload(visible_name)
            elif _is_identity(node):
                source = arguments_by_name(node)["input"]
                for user in list(node.users):
                    changed.append((user, user.target, user.args, user.kwargs))
                    user.replace_input_with(node, source)
        yield


def _is_identity(node: Node) -> bool:
    """Whether ``node`` is dropout that drops nothing, which returns its input."""
    target: Any = node.target
    if target.name() not in traits.IDENTITY_IN_EVAL:
        return False
    arguments = arguments_by_name(node)
    return arguments.get("train") is False or arguments.get("p") == 0


def _find_overload(name: str) -> Any:
    """Return the overload of a name like ``aten::split.Tensor``."""
    namespace, _, qualified_name = name.partition("::")
    packet, _, overload = qualified_name.partition(".")
    return getattr(getattr(getattr(torch.ops, namespace), packet), overload or "default")


def _returns_input_memory(node: Node) -> bool:
    """Whether a result of a call shares memory with an input; True if the trial call fails.

    The trial call uses meta tensors of the traced sizes: the traced values would record guards.
    """
    target: Any = node.target
    traced_values = map_arg((node.args, node.kwargs), lambda operand: operand.meta.get("val"))
    args, kwargs = pytree.tree_map(_to_meta, traced_values)
    inputs = [leaf for leaf in pytree.tree_leaves((args, kwargs)) if torch.is_tensor(leaf)]
    if not inputs:
        return False
    try:
        with torch.no_grad():
            results = pytree.tree_leaves(target(*args, **kwargs))
    except Exception:  # an error on meta tensors does not show whether memory is shared
        return True
    tensors = [leaf for leaf in results if torch.is_tensor(leaf)]
    return any(is_alias_of(result, leaf) for result in tensors for leaf in inputs)


def _to_meta(value: Any) -> Any:
    if isinstance(value, torch.Tensor):
        sizes, strides = (
            [_traced_size(n) for n in numbers] for numbers in (value.shape, value.stride())
        )
        return torch.empty_strided(sizes, strides, dtype=value.dtype, device="meta")
    return _traced_size(value)


def _traced_size(value: Any) -> Any:
    """Return the number that a symbolic value was traced with; 2 if it depends on data."""
    if not isinstance(value, torch.SymInt | torch.SymFloat | torch.SymBool):
        return value
    return value.node.hint if value.node.has_hint() else 2


def get_composite_body(target: Any) -> Callable[..., Any]:
    """Return the decomposition of a composite operator, for a decomposition table.

    ``target.decompose`` in the table would call itself: torch registers the function in the table
    as the operator's composite kernel, and ``decompose`` calls that kernel.
    """
    return composite_kernel(target)


def find_operator_nodes(graph_module: GraphModule) -> list[Node]:
    """Return the nodes that call overloads, in the graph and in its subgraphs."""
    return [
        node
        for module in find_graph_modules(graph_module)
        for node in module.graph.nodes
        if isinstance(node.target, OpOverload)
    ]


def find_graph_modules(graph_module: GraphModule) -> list[GraphModule]:
    """Return the graph and its subgraphs."""
    return [module for module in graph_module.modules() if isinstance(module, GraphModule)]


# torch.export represents vmap as two calls of functions of this module, with the operators on one
# element between these calls.
_VMAP = "torch._functorch.predispatch"


class FunctionalizationError(ExportError):
    """torch cannot rewrite a program that it exported."""


def prepare_program(
    program: ExportedProgram,
    tables: ConverterTables,
    dispatcher: Any,
    options: ExportOptions,
    opset: int | None = None,
) -> tuple[ExportedProgram, list[str]]:
    """Return a program that writes nothing in place, and notes on its rewrites.

    If ``options`` has a decomposition table, its operators are decomposed. Otherwise only operators
    without a converter are, and operators of torch.onnx.ops that are newer than ``opset``; if the
    graph writes in place, also those with undeclared aliases. Raises FunctionalizationError if
    torch fails to rewrite the graph, and ExportError for a write that torch would lose.
    """
    table = options.table()
    reason = rewrite_reason(program.graph_module, tables)
    aliases = (
        {} if reason is None else implicit_aliases(program.graph_module, dispatcher, tables.mutates)
    )
    if table is not None:
        choice = options.decomposition_table
        name = choice if isinstance(choice, str) else "the user's"
        if isinstance(choice, str):  # a user's own dict takes precedence over their converters
            for op in [
                op for op in table if find_user_converter(dispatcher, op.name()) is not None
            ]:
                table.pop(op)
        rewritten = _run_decompositions(program, {**aliases, **table}, writes=reason is not None)
        return rewritten, [f"decomposed with the table '{name}' ({len(table)} entries)"]
    needed = find_decompositions(program.graph_module, tables, dispatcher, opset)
    if reason is None and not needed:
        return program, []
    notes = []
    if reason is not None:
        needed = {**needed, **aliases}
        notes.append(f"functionalised: {reason}")
    if needed:
        notes.append(f"decomposed: {', '.join(sorted(op.name() for op in needed))}")
    rewritten = _run_decompositions(program, needed, writes=reason is not None)
    remaining = find_decompositions(rewritten.graph_module, tables, dispatcher, opset)
    if remaining:
        notes.append(f"decomposed: {', '.join(sorted(op.name() for op in remaining))}")
        rewritten = _run_decompositions(rewritten, remaining)
    return rewritten, notes


def rewrite_reason(graph_module: GraphModule, tables: ConverterTables) -> str | None:
    """Return why torch must rewrite the graph, such as a write in place; None if it need not."""
    write = first_write(graph_module, tables)
    if write is not None:
        node, cause = write
        return f"node '{node.name}' writes to its argument, {cause}"
    seen: set[Any] = set()
    for node in (
        node for module in find_graph_modules(graph_module) for node in module.graph.nodes
    ):
        target = node.target
        if target in seen:
            continue
        seen.add(target)
        if isinstance(target, HigherOrderOperator) and target.name() in traits.CASTS:
            return f"node '{node.name}' is a region of {target.name()}"
        if isinstance(target, OpOverload) and target.name() in traits.SUBCLASS_PART:
            return f"node '{node.name}' reads a part of a tensor subclass"
        if getattr(target, "__module__", None) == _VMAP:
            return f"node '{node.name}' is a part of vmap"
    return None


def find_decompositions(
    graph_module: GraphModule, tables: ConverterTables, dispatcher: Any, opset: int | None = None
) -> dict[OperatorBase, Callable[..., Any]]:
    """Return decompositions of the graph's operators without a converter.

    These are the operators in the decomposition tables, and the operators of torch.onnx.ops that
    are newer than ``opset``.
    """
    nodes = find_operator_nodes(graph_module)
    decompositions = _newer_operator_bodies(nodes, dispatcher, opset) if opset is not None else {}
    if not tables.decompose and not tables.foreach:
        return decompositions
    names = frozenset((*tables.decompose, *tables.foreach))
    for node in nodes:
        target: Any = node.target
        name = target.name()
        if target in decompositions or (name not in names and name.partition(".")[0] not in names):
            continue
        native = tables.converters.get(name)
        if direct_converter(dispatcher, name, target, native) is None:
            function = tables.foreach.get(name) or _find_decomposition(target)
            if function is not None:
                decompositions[target] = function
    return decompositions


def _newer_operator_bodies(
    nodes: list[Node], dispatcher: Any, opset: int
) -> dict[OperatorBase, Callable[..., Any]]:
    """Return torch's bodies of operators ``onnx::Name.opset23`` that are newer than ``opset``."""
    bodies: dict[OperatorBase, Callable[..., Any]] = {}
    targets: set[Any] = {node.target for node in nodes}
    for target in sorted((t for t in targets if t.namespace == "onnx"), key=str):
        since = overload_name(target).removeprefix("opset")
        body = torch.onnx.ops.aten_decompositions().get(target)
        user_converter = find_user_converter(dispatcher, target.name())
        if since.isdigit() and int(since) > opset and body is not None and user_converter is None:
            bodies[target] = body
    return bodies


def _find_decomposition(target: Any) -> Callable[..., Any] | None:
    decomposition = get_decompositions([target]).get(target)
    if decomposition is None and is_composite(target):
        return get_composite_body(target)
    return decomposition


def _run_decompositions(
    program: ExportedProgram, table: dict[Any, Any], *, writes: bool = False
) -> ExportedProgram:
    graph = program.graph_module
    aliases_exposed = expose_aliases(graph) if writes else contextlib.nullcontext()
    try:
        with (
            replace_observers(program),
            aliases_exposed,
            mark_regions(graph),
            replace_scalar_constants(graph),
        ):
            return decompose_program(program, table)
    except ExportError:
        raise
    except Exception as error:  # decompositions raise many types
        first_line = str(error).strip().splitlines()[0] if str(error).strip() else ""
        remedy = (
            ". A branch or a loop body writes into a tensor from outside: return the new value"
            if "copy_.default' is not functional" in first_line
            else ""
        )
        raise FunctionalizationError(
            "torch could not rewrite the graph without in-place writes and unsupported "
            f"operators: {type(error).__name__}: {first_line}{remedy}"
        ) from error


# -- 0-d constants inside branches and loop bodies: ``y[0] = 5.0`` in a branch adds such a constant
# to the graph of the branch, which torch cannot functionalize. While torch rewrites the program,
# `aten.scalar_tensor` makes the constant


@contextmanager
def replace_scalar_constants(graph_module: GraphModule) -> Iterator[None]:
    """Replace the 0-d constants of the graph's subgraphs by operators in the block."""
    replaced = []
    for owner in list(graph_module.modules()):
        for name, inner in list(owner.named_children()):
            if isinstance(inner, GraphModule) and any(
                _scalar_constant(inner, node) for node in inner.graph.nodes
            ):
                replaced.append((owner, name, inner))

    def undo() -> None:
        for owner, name, inner in replaced:
            setattr(owner, name, inner)

    with restore_on_exit(undo):
        # innermost first: the copy of an outer graph has the new inner graphs
        for owner, name, inner in reversed(replaced):
            setattr(owner, name, _without_scalars(inner))
        yield


def _scalar_constant(graph_module: GraphModule, node: Node) -> torch.Tensor | None:
    if node.op != "get_attr" or "." in str(node.target):
        return None
    value = getattr(graph_module, str(node.target), None)
    return value if isinstance(value, torch.Tensor) and value.dim() == 0 else None


def _without_scalars(graph_module: GraphModule) -> GraphModule:
    graph = Graph()
    copies: dict[Node, Node] = {}
    for node in graph_module.graph.nodes:
        value = _scalar_constant(graph_module, node)
        if value is None:
            copies[node] = graph.node_copy(node, copies.__getitem__)
        else:
            copies[node] = graph.call_function(
                torch.ops.aten.scalar_tensor.default, (value.item(),), {"dtype": value.dtype}
            )
            copies[node].meta = dict(node.meta)
    return GraphModule(graph_module, graph)


# -- regions that torch inlines when it decomposes a graph (no_grad, autocast). Without the marked
# copies torch gives all inlined nodes the metadata of the region's node. The copies keep each
# node's module stack, and mark the nodes of autocast so that they can become one function


class _Region(torch.nn.Module):
    """Runs the graph of a region node by node, so that torch keeps the metadata of each node."""

    def __init__(self, graph_module: GraphModule) -> None:
        super().__init__()
        self.graph_module = graph_module

    def forward(self, *operands: Any) -> Any:
        """Return the outputs of the graph."""
        return Interpreter(self.graph_module).run(*operands)


@contextmanager
def mark_regions(graph_module: GraphModule) -> Iterator[None]:
    """Replace the graphs of regions (no_grad, autocast) by `_Region` copies in the block."""
    replaced: dict[str, GraphModule] = {}

    def undo() -> None:
        for path, original in replaced.items():
            setattr(graph_module, path, original)

    with restore_on_exit(undo):
        _mark_regions(graph_module, replaced)
        yield


def _mark_regions(graph_module: GraphModule, replaced: dict[str, GraphModule]) -> None:
    """Replace the graphs of regions by copies, and add the originals by path to ``replaced``."""
    for node in graph_module.graph.nodes:
        name = getattr(node.target, "__name__", "")
        if name not in traits.REGION or not isinstance(node.target, HigherOrderOperator):
            continue
        call = find_call_layout(name)
        assert call is not None
        operand: Any = node.args[call.before]
        path = str(operand.target)
        inner = find_attribute(graph_module, path, None)
        if not isinstance(inner, GraphModule) or "." in path:
            continue
        copy = _copy_region(inner, node)
        _mark_regions(copy, {})
        replaced[path] = inner
        setattr(graph_module, path, _Region(copy))


def _copy_region(inner: GraphModule, node: Node) -> GraphModule:
    """Copy a region's graph; a region with autocast adds itself to each node's module stack."""
    graph = Graph()
    copies: dict[Node, Node] = {}
    outputs = graph.graph_copy(inner.graph, copies)
    graph.output(outputs)
    flag_index = traits.CASTS.get(node.target.__name__)  # type: ignore[union-attr]
    if flag_index is not None and node.args[flag_index]:
        outer_stack = dict(node.meta.get("nn_module_stack") or {})
        path = next(reversed(outer_stack.values()))[0] if outer_stack else ""
        for copied in copies.values():
            stack = dict(copied.meta.get("nn_module_stack") or {})
            inner_stack = {key: module for key, module in stack.items() if key not in outer_stack}
            mark = {f"autocast:{node.name}": (path, AUTOCAST)}
            copied.meta = {**copied.meta, "nn_module_stack": {**outer_stack, **mark, **inner_stack}}
    return GraphModule(inner, graph)


# -- torch's decomposition, with a flat call and with the constants that decompositions make.
# torch traces the program again through the containers of its arguments and results. Unflattening
# them may compute (a cache of transformers concatenates its first keys with an empty tensor), or
# the class may no longer be registered. torch also drops new constants: "Constant tensor
# lifted_tensor_0 is not in the constants dictionary"

_LOST_CONSTANT = "is not in the constants dictionary"


def decompose_program(program: ExportedProgram, table: Mapping[Any, Any]) -> ExportedProgram:
    """Return ``program.run_decompositions(table)``, and leave ``program`` unchanged."""
    with (
        _flat_call_spec(program) as restore_call_spec,
        _separate_unread_names(program) as share_buffers,
    ):
        try:
            rewritten = program.run_decompositions(table)
        except Exception as error:  # torch's verifier
            if _LOST_CONSTANT not in str(error):
                raise
            with _preserve_constants(program):
                rewritten = program.run_decompositions(table)
        restore_call_spec(rewritten)
        share_buffers(rewritten)
    return rewritten


@contextmanager
def _separate_unread_names(
    program: ExportedProgram,
) -> Iterator[Callable[[ExportedProgram], None]]:
    """Give a buffer with two names another one in the block, by the name that the graph ignores.

    torch cannot rewrite a graph that writes into one of two inputs with the same memory. The
    context manager yields a function that sets the shared buffers of a program.
    """
    ignored = {node.name for node in program.graph.find_nodes(op="placeholder") if not node.users}
    buffers = program.graph_signature.inputs_to_buffers
    names = [target for name, target in buffers.items() if name in ignored]
    tables = program.constants, program.state_dict
    counts = Counter(id(value) for table in tables for value in table.values())
    shared = [{n: t[n] for n in names if n in t and counts[id(t[n])] > 1} for t in tables]

    def share_buffers(exported: ExportedProgram) -> None:
        exported.constants.update(shared[0])
        exported.state_dict.update(shared[1])

    with restore_on_exit(lambda: share_buffers(program)):
        for table, values in zip(tables, shared, strict=True):
            table.update({name: torch.empty_like(value) for name, value in values.items()})
        yield share_buffers


@contextmanager
def _flat_call_spec(program: ExportedProgram) -> Iterator[Any]:
    """Make the call of ``program`` flat in the block: leaves in, a tuple of leaves out.

    The context manager yields a function that restores the original call spec of a program.
    """
    signature = program.module_call_graph[0].signature if program.module_call_graph else None
    if signature is None:
        yield lambda _: None
        return
    saved = signature.in_spec, signature.out_spec, signature.forward_arg_names
    examples = program.example_inputs
    user_inputs = list(program.graph_signature.user_inputs)
    names = [node.name for node in program.graph.find_nodes(op="placeholder")]
    names = names[len(names) - len(user_inputs) :]

    def restore_call_spec(rewritten: ExportedProgram) -> None:
        for exported in (program, rewritten):
            current: Any = exported.module_call_graph[0].signature
            current.in_spec, current.out_spec, current.forward_arg_names = saved
            set_example_inputs(exported, examples)

    with restore_on_exit(lambda: restore_call_spec(program)):
        signature.in_spec = pytree.tree_structure(((0,) * len(user_inputs), {}))
        signature.out_spec = pytree.tree_structure((0,) * signature.out_spec.num_leaves)
        signature.forward_arg_names = names
        # With examples torch adds checks of the inputs by their positions in the containers.
        set_example_inputs(program, None)
        yield restore_call_spec


@contextmanager
def _preserve_constants(program: ExportedProgram) -> Iterator[None]:
    """Add constants that torch lifts out of a new graph to ``program`` in the block.

    torch copies the constants of ``program`` to the new program. Other threads are not affected.
    """
    thread = threading.get_ident()
    original_constants = dict(program.constants)

    def wrap_lift(original: Callable[..., Any]) -> Callable[..., Any]:
        @functools.wraps(original)
        def lift_constants(*args: Any, **kwargs: Any) -> Any:
            constants = original(*args, **kwargs)
            if threading.get_ident() == thread:
                program.constants.update(
                    {k: v for k, v in constants.items() if k not in original_constants}
                )
            return constants

        return lift_constants

    with (
        restore_on_exit(lambda: set_constants(program, original_constants)),
        wrap_constant_lifting(wrap_lift),
    ):
        yield

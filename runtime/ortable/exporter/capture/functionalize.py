"""Steps of torch on an exported program before it is converted, each only when needed:
functionalisation when the graph writes in place, decomposition of operators without a converter
that the tables name, and the table that the user chose. In comes an ExportedProgram, out go
another and what was done. Called by exported.py; custom_operators.py takes its decompositions."""

from __future__ import annotations

import contextlib
import functools
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any

import torch
from torch.export import ExportedProgram
from torch.fx import Graph, GraphModule, Interpreter, Node
from torch.fx.node import map_arg

from ortable.compat.torch import (
    HigherOrderOperator,
    OperatorBase,
    OpOverload,
    composite_kernel,
    constants_lifted_through,
    get_decompositions,
    is_alias_of,
    is_composite,
    overload_name,
    pytree,
    set_constants,
    set_example_inputs,
)
from ortable.compat.undone import undone
from ortable.errors import ExportError
from ortable.exporter.dispatchers.dispatcher import direct_converter, own_converter
from ortable.exporter.request.module_calls import AUTOCAST
from ortable.exporter.request.program import ExportOptions
from ortable.interpreter.control_flow import call_of
from ortable.interpreter.modules import find_attribute
from ortable.interpreter.mutation import first_write, writes
from ortable.interpreter.tables import ConverterTables
from ortable_generated.aten import traits


def hidden_views(
    graph_module: GraphModule, dispatcher: Any, mutates: Mapping[str, str]
) -> dict[OperatorBase, Callable[..., Any]]:
    """The bodies of composite operators of the graph that return memory of an input, or write into
    one, which their schemas do not say: ``meshgrid``, ``broadcast_tensors``, ``instance_norm`` with
    running statistics.

    ``mutates``: operator -> the flag with which it writes into its running statistics.

    Raises ExportError where a converter of the user's own takes such an operator whole.
    """
    found: dict[OperatorBase, Callable[..., Any]] = {}
    for node in operators_of(graph_module):
        target: Any = node.target
        if target in found:
            continue
        shown = _is_identity(node) or target.name() in traits.HIDDEN_VIEW
        if is_composite(target) and writes(node, mutates) is not None:
            found[target] = composite_body(target)
            continue
        if not shown and not _hides_a_view(node):
            continue
        if own_converter(dispatcher, target.name()) is not None:
            raise ExportError(
                f"node '{node.name}' ({target.name()}) returns memory of its input, and the graph "
                "writes in place; torch loses such a write where your converter takes the operator "
                "whole. Remedy: do not write in place, or leave the converter out."
            )
        if not shown:
            found[target] = composite_body(target)
    return found


def _hides_a_view(node: Node) -> bool:
    """Whether a composite operator returns memory of an input that its schema does not name."""
    target: Any = node.target
    schema = target._schema
    if schema.is_mutable or not is_composite(target) or target.name() in traits.RETURNS_NEW_STORAGE:
        return False
    if target.name() in traits.IDENTITY_IN_EVAL:  # it draws: no decomposition would be the same
        return False
    return not any(r.alias_info is not None for r in schema.returns) and _returns_an_input(node)


@contextlib.contextmanager
def shown_views(graph_module: GraphModule) -> Iterator[None]:
    """For as long as the block runs, who reads dropout that does nothing reads its input, which it
    returns, and ``unsafe_split`` is ``split``: torch takes both for copies."""
    changed: list[tuple[Node, Any, Any, Any]] = []

    def undo() -> None:
        for user, target, args, kwargs in reversed(changed):
            user.target, user.args, user.kwargs = target, args, kwargs

    with undone(undo):
        for node in operators_of(graph_module):
            target: Any = node.target
            plain = traits.HIDDEN_VIEW.get(target.name())
            if plain is not None:
                changed.append((node, target, node.args, node.kwargs))
                node.target = _overload(plain)
            elif _is_identity(node):
                source = _given(node)["input"]
                for user in list(node.users):
                    changed.append((user, user.target, user.args, user.kwargs))
                    user.replace_input_with(node, source)
        yield


def _is_identity(node: Node) -> bool:
    """Whether ``node`` is dropout in eval mode, or that drops nothing: it returns its input."""
    target: Any = node.target
    if target.name() not in traits.IDENTITY_IN_EVAL:
        return False
    given = _given(node)
    return given.get("train") is False or given.get("p") == 0


def _overload(name: str) -> Any:
    """The overload ``aten::split.Tensor``."""
    namespace, _, rest = name.partition("::")
    packet, _, overload = rest.partition(".")
    return getattr(getattr(getattr(torch.ops, namespace), packet), overload or "default")


def _given(node: Node) -> dict[str, Any]:
    """The arguments of a call by name."""
    target: Any = node.target
    names = [argument.name for argument in target._schema.arguments]
    return {**dict(zip(names, node.args, strict=False)), **node.kwargs}


def _returns_an_input(node: Node) -> bool:
    """Whether a result of a call shares memory with an input, tried on tensors without memory of
    the sizes that were traced (torch's own examples would note what the call asks of sizes); true
    where that fails."""
    target: Any = node.target
    given = map_arg((node.args, node.kwargs), lambda each: each.meta.get("val"))
    args, kwargs = pytree.tree_map(_without_memory, given)
    inputs = [each for each in pytree.tree_leaves((args, kwargs)) if torch.is_tensor(each)]
    if not inputs:
        return False
    try:
        with torch.no_grad():
            results = pytree.tree_leaves(target(*args, **kwargs))
    except Exception:  # what torch raises for such tensors says nothing about memory
        return True
    tensors = [each for each in results if torch.is_tensor(each)]
    return any(is_alias_of(result, each) for result in tensors for each in inputs)


def _without_memory(value: Any) -> Any:
    if isinstance(value, torch.Tensor):
        sizes, strides = ([_traced_size(n) for n in each] for each in (value.shape, value.stride()))
        return torch.empty_strided(sizes, strides, dtype=value.dtype, device="meta")
    return _traced_size(value)


def _traced_size(value: Any) -> Any:
    """The number that a symbolic one was traced with; 2 for one that depends on data."""
    if not isinstance(value, torch.SymInt | torch.SymFloat | torch.SymBool):
        return value
    return value.node.hint if value.node.has_hint() else 2


def composite_body(target: Any) -> Callable[..., Any]:
    """What a composite operator is made of. (``target.decompose`` would come back here for ever:
    torch registers the table's function as the operator's own composite kernel.)"""
    return composite_kernel(target)


def operators_of(graph_module: GraphModule) -> list[Node]:
    """The calls of overloads, in the graph and in the graphs inside it."""
    return [
        node
        for module in graphs_of(graph_module)
        for node in module.graph.nodes
        if isinstance(node.target, OpOverload)
    ]


def graphs_of(graph_module: GraphModule) -> list[GraphModule]:
    """The graph and the graphs inside it."""
    return [module for module in graph_module.modules() if isinstance(module, GraphModule)]


# vmap in a graph of torch.export is a pair of calls around operators on one element.
_VMAP = "torch._functorch.predispatch"


class FunctionalizationError(ExportError):
    """torch cannot rewrite a program that it made itself."""


def prepared(
    program: ExportedProgram,
    tables: ConverterTables,
    dispatcher: Any,
    options: ExportOptions,
    opset: int | None = None,
) -> tuple[ExportedProgram, list[str]]:
    """A program that writes nothing in place, and what was done to get it, in words.

    ``opset``: that of the model; operators of ONNX that are newer are written out.
    Composite operators stay whole unless ``options`` has a table.
    Raises FunctionalizationError when torch fails to rewrite the graph, ExportError for a write
    that it would lose.
    """
    table = options.table()
    reason = why_rewrite(program.graph_module, tables)
    hidden = (
        {} if reason is None else hidden_views(program.graph_module, dispatcher, tables.mutates)
    )
    if table is not None:
        chosen = options.decomposition_table
        name = chosen if isinstance(chosen, str) else "the user's"
        if isinstance(chosen, str):  # an entry of the user's own dict is meant
            for op in [op for op in table if own_converter(dispatcher, op.name()) is not None]:
                table.pop(op)  # the user's converter takes it whole
        rewritten = _run(program, {**hidden, **table}, writes=reason is not None)
        return rewritten, [f"decomposed with the table '{name}' ({len(table)} entries)"]
    needed = to_decompose(program.graph_module, tables, dispatcher, opset)
    if reason is None and not needed:
        return program, []
    notes = []
    if reason is not None:
        needed = {**needed, **hidden}
        notes.append(f"functionalised: {reason}")
    if needed:
        notes.append(f"decomposed: {', '.join(sorted(op.name() for op in needed))}")
    rewritten = _run(program, needed, writes=reason is not None)
    more = to_decompose(rewritten.graph_module, tables, dispatcher, opset)
    if more:
        notes.append(f"decomposed: {', '.join(sorted(op.name() for op in more))}")
        rewritten = _run(rewritten, more)
    return rewritten, notes


def why_rewrite(graph_module: GraphModule, tables: ConverterTables) -> str | None:
    """Why the graph cannot be converted as it is: an in-place write, or a region that torch must
    write out."""
    found = first_write(graph_module, tables)
    if found is not None:
        node, why = found
        return f"node '{node.name}' writes to its argument, {why}"
    seen: set[Any] = set()
    for node in (node for module in graphs_of(graph_module) for node in module.graph.nodes):
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


def to_decompose(
    graph_module: GraphModule, tables: ConverterTables, dispatcher: Any, opset: int | None = None
) -> dict[OperatorBase, Callable[..., Any]]:
    """Decompositions of the graph's operators that have no converter and are named in the table of
    decompositions, and of those of torch.onnx.ops that ONNX has in later opsets only."""
    nodes = operators_of(graph_module)
    wanted = _too_new(nodes, dispatcher, opset) if opset is not None else {}
    if not tables.decompose and not tables.foreach:
        return wanted
    names = frozenset((*tables.decompose, *tables.foreach))
    for node in nodes:
        target: Any = node.target
        name = target.name()
        if target in wanted or (name not in names and name.partition(".")[0] not in names):
            continue
        native = tables.converters.get(name)
        if direct_converter(dispatcher, name, target, native) is None:
            function = tables.foreach.get(name) or _decomposition(target)
            if function is not None:
                wanted[target] = function
    return wanted


def _too_new(
    nodes: list[Node], dispatcher: Any, opset: int
) -> dict[OperatorBase, Callable[..., Any]]:
    """torch's own bodies of the operators ``onnx::Name.opset23`` that are newer than ``opset``."""
    wanted: dict[OperatorBase, Callable[..., Any]] = {}
    targets: set[Any] = {node.target for node in nodes}
    for target in sorted((t for t in targets if t.namespace == "onnx"), key=str):
        since = overload_name(target).removeprefix("opset")
        body = torch.onnx.ops.aten_decompositions().get(target)
        own = own_converter(dispatcher, target.name())
        if since.isdigit() and int(since) > opset and body is not None and own is None:
            wanted[target] = body
    return wanted


def _decomposition(target: Any) -> Callable[..., Any] | None:
    found = get_decompositions([target]).get(target)
    if found is None and is_composite(target):
        return composite_body(target)
    return found


def _run(
    program: ExportedProgram, table: dict[Any, Any], *, writes: bool = False
) -> ExportedProgram:
    graph = program.graph_module
    shown = shown_views(graph) if writes else contextlib.nullcontext()
    try:
        with shown, marked_regions(graph), scalars_as_operators(graph):
            return decomposed(program, table)
    except Exception as error:  # torch raises what it likes from inside a decomposition
        first = str(error).strip().splitlines()[0] if str(error).strip() else ""
        remedy = (
            ". A branch or a loop body writes into a tensor from outside: return the new value"
            if "copy_.default' is not functional" in first
            else ""
        )
        raise FunctionalizationError(
            "torch could not rewrite the graph without in-place writes and unsupported "
            f"operators: {type(error).__name__}: {first}{remedy}"
        ) from error


# -- constants inside branches and loop bodies, which torch cannot functionalise: ``y[0] = 5.0`` in
# a branch is a 0-d tensor of the graph of that branch. While torch rewrites a program they are
# made by an operator instead


@contextmanager
def scalars_as_operators(graph_module: GraphModule) -> Iterator[None]:
    """In the block, the graphs inside ``graph_module`` have no 0-d constants; afterwards it is as
    before."""
    replaced = []
    for owner in list(graph_module.modules()):
        for name, inner in list(owner.named_children()):
            if isinstance(inner, GraphModule) and any(_scalar(inner, n) for n in inner.graph.nodes):
                replaced.append((owner, name, inner))

    def undo() -> None:
        for owner, name, inner in replaced:
            setattr(owner, name, inner)

    with undone(undo):
        for owner, name, inner in reversed(replaced):  # the innermost first: copies hold copies
            setattr(owner, name, _without_scalars(inner))
        yield


def _scalar(graph_module: GraphModule, node: Node) -> torch.Tensor | None:
    if node.op != "get_attr" or "." in str(node.target):
        return None
    found = getattr(graph_module, str(node.target), None)
    return found if isinstance(found, torch.Tensor) and found.dim() == 0 else None


def _without_scalars(graph_module: GraphModule) -> GraphModule:
    graph = Graph()
    known: dict[Node, Node] = {}
    for node in graph_module.graph.nodes:
        value = _scalar(graph_module, node)
        if value is None:
            known[node] = graph.node_copy(node, known.__getitem__)
        else:
            known[node] = graph.call_function(
                torch.ops.aten.scalar_tensor.default, (value.item(),), {"dtype": value.dtype}
            )
            known[node].meta = dict(node.meta)
    return GraphModule(graph_module, graph)


# -- regions that torch writes out when it decomposes a graph (no_grad, autocast): their nodes keep
# the submodule that they come from, and those of autocast a mark, so that they can be one
# function. Without this, torch gives them all the metadata of the node of the region


class _Region(torch.nn.Module):
    """Runs the graph of a region node by node, which makes torch keep the metadata of each."""

    def __init__(self, graph_module: GraphModule) -> None:
        super().__init__()
        self.graph_module = graph_module

    def forward(self, *operands: Any) -> Any:
        """What the graph returns."""
        return Interpreter(self.graph_module).run(*operands)


@contextmanager
def marked_regions(graph_module: GraphModule) -> Iterator[None]:
    """Replace the graphs of the regions for as long as the block runs; the program is left as it
    was."""
    replaced: dict[str, GraphModule] = {}

    def undo() -> None:
        for path, original in replaced.items():
            setattr(graph_module, path, original)

    with undone(undo):
        _mark(graph_module, replaced)
        yield


def _mark(graph_module: GraphModule, replaced: dict[str, GraphModule]) -> None:
    """Puts marked copies into a graph; ``replaced`` gets what was there."""
    for node in graph_module.graph.nodes:
        name = getattr(node.target, "__name__", "")
        if name not in traits.REGION or not isinstance(node.target, HigherOrderOperator):
            continue
        call = call_of(name)
        assert call is not None
        held: Any = node.args[call.before]
        path = str(held.target)
        inner = find_attribute(graph_module, path, None)
        if not isinstance(inner, GraphModule) or "." in path:
            continue
        copy = _copy(inner, node)
        _mark(copy, {})
        replaced[path] = inner
        setattr(graph_module, path, _Region(copy))


def _copy(inner: GraphModule, node: Node) -> GraphModule:
    """The graph of a region with copies of its nodes, marked when the region casts."""
    graph = Graph()
    found: dict[Node, Node] = {}
    returned = graph.graph_copy(inner.graph, found)
    graph.output(returned)
    flag = traits.CASTS.get(node.target.__name__)  # type: ignore[union-attr]
    if flag is not None and node.args[flag]:
        around = dict(node.meta.get("nn_module_stack") or {})
        path = next(reversed(around.values()))[0] if around else ""
        for made in found.values():
            stack = dict(made.meta.get("nn_module_stack") or {})
            rest = {key: entry for key, entry in stack.items() if key not in around}
            mark = {f"autocast:{node.name}": (path, AUTOCAST)}
            made.meta = {**made.meta, "nn_module_stack": {**around, **mark, **rest}}
    return GraphModule(inner, graph)


# -- the decomposition of torch, run without the containers of the call and with the constants that
# decompositions make. torch traces the program again through the containers of its arguments and
# results. What makes a container may compute (a cache of transformers concatenates its first keys
# with an empty tensor), or nobody may have registered its class any more; and torch forgets the
# tensors that are made on the way: "Constant tensor lifted_tensor_0 is not in the constants
# dictionary"

_LOST_CONSTANT = "is not in the constants dictionary"


def decomposed(program: ExportedProgram, table: Mapping[Any, Any]) -> ExportedProgram:
    """``program.run_decompositions(table)``; ``program`` itself is left as it was."""
    with _flat(program) as restored:
        try:
            made = program.run_decompositions(table)
        except Exception as error:  # torch's verifier
            if _LOST_CONSTANT not in str(error):
                raise
            with _constants_kept(program):
                made = program.run_decompositions(table)
        restored(made)
    return made


@contextmanager
def _flat(program: ExportedProgram) -> Iterator[Any]:
    """In the block the call of ``program`` is a flat one: leaves in, a tuple of leaves out. The
    function that the block gets gives its first argument the call that the program has."""
    signature = program.module_call_graph[0].signature if program.module_call_graph else None
    if signature is None:
        yield lambda made: None
        return
    held = signature.in_spec, signature.out_spec, signature.forward_arg_names
    examples = program.example_inputs
    users = list(program.graph_signature.user_inputs)
    names = [node.name for node in program.graph.find_nodes(op="placeholder")]
    names = names[len(names) - len(users) :]

    def restored(made: ExportedProgram) -> None:
        for each in (program, made):
            entry: Any = each.module_call_graph[0].signature
            entry.in_spec, entry.out_spec, entry.forward_arg_names = held
            set_example_inputs(each, examples)

    with undone(lambda: restored(program)):
        signature.in_spec = pytree.tree_structure(((0,) * len(users), {}))
        signature.out_spec = pytree.tree_structure((0,) * signature.out_spec.num_leaves)
        signature.forward_arg_names = names
        # With examples torch adds checks of the inputs by their places in the containers.
        set_example_inputs(program, None)
        yield restored


@contextmanager
def _constants_kept(program: ExportedProgram) -> Iterator[None]:
    """In the block the constants that torch lifts out of a new graph, in this thread, are also
    constants of ``program``, whose own torch gives to the new one."""
    thread = threading.get_ident()
    own = dict(program.constants)

    def wrapped(original: Callable[..., Any]) -> Callable[..., Any]:
        @functools.wraps(original)
        def kept(*args: Any, **kwargs: Any) -> Any:
            found = original(*args, **kwargs)
            if threading.get_ident() == thread:
                program.constants.update({k: v for k, v in found.items() if k not in own})
            return found

        return kept

    with undone(lambda: set_constants(program, own)), constants_lifted_through(wrapped):
        yield

"""What ortable expects of each private interface of torch: one check a name or function of
ortable.compat.torch, run with the installed version. In words of one sentence, so that a failure
names the break."""

from __future__ import annotations

import contextlib
import functools
import operator
import sys
from collections.abc import Callable
from typing import Any

import torch
from functorch.compile import make_boxed_func

from ortable.compat import torch as compat
from ortable.compat import torch_logging as logging_compat

__all__ = ["CHECKS", "CHECKS_OF_LOGGING"]

CHECKS: dict[str, tuple[str, Callable[[], Any]]] = {}
ADD = torch.ops.aten.add.Tensor


def expects(name: str, what: str) -> Callable[[Callable[[], Any]], Callable[[], Any]]:
    """Registers the check of a name: it raises or returns False where torch is another."""

    def register(check: Callable[[], Any]) -> Callable[[], Any]:
        assert name not in CHECKS, name
        CHECKS[name] = what, check
        return check

    return register


def expect(name: str, what: str, check: Callable[[], Any]) -> None:
    expects(name, what)(check)


def subclass_of(name: str, methods: tuple[str, ...]) -> Callable[[], bool]:
    return lambda: all(hasattr(getattr(compat, name), method) for method in methods)


# Operators
expect(
    "OpOverload",
    "operators of torch.ops are of it, with name() and a schema of named arguments",
    lambda: (
        isinstance(ADD, compat.OpOverload)
        and ADD.name() == "aten::add.Tensor"
        and [argument.name for argument in ADD._schema.arguments] == ["self", "other", "alpha"]
    ),
)
expect(
    "OpOverloadPacket",
    "operators of torch.ops without an overload are of it",
    lambda: isinstance(torch.ops.aten.add, compat.OpOverloadPacket),
)
expect(
    "HigherOrderOperator",
    "torch.ops.higher_order.cond is of it, with name()",
    lambda: (
        isinstance(torch.ops.higher_order.cond, compat.HigherOrderOperator)
        and torch.ops.higher_order.cond.name() == "cond"
    ),
)
expect(
    "OperatorBase",
    "the base of overloads and higher-order operators",
    lambda: (
        issubclass(compat.OpOverload, compat.OperatorBase)
        and issubclass(compat.HigherOrderOperator, compat.OperatorBase)
    ),
)
expect(
    "higher_order_operators",
    "higher-order operators by name",
    lambda: "cond" in compat.higher_order_operators,
)
expect(
    "DispatchKey",
    "keys of py_kernels, CompositeImplicitAutograd and Autograd among them",
    lambda: (
        compat.DispatchKey.CompositeImplicitAutograd != compat.DispatchKey.Autograd
        and isinstance(torch.ops.aten.lstm.input.py_kernels, dict)
    ),
)
expect(
    "TensorGuards",
    "matches all tensors at once, and sees another dtype, other strides and requires_grad",
    lambda: _tensor_guards(),
)
expect(
    "dict_version",
    "another number after a write into the dict",
    lambda: _dict_version(),
)
expect(
    "dispatch_keys",
    "prints the keys of a tensor",
    lambda: "CPU" in str(compat.dispatch_keys(torch.ones(1))),
)
expect(
    "TensorBase",
    "the class in which torch.Tensor.relu is a method",
    lambda: torch.Tensor.relu.__objclass__ is compat.TensorBase,
)
expect(
    "all_operator_names",
    "full names of all operators, overload included",
    lambda: {"aten::add.Tensor", "aten::_foreach_add.List"} <= set(compat.all_operator_names()),
)
expect(
    "schemas_of_packet",
    "the schemas of a name, each with its overload_name; none for an unknown name",
    lambda: (
        {s.overload_name for s in compat.schemas_of_packet("aten::add")} >= {"Tensor", "Scalar"}
        and not compat.schemas_of_packet("aten::no_such")
    ),
)
expect(
    "resolve_packet",
    "the overload that arguments call",
    lambda: (
        compat.resolve_packet("aten::add", torch.ones(1), 2.0) in ("Scalar", "Tensor")
        and compat.resolve_packet("aten::sum", torch.ones(1), [0]) == "dim_IntList"
    ),
)
expect(
    "find_builtin",
    "the name of the operator that a function of torch is",
    lambda: compat.find_builtin(torch.relu) == "aten::relu",
)
expect(
    "decomposition_table",
    "functions by overload",
    lambda: callable(compat.decomposition_table[torch.ops.aten.addcmul.default]),
)
expect(
    "get_decompositions",
    "a table of the functions for some operators",
    lambda: (
        torch.ops.aten.addcmul.default
        in compat.get_decompositions([torch.ops.aten.addcmul.default])
    ),
)
expect(
    "core_aten_decompositions",
    "a table of functions by overload",
    lambda: any(isinstance(key, compat.OpOverload) for key in compat.core_aten_decompositions()),
)


@expects("math_attention", "results and log-sum-exp of (q, k, v, score, block mask, scale, ...)")
def _math_attention() -> bool:
    import inspect

    parameters = list(inspect.signature(compat.math_attention).parameters)
    return parameters[:7] == [
        "query", "key", "value", "score_mod", "block_mask", "scale", "kernel_options",
    ]  # fmt: skip


expect("check", "raises RuntimeError where a condition does not hold", lambda: _raises_check())


def _raises_check() -> bool:
    compat.check(True)
    with contextlib.suppress(RuntimeError):
        compat.check(False)
        return False
    return True


expect(
    "qualified_op_name",
    "the name of a packet",
    lambda: compat.qualified_op_name(torch.ops.aten.add) == "aten::add",
)
expect(
    "overload_name",
    "the overload of an operator",
    lambda: (
        compat.overload_name(ADD) == "Tensor"
        and compat.overload_name(torch.ops.aten.relu.default) == "default"
    ),
)
expect(
    "can_decompose",
    "true for a composite operator, false for add",
    lambda: compat.can_decompose(torch.ops.aten.pad.default) and not compat.can_decompose(ADD),
)
expect(
    "is_composite",
    "true for linear, false for add",
    lambda: compat.is_composite(torch.ops.aten.linear.default) and not compat.is_composite(ADD),
)


@expects("composite_kernel", "computes a composite operator of two arguments")
def _composite_kernel() -> bool:
    x = torch.ones(2, 2)
    found = compat.composite_kernel(torch.ops.aten.linear.default)(x, x)
    return bool(found.equal(torch.full((2, 2), 2.0)))


@expects("forget_dispatch", "an operator looks for its kernels again")
def _forget_dispatch() -> bool:
    op = torch.ops.aten.relu.default
    compat.forget_dispatch(op)
    return bool(op(torch.tensor(-1.0)) == 0)


@torch.library.custom_op("ortable_compat::twice", mutates_args=())
def _twice(x: torch.Tensor) -> torch.Tensor:
    return x * 2


expect(
    "CustomOpDef", "what custom_op makes is of it", lambda: isinstance(_twice, compat.CustomOpDef)
)
expect(
    "custom_op_definitions",
    "the definitions of custom_op by name",
    lambda: compat.custom_op_definitions.get("ortable_compat::twice") is _twice,
)
expect(
    "is_custom",
    "true for what custom_op made, by its name",
    lambda: compat.is_custom("ortable_compat::twice") and not compat.is_custom("aten::add"),
)
expect(
    "op_of_custom",
    "the overload of what custom_op made",
    lambda: compat.op_of_custom(_twice) is torch.ops.ortable_compat.twice.default,
)
expect(
    "kernel_of_custom",
    "the function that custom_op decorates, None for another name",
    lambda: (
        compat.kernel_of_custom("ortable_compat::twice")(torch.ones(1)).item() == 2
        and compat.kernel_of_custom("aten::add") is None
    ),
)


# Memory
@expects("to_dlpack", "a capsule of bools, floats and pairs over the memory")
def _to_dlpack() -> bool:
    return all(
        compat.from_dlpack(compat.to_dlpack(tensor)).data_ptr() == tensor.data_ptr()
        for tensor in (torch.ones(2), torch.ones(2, dtype=torch.bool), torch.ones(2).bfloat16())
    )


@expects("from_dlpack", "a tensor over the memory of a capsule, as strides say")
def _from_dlpack() -> bool:
    given = torch.arange(6).reshape(2, 3).t()
    return compat.from_dlpack(compat.to_dlpack(given)).stride() == given.stride()


@expects("reinterpret_tensor", "(tensor, size, stride, offset further) is a tensor, no view")
def _reinterpret_tensor() -> bool:
    base = torch.arange(6.0)[2:]
    found = compat.reinterpret_tensor(base, (2, 2), (2, 1), 0)
    return found._base is None and found.tolist() == [[2, 3], [4, 5]]


@expects("storage_identity", "equal for views of one storage, also without memory")
def _storage_identity() -> bool:
    x, y = torch.ones(4), torch.ones(4, device="meta")
    return (
        compat.storage_identity(x) == compat.storage_identity(x[1:])
        and compat.storage_identity(y) == compat.storage_identity(y[1:])
        and compat.storage_identity(x) != compat.storage_identity(torch.ones(4))
    )


# Fake tensors and tracing
expect(
    "FakeTensorMode",
    "tensors made under it, and those it takes, are without memory",
    lambda: isinstance(compat.FakeTensorMode().from_tensor(torch.ones(2)), compat.FakeTensor),
)


@expects("FakeTensor", "what torch.export shows of arguments is of it")
def _fake_tensor() -> bool:
    with compat.FakeTensorMode():
        return isinstance(torch.ones(2) + 1, compat.FakeTensor)


@expects("DynamicOutputShapeException", "what nonzero raises without memory")
def _dynamic_output() -> bool:
    return _raises(compat.DynamicOutputShapeException, lambda: torch.nonzero(torch.ones(2)))


@expects("DataDependentOutputException", "what item() raises without memory")
def _data_dependent() -> bool:
    return _raises(compat.DataDependentOutputException, lambda: torch.ones(2)[0].item())


def _raises(kind: type[Exception], call: Any) -> bool:
    with compat.FakeTensorMode():
        try:
            call()
        except kind:
            return True
    return False


@expects("unset_fake_temporarily", "inside, tensors have memory")
def _unset() -> bool:
    with compat.FakeTensorMode(), compat.unset_fake_temporarily():
        return not isinstance(torch.ones(2), compat.FakeTensor)


@expects("make_fx", "a graph of a function, with tracing_mode and a decomposition_table")
def _make_fx() -> bool:
    table = {torch.ops.aten.silu.default: lambda x: x * torch.sigmoid(x)}
    silu = torch.nn.SiLU()
    traced = compat.make_fx(silu, decomposition_table=table, tracing_mode="real")(torch.ones(2))
    return any(node.target is torch.ops.aten.sigmoid.default for node in traced.graph.nodes)


@expects("get_proxy_mode", "None outside make_fx, something inside")
def _get_proxy_mode() -> bool:
    seen = []

    def fn(x: torch.Tensor) -> torch.Tensor:
        seen.append(compat.get_proxy_mode())
        return x + 1

    compat.make_fx(fn)(torch.ones(1))
    return compat.get_proxy_mode() is None and seen[-1] is not None


expect(
    "ModuleStackTracer",
    "call_module(module, forward, args, kwargs) is asked at each call of a module",
    lambda: callable(compat.ModuleStackTracer.call_module),
)


@expects("disable_current_modes", "inside, tensors have memory and nothing is traced")
def _disable_current_modes() -> bool:
    with compat.FakeTensorMode(), compat.disable_current_modes():
        return not isinstance(torch.ones(2), compat.FakeTensor)


expect(
    "is_traceable_wrapper_subclass",
    "false for tensors and parameters",
    lambda: not compat.is_traceable_wrapper_subclass(torch.nn.Parameter(torch.ones(1))),
)


@expects("BoxedCodeGen", "a graph with it takes one list of arguments, and empties it")
def _boxed() -> bool:
    traced = torch.fx.symbolic_trace(lambda x, y: x + y)
    traced.graph.set_codegen(compat.BoxedCodeGen())
    traced.recompile()
    given = [torch.ones(1), torch.ones(1)]
    return traced(given).item() == 2 and given == []


expect(
    "PyTreeCodeGen",
    "made of a PyTreeInfo, which it keeps as pytree_info",
    lambda: compat.PyTreeCodeGen(_exported_info()).pytree_info.orig_args == ["x"],
)
expect(
    "PyTreeInfo",
    "a tuple of orig_args, in_spec and out_spec",
    lambda: compat.PyTreeInfo._fields == ("orig_args", "in_spec", "out_spec"),
)
expect(
    "codegen_of",
    "what writes the arguments of a graph of torch.export; pytree_info has their structure",
    lambda: _exported_info().out_spec.num_leaves == 1,
)


class _Model(torch.nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x + 1


def _program(**dynamic: Any) -> torch.export.ExportedProgram:
    return torch.export.export(_Model(), (torch.ones(3, 2),), **dynamic)


def _exported_info() -> Any:
    return compat.codegen_of(_program().module().graph).pytree_info


@expects("pytree", "flattens and rebuilds; tables of node types, built-in ones apart")
def _pytree() -> bool:
    tree = {"a": [1, (2, 3)], "b": None}
    leaves, spec = compat.pytree.tree_flatten(tree)
    return (
        compat.pytree.tree_unflatten(leaves, spec) == tree
        and dict in compat.pytree.SUPPORTED_NODES
        and dict in compat.pytree.BUILTIN_TYPES
        and dict in compat.pytree.STANDARD_DICT_TYPES
        and callable(compat.pytree.SUPPORTED_NODES[dict].flatten_fn)
        and compat.pytree.tree_structure((1, 2)).num_leaves == 2
        and compat.pytree.tree_structure([(1, 2)]).child(0).num_leaves == 2
    )


class _Pair:
    def __init__(self, a: Any, b: Any) -> None:
        self.a, self.b = a, b


expect(
    "fx_pytree",
    "two tables of classes, which register_pytree_flatten_spec fills",
    lambda: (
        isinstance(compat.fx_pytree.SUPPORTED_NODES, dict)
        and isinstance(compat.fx_pytree.SUPPORTED_NODES_EXACT_MATCH, dict)
    ),
)


@expects("unregister_pytree", "a registered class is a leaf again")
def _unregister() -> bool:
    compat.pytree.register_pytree_node(
        _Pair, lambda p: ([p.a, p.b], None), lambda items, _: _Pair(*items)
    )
    compat.fx_pytree.register_pytree_flatten_spec(_Pair, lambda p, spec: [p.a, p.b])
    known = _Pair in compat.pytree.SUPPORTED_NODES
    compat.unregister_pytree(_Pair)
    return (
        known
        and _Pair not in compat.pytree.SUPPORTED_NODES
        and _Pair not in compat.fx_pytree.SUPPORTED_NODES
        and len(compat.pytree.tree_leaves(_Pair(1, 2))) == 1
    )


expect(
    "node_type",
    "list for a list; one type for all namedtuples",
    lambda: (
        compat.node_type([]) is list
        and compat.node_type(sys.version_info) is not list
        and compat.node_type(torch.ones(1)) not in compat.pytree.SUPPORTED_NODES
    ),
)


@expects("script_method", "runs the forward of a TorchScript module")
def _script_method() -> bool:
    scripted = torch.jit.trace(_Model(), torch.ones(1), check_trace=False)
    return bool(compat.script_method(scripted, "forward")(torch.ones(1)) == 2)


@expects("fsdp_parameters", "iterates, and finds nothing where nothing is sharded")
def _fsdp_parameters() -> bool:
    if not torch.distributed.is_available():
        return list(compat.fsdp_parameters()) == []
    from torch.distributed import _composable_state as states
    from torch.distributed import fsdp

    return fsdp and hasattr(states, "_module_state_mapping") and not any(compat.fsdp_parameters())


# Symbolic sizes
def _symbolic() -> Any:
    program = _program(dynamic_shapes={"x": {0: torch.export.Dim("n", max=9)}})
    placeholder = next(n for n in program.graph.nodes if n.op == "placeholder")
    return program, placeholder.meta["val"].shape[0]


expect(
    "ShapeEnv",
    "a size's environment is of it",
    lambda: isinstance(_symbolic()[1].node.shape_env, compat.ShapeEnv),
)
expect("symbol_of", "the symbol of a size", lambda: compat.symbol_of(_symbolic()[1]).is_Symbol)


@expects("is_alias_of", "true of a view and what it views, without memory, too")
def _is_alias_of() -> bool:
    with compat.FakeTensorMode():
        x = torch.ones(2)
        return compat.is_alias_of(x.view(1, 2), x) and not compat.is_alias_of(x + 0, x)


@expects("DimDynamic", "DUCK and STATIC, which a context of sizes takes")
def _dim_dynamic() -> bool:
    return isinstance(_traced(2, 3).shape[1], int)


@expects("StatelessSymbolicContext", "makes a size free that DUCK stands for")
def _context() -> bool:
    return isinstance(_traced(2, 3).shape[0], torch.SymInt)


@expects("GuardOnDataDependentSymNode", "what a size raises that nothing is known of")
def _data_dependent_size() -> bool:
    size = compat.ShapeEnv().create_unbacked_symint()
    try:
        bool(size == 3)
    except compat.GuardOnDataDependentSymNode:
        return True
    return False


def _traced(*shape: int) -> torch.Tensor:
    mode = compat.FakeTensorMode(shape_env=compat.ShapeEnv())
    sizes = [compat.DimDynamic.DUCK, *[compat.DimDynamic.STATIC] * (len(shape) - 1)]
    context = compat.StatelessSymbolicContext(dynamic_sizes=sizes)
    return mode.from_tensor(torch.ones(shape), symbolic_context=context)


expect(
    "SYMPY_INTERP",
    "what the code of guards reads, by name",
    lambda: {"IsNonOverlappingAndDenseIndicator", "math"} <= set(compat.SYMPY_INTERP),
)


@expects("fx_config", "has backed_size_oblivious, and patch() for a block")
def _fx_config() -> bool:
    before = compat.fx_config.backed_size_oblivious
    with compat.fx_config.patch(backed_size_oblivious=True):
        inside = compat.fx_config.backed_size_oblivious
    return inside is True and compat.fx_config.backed_size_oblivious == before


@expects("sympy_interp", "(analysis, values, expression) evaluates an expression")
def _sympy_interp() -> bool:
    import sympy

    n = sympy.Symbol("n", integer=True)
    return bool(compat.sympy_interp(compat.PythonReferenceAnalysis, {n: 3}, n * 2 + 1) == 7)


expect(
    "PythonReferenceAnalysis",
    "has functions of Python by operator",
    lambda: compat.PythonReferenceAnalysis.floordiv(7, 2) == 3,
)


@expects("PythonPrinter", "prints an expression, symbols by _print_Symbol")
def _printer() -> bool:
    import sympy

    class Printer(compat.PythonPrinter):
        def _print_Symbol(self, symbol: Any) -> str:
            return "size"

    return Printer().doprint(sympy.Symbol("n") + 1) in ("size + 1", "1 + size")


@expects("ValueRanges", "made of two bounds, lower and upper")
def _ranges() -> bool:
    found = compat.ValueRanges(2, compat.int_oo)
    return found.lower == 2 and found.upper == compat.int_oo


@expects("bound_sympy", "(expression, ranges by symbol) is a range")
def _bound() -> bool:
    import sympy

    n = sympy.Symbol("n", integer=True)
    found = compat.bound_sympy(n + 1, {n: compat.ValueRanges(2, 4)})
    return (found.lower, found.upper) == (3, 5)


expect("int_oo", "larger than ints", lambda: compat.int_oo > 10**9)


# torch.compile
@expects("TracingContext", "try_get() is None outside a compilation; the fields of one")
def _tracing_context() -> bool:
    from torch._guards import TracingContext

    found = TracingContext(None)
    return compat.TracingContext.try_get() is None and all(
        hasattr(found, name) for name in ("fw_metadata", "output_strides", "fakify_first_call")
    )


@expects("aot_autograd", "gives graphs of ATen to fw_compiler, with a partition_fn")
def _aot_autograd() -> bool:
    seen = []

    def compiler(graph: Any, inputs: Any) -> Any:
        seen.extend(node.target for node in graph.graph.nodes if node.op == "call_function")
        return make_boxed_func(graph.forward)

    backend = compat.aot_autograd(
        fw_compiler=compiler, bw_compiler=compiler, partition_fn=compat.min_cut_partition
    )
    torch.compile(lambda x: (x * 3).sum(), backend=backend)(
        torch.ones(2, requires_grad=True)
    ).backward()
    torch.compiler.reset()
    return torch.ops.aten.mul.Tensor in seen


expect(
    "min_cut_partition",
    "(joint graph, inputs, num_fwd_outputs=...) is two graphs",
    lambda: _has_parameters(compat.min_cut_partition, "num_fwd_outputs"),
)


def _has_parameters(function: Any, *names: str) -> bool:
    import inspect

    return set(names) <= set(inspect.signature(function).parameters)


@expects("graph_break_reasons", "a list that grows by reason, user_stack and graph_break")
def _graph_break_reasons() -> bool:
    def function(x: Any) -> Any:
        torch._dynamo.graph_break()
        return x + 1

    before = list(compat.graph_break_reasons)
    torch.compile(function, backend="eager")(torch.ones(1))
    (found,) = [each for each in compat.graph_break_reasons if each not in before]
    torch.compiler.reset()
    named = found.reason.startswith("Call to") and found.user_stack[-1].name == "function"
    return found.graph_break is True and named


@expects("dynamo_profile", "get_code_state() is one dict, which fills as frames are compiled")
def _dynamo_profile() -> bool:
    torch.compiler.reset()
    state = compat.dynamo_profile.get_code_state()
    torch.compile(lambda x: x + 1, backend="eager")(torch.ones(2))
    filled = len(state) == 1 and compat.dynamo_profile.get_code_state() is state
    torch.compiler.reset()
    return filled


expect(
    "dynamo",
    "has mark_static_address(tensor, guard=...)",
    lambda: _has_parameters(compat.dynamo.mark_static_address, "t", "guard"),
)


@expects("dynamo_config", "has TORCH_CACHING_PRECOMPILE, what leaves out guards, and patch()")
def _dynamo_config() -> bool:
    with compat.dynamo_config.patch(install_free_tensors=True, skip_nnmodule_hook_guards=False):
        free = compat.dynamo_config.install_free_tensors
        return bool(free) and compat.dynamo_config.caching_precompile is False


@expects("functorch_config", "has the two settings of torch's cache, and patch() for a block")
def _functorch_config() -> bool:
    with compat.functorch_config.patch(
        {"bundled_autograd_cache": True, "force_non_lazy_backward_lowering": True}
    ):
        return bool(compat.functorch_config.bundled_autograd_cache)


expect(
    "BypassAOTAutogradCache",
    "an exception",
    lambda: issubclass(compat.BypassAOTAutogradCache, Exception),
)
expect("FXGraphCacheMiss", "an exception", lambda: issubclass(compat.FXGraphCacheMiss, Exception))
expect(
    "SerializableAOTDispatchCompiler",
    "made of a class of results and a compiler",
    lambda: compat.SerializableAOTDispatchCompiler(compat.OutputCode, lambda gm, inputs: gm),
)
expect(
    "SerializableCallable",
    "has the methods that aot_compile saves and loads with",
    subclass_of(
        "SerializableCallable",
        ("serialize_compile_artifacts", "deserialize_compile_artifacts", "__call__"),
    ),
)
expect(
    "deserialize_bundled_cache_entry",
    "takes the entry that `serialize` of a compiled function returns",
    lambda: _has_parameters(compat.deserialize_bundled_cache_entry, "entry"),
)


@expects("PrecompileContext", "record_artifact() keeps an artifact under its key")
def _precompile_context() -> bool:
    context = compat.PrecompileContext
    artifact = compat.BackendCacheArtifact("ortable test", b"content")
    context.record_artifact(artifact)
    found = context.serialize_artifact_by_key("ortable test")
    compat.forget_for_dynamo("ortable test")
    gone = context.serialize_artifact_by_key("ortable test") is None
    return gone and bool(found.content == artifact.content)


expect("forget_for_dynamo", "as PrecompileContext", _precompile_context)


expect(
    "BackendCacheArtifact",
    "made of a key and a content; subclasses have after_deserialization",
    lambda: (
        compat.BackendCacheArtifact("key", b"content").content == b"content"
        and hasattr(compat.BackendCacheArtifact, "after_deserialization")
    ),
)


@expects("precompiles", "None in a plain compilation, the name of what keeps it in others")
def _precompiles() -> bool:
    seen = []

    def backend(graph: Any, inputs: Any) -> Any:
        seen.append(compat.precompiles())
        raise RuntimeError

    fast = torch.compile(lambda x: x + 1, backend=backend, fullgraph=True)
    patch = torch._dynamo.config.patch
    for call in (fast, lambda x: fast.aot_compile(((x,), {}))):
        with contextlib.suppress(Exception):
            call(torch.ones(1))
    with contextlib.suppress(Exception), patch(caching_precompile=True):
        fast(torch.ones(2))
    torch.compiler.reset()
    return seen == [None, "aot_compile", "caching_precompile"]


@expects("package_name", "a text, where dynamo keeps packages")
def _package_name() -> bool:
    seen = []

    def backend(graph: Any, inputs: Any) -> Any:
        seen.append(compat.package_name(graph))
        raise RuntimeError

    with contextlib.suppress(Exception), torch._dynamo.config.patch(caching_precompile=True):
        torch.compile(lambda x: x + 1, backend=backend)(torch.ones(2))
    torch.compiler.reset()
    return len(seen) == 1 and bool(seen[0]) and compat.package_name(torch.nn.Module()) is None


@expects("backend_of_install", "names the backend for which a package is read")
def _backend_of_install() -> bool:
    from torch._dynamo.package import DynamoCache

    seen = []

    def backend(graph: Any, inputs: Any) -> Any:
        return graph.forward

    def load(function: Any) -> None:
        seen.append(compat.backend_of_install())

    original, DynamoCache.load = DynamoCache.load, load
    try:
        with torch._dynamo.config.patch(caching_precompile=True):
            torch.compile(lambda x: x + 1, backend=backend, options={"a": 1})
    finally:
        DynamoCache.load = original
    torch.compiler.reset()
    return seen == [(backend, {"options": {"a": 1}})] and compat.backend_of_install() is None


expect(
    "dynamo_eval_frame",
    "has the context of torch.compile and innermost_backend",
    lambda: (
        callable(compat.dynamo_eval_frame.innermost_backend)
        and hasattr(compat.dynamo_eval_frame, "_TorchDynamoContext")
    ),
)


@expects("record_cache_artifact", "its bytes come back in the folder of their name")
def _record_cache_artifact() -> bool:
    import os
    import tempfile
    from unittest import mock

    with (
        tempfile.TemporaryDirectory() as folder,
        mock.patch.dict(os.environ, {"TORCHINDUCTOR_CACHE_DIR": folder}),
        compat.CacheArtifactManager.with_fresh_cache(),
    ):
        compat.record_cache_artifact("ortable-test", b"content")
        saved = torch.compiler.save_cache_artifacts()
        assert saved is not None
        torch.compiler.load_cache_artifacts(saved[0])
        (path,) = compat.loaded_cache_artifacts("ortable-test").iterdir()
        return path.read_bytes() == b"content" and str(path).startswith(folder)


expect("loaded_cache_artifacts", "as record_cache_artifact", _record_cache_artifact)
expect(
    "CacheArtifactManager",
    "record_artifact(kind, key, bytes), and a block with none yet",
    lambda: _has_parameters(compat.CacheArtifactManager.record_artifact, "key", "content"),
)
expect(
    "AOTAutogradCache",
    "knows the folder of a key",
    lambda: callable(compat.AOTAutogradCache._get_tmp_dir_for_key),
)
expect(
    "AOTAutogradCacheArtifact",
    "names its kind",
    lambda: compat.AOTAutogradCacheArtifact.type() == "aot_autograd",
)
expect(
    "OutputCode",
    "has the methods that a result in torch's cache defines",
    subclass_of(
        "OutputCode", ("prepare_for_serialization", "post_compile", "set_triton_bundle", "__call__")
    ),
)


@expects("CompileContext", "current_compile_id() is None outside; inside it counts the frame")
def _compile_context() -> bool:
    seen = []

    def backend(graph: Any, inputs: Any) -> Any:
        seen.append(compat.CompileContext.current_compile_id().frame_compile_id)
        return graph.forward

    torch.compile(lambda x: x + 1, backend=backend)(torch.ones(1))
    torch.compiler.reset()
    return compat.CompileContext.current_compile_id() is None and seen == [0]


@expects("dynamo_timed", "a block")
def _dynamo_timed() -> bool:
    with compat.dynamo_timed("ortable_check"):
        return True


expect(
    "dynamo_wrappers", "a file of wrappers", lambda: compat.dynamo_wrappers.__file__.endswith(".py")
)
expect(
    "trace_structured",
    "(name, metadata_fn, payload_fn=..., expect_trace_id=...)",
    lambda: _has_parameters(
        compat.trace_structured, "name", "metadata_fn", "payload_fn", "expect_trace_id"
    ),
)


@functools.cache
def _seen_while_compiling() -> list[Any]:
    seen: list[Any] = []

    def backend(graph: Any, inputs: Any) -> Any:
        seen.extend([logging_compat.compiled_code(), logging_compat.frame_compilation()])
        return graph.forward

    torch.compile(_Model(), backend=backend)(torch.ones(1))
    torch.compiler.reset()
    return seen


def _writes_nothing() -> bool:
    logging_compat.trace_artifact("ortable_check", "string", lambda: "nothing")
    return True


def _timed() -> bool:
    with logging_compat.timed("ortable_check"):
        return True


CHECKS_OF_LOGGING: dict[str, tuple[str, Callable[[], Any]]] = {
    "compiled_code": (
        "the code of the frame that is compiled; None outside",
        lambda: (
            _seen_while_compiling()[0].co_name == "forward"
            and logging_compat.compiled_code() is None
        ),
    ),
    "frame_compilation": ("0 the first time", lambda: _seen_while_compiling()[1] == 0),
    "timed": ("a block", _timed),
    "trace_artifact": ("nothing without TORCH_TRACE", _writes_nothing),
}


# torch.export and torch.onnx
expect(
    "guards_code",
    "texts of guards of an exported program; a list, also where there are none",
    lambda: (
        isinstance(compat.guards_code(_symbolic()[0]), list)
        and hasattr(_symbolic()[0], "_guards_code")
    ),
)
expect(
    "draft_report",
    "the report of draft_export, with failures; None for another program",
    lambda: (
        compat.draft_report(torch.export.draft_export(_Model(), (torch.ones(2),))).failures == []
        and compat.draft_report(_program()) is None
    ),
)


@expects("set_example_inputs", "changes what example_inputs tells")
def _set_example_inputs() -> bool:
    program = _program()
    compat.set_example_inputs(program, None)
    return program.example_inputs is None


@expects("set_constants", "changes what constants tells")
def _set_constants() -> bool:
    program = _program()
    compat.set_constants(program, {"c": torch.ones(1)})
    return list(program.constants) == ["c"]


@expects("constants_lifted_through", "retracing a program calls the wrapped function")
def _lifted() -> bool:
    calls = []

    def wrapped(original: Callable[..., Any]) -> Callable[..., Any]:
        def through(*args: Any, **kwargs: Any) -> Any:
            calls.append(1)
            return original(*args, **kwargs)

        return through

    program = _program()
    with compat.constants_lifted_through(wrapped):
        program.run_decompositions({})
    count = len(calls)
    _program().run_decompositions({})
    return count > 0 and len(calls) == count


def _lifts(name: str) -> Callable[[], bool]:
    return lambda: callable(getattr(compat, name)._materialize_and_lift_constants)


expect(
    "lift_constants_pass", "has the function that lifts constants", _lifts("lift_constants_pass")
)
expect(
    "export_trace",
    "has the function that lifts constants, by the same name",
    _lifts("export_trace"),
)


@expects("set_onnx_export_answers", "torch.onnx.is_in_onnx_export() tells what was set")
def _set_answers() -> bool:
    before = compat.onnx_export_answers()
    try:
        compat.set_onnx_export_answers(True, True)
        return torch.onnx.is_in_onnx_export() is True
    finally:
        compat.set_onnx_export_answers(*before)


expect(
    "onnx_export_answers",
    "false, and dynamo's answer",
    lambda: compat.onnx_export_answers() == (False, False),
)
expect(
    "onnx_flags",
    "has the flag of torch.onnx.is_in_onnx_export",
    lambda: compat.onnx_flags._is_onnx_exporting is False,
)
expect(
    "dynamo_torch_functions",
    "has dynamo's answers for questions about the state, torch.onnx among them",
    lambda: operator.contains(
        compat.dynamo_torch_functions.tracing_state_functions(), torch.onnx.is_in_onnx_export
    ),
)


def _tensor_guards() -> bool:
    one, two = torch.ones(2, 2), torch.nn.Parameter(torch.ones(3))
    sizes, strides = [[2, 2], [3]], [[2, 1], [1]]
    check = compat.TensorGuards(
        one, two, dynamic_dims_sizes=sizes, dynamic_dims_strides=strides
    ).check
    others = [(one.double(), two), (torch.ones(2, 2).t()[:1], two), (one, two.detach())]
    return check(one, two) and not any(check(*each) for each in others)


def _dict_version() -> bool:
    inside = {"a": 1}
    before = compat.dict_version(inside)
    inside["a"] = 2
    return bool(compat.dict_version(inside) != before)

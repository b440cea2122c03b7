"""Checks of the private interfaces of torch, one for each name of ortable.compat.torch."""

from __future__ import annotations

import contextlib
import operator
import sys
from collections.abc import Callable
from typing import Any

import torch

from ortable.compat import torch as compat

from .registry_of_torch import ADD, CHECKS, Model, expect, expects, exported_program, symbolic

__all__ = ["CHECKS"]

# Operators
expect(
    "OpOverload",
    "is the class of overloads, with name() and a schema of named arguments",
    lambda: (
        isinstance(ADD, compat.OpOverload)
        and ADD.name() == "aten::add.Tensor"
        and [argument.name for argument in ADD._schema.arguments] == ["self", "other", "alpha"]
    ),
)
expect(
    "OpOverloadPacket",
    "is the class of operators without an overload",
    lambda: isinstance(torch.ops.aten.add, compat.OpOverloadPacket),
)
expect(
    "HigherOrderOperator",
    "is the class of torch.ops.higher_order.cond, with name()",
    lambda: (
        isinstance(torch.ops.higher_order.cond, compat.HigherOrderOperator)
        and torch.ops.higher_order.cond.name() == "cond"
    ),
)
expect(
    "OperatorBase",
    "is the base of overloads and higher-order operators",
    lambda: (
        issubclass(compat.OpOverload, compat.OperatorBase)
        and issubclass(compat.HigherOrderOperator, compat.OperatorBase)
    ),
)
expect(
    "higher_order_operators",
    "has higher-order operators by name",
    lambda: "cond" in compat.higher_order_operators,
)
expect(
    "DispatchKey",
    "has CompositeImplicitAutograd and Autograd, and keys py_kernels",
    lambda: (
        compat.DispatchKey.CompositeImplicitAutograd != compat.DispatchKey.Autograd
        and isinstance(torch.ops.aten.lstm.input.py_kernels, dict)
    ),
)
expect(
    "TensorBase",
    "is the class that defines torch.Tensor.relu",
    lambda: torch.Tensor.relu.__objclass__ is compat.TensorBase,
)
expect(
    "all_operator_names",
    "returns the full names of all operators, overload included",
    lambda: {"aten::add.Tensor", "aten::_foreach_add.List"} <= set(compat.all_operator_names()),
)
expect(
    "schemas_of_packet",
    "returns the schemas of a name, each with its overload_name, or none",
    lambda: (
        {s.overload_name for s in compat.schemas_of_packet("aten::add")} >= {"Tensor", "Scalar"}
        and not compat.schemas_of_packet("aten::no_such")
    ),
)
expect(
    "resolve_packet",
    "returns the overload that the arguments select",
    lambda: (
        compat.resolve_packet("aten::add", torch.ones(1), 2.0) in ("Scalar", "Tensor")
        and compat.resolve_packet("aten::sum", torch.ones(1), [0]) == "dim_IntList"
    ),
)
expect(
    "find_builtin",
    "returns the name of the operator behind a function of torch",
    lambda: compat.find_builtin(torch.relu) == "aten::relu",
)
expect(
    "decomposition_table",
    "has functions by overload",
    lambda: callable(compat.decomposition_table[torch.ops.aten.addcmul.default]),
)
expect(
    "get_decompositions",
    "returns a table of functions for some operators",
    lambda: (
        torch.ops.aten.addcmul.default
        in compat.get_decompositions([torch.ops.aten.addcmul.default])
    ),
)
expect(
    "core_aten_decompositions",
    "returns a table of functions by overload",
    lambda: any(isinstance(key, compat.OpOverload) for key in compat.core_aten_decompositions()),
)


expect(
    "upsampled_sizes",
    "returns the sizes of a result for (sizes, None, factors)",
    lambda: list(compat.upsampled_sizes((2, 3, 4, 5), None, [2.0, 1.5])) == [8, 7],
)


@expects("math_attention", "takes (q, k, v, score, block mask, scale, options)")
def _math_attention() -> bool:
    import inspect

    parameters = list(inspect.signature(compat.math_attention).parameters)
    return parameters[:7] == [
        "query", "key", "value", "score_mod", "block_mask", "scale", "kernel_options",
    ]  # fmt: skip


expect("check", "raises RuntimeError where a condition is false", lambda: _raises_check())


def _raises_check() -> bool:
    compat.check(True)
    with contextlib.suppress(RuntimeError):
        compat.check(False)
        return False
    return True


expect(
    "qualified_op_name",
    "returns the name of a packet",
    lambda: compat.qualified_op_name(torch.ops.aten.add) == "aten::add",
)
expect(
    "overload_name",
    "returns the overload of an operator",
    lambda: (
        compat.overload_name(ADD) == "Tensor"
        and compat.overload_name(torch.ops.aten.relu.default) == "default"
    ),
)
expect(
    "can_decompose",
    "is true for a composite operator and false for add",
    lambda: compat.can_decompose(torch.ops.aten.pad.default) and not compat.can_decompose(ADD),
)
expect(
    "is_composite",
    "is true for linear and false for add",
    lambda: compat.is_composite(torch.ops.aten.linear.default) and not compat.is_composite(ADD),
)


@expects("composite_kernel", "computes a composite operator of two arguments")
def _composite_kernel() -> bool:
    x = torch.ones(2, 2)
    result = compat.composite_kernel(torch.ops.aten.linear.default)(x, x)
    return bool(result.equal(torch.full((2, 2), 2.0)))


@expects("clear_dispatch_cache", "makes an operator look up its kernels again")
def _forget_dispatch() -> bool:
    op = torch.ops.aten.relu.default
    compat.clear_dispatch_cache(op)
    return bool(op(torch.tensor(-1.0)) == 0)


@torch.library.custom_op("ortable_compat::twice", mutates_args=())
def _twice(x: torch.Tensor) -> torch.Tensor:
    return x * 2


expect(
    "CustomOpDef",
    "the class of results of custom_op",
    lambda: isinstance(_twice, compat.CustomOpDef),
)
expect(
    "custom_op_definitions",
    "has the definitions of custom_op by name",
    lambda: compat.custom_op_definitions.get("ortable_compat::twice") is _twice,
)
expect(
    "is_custom",
    "is true for the name of an operator of custom_op",
    lambda: compat.is_custom("ortable_compat::twice") and not compat.is_custom("aten::add"),
)
expect(
    "custom_op_overload",
    "returns the overload of a definition of custom_op",
    lambda: compat.custom_op_overload(_twice) is torch.ops.ortable_compat.twice.default,
)
expect(
    "custom_op_kernel",
    "returns the function that custom_op decorates, or None for another name",
    lambda: (
        compat.custom_op_kernel("ortable_compat::twice")(torch.ones(1)).item() == 2
        and compat.custom_op_kernel("aten::add") is None
    ),
)


# Memory
@expects("to_dlpack", "returns a capsule that shares memory, for bools and floats")
def _to_dlpack() -> bool:
    return all(
        compat.from_dlpack(compat.to_dlpack(tensor)).data_ptr() == tensor.data_ptr()
        for tensor in (torch.ones(2), torch.ones(2, dtype=torch.bool), torch.ones(2).bfloat16())
    )


@expects("from_dlpack", "returns a tensor over the memory of a capsule, with its strides")
def _from_dlpack() -> bool:
    transposed = torch.arange(6).reshape(2, 3).t()
    return compat.from_dlpack(compat.to_dlpack(transposed)).stride() == transposed.stride()


@expects("reinterpret_tensor", "(tensor, size, stride, offset) returns a tensor that is no view")
def _reinterpret_tensor() -> bool:
    base = torch.arange(6.0)[2:]
    result = compat.reinterpret_tensor(base, (2, 2), (2, 1), 0)
    return result._base is None and result.tolist() == [[2, 3], [4, 5]]


@expects("storage_identity", "is equal for views of one storage, also on the meta device")
def _storage_identity() -> bool:
    x, y = torch.ones(4), torch.ones(4, device="meta")
    return (
        compat.storage_identity(x) == compat.storage_identity(x[1:])
        and compat.storage_identity(y) == compat.storage_identity(y[1:])
        and compat.storage_identity(x) != compat.storage_identity(torch.ones(4))
    )


@expects("statically_known_true", "decides what holds for every size, without adding a guard")
def _statically_known_true() -> bool:
    size = symbolic()[1]
    is_known = compat.statically_known_true
    return is_known(size >= 0) and not is_known(size == 2) and isinstance(size, torch.SymInt)


@expects("base_of", "returns the base of a view, and None for other tensors")
def _base_of() -> bool:
    x = torch.ones(4)
    return compat.base_of(x[1:]) is x and compat.base_of(x) is None


# Fake tensors and tracing
expect(
    "FakeTensorMode",
    "makes tensors without memory, and converts others to them",
    lambda: isinstance(compat.FakeTensorMode().from_tensor(torch.ones(2)), compat.FakeTensor),
)


@expects("FakeTensor", "is the class of tensors under FakeTensorMode")
def _fake_tensor() -> bool:
    with compat.FakeTensorMode():
        return isinstance(torch.ones(2) + 1, compat.FakeTensor)


@expects("DynamicOutputShapeException", "is raised by nonzero of a fake tensor")
def _dynamic_output() -> bool:
    return _raises(compat.DynamicOutputShapeException, lambda: torch.nonzero(torch.ones(2)))


@expects("DataDependentOutputException", "is raised by item() of a fake tensor")
def _data_dependent() -> bool:
    return _raises(compat.DataDependentOutputException, lambda: torch.ones(2)[0].item())


def _raises(kind: type[Exception], call: Any) -> bool:
    with compat.FakeTensorMode():
        try:
            call()
        except kind:
            return True
    return False


@expects("unset_fake_temporarily", "is a context in which tensors have memory")
def _unset_fake_temporarily() -> bool:
    with compat.FakeTensorMode(), compat.unset_fake_temporarily():
        return not isinstance(torch.ones(2), compat.FakeTensor)


expect(
    "fake_rules",
    "returns the fake implementations by operator, which precede decompositions",
    lambda: callable(compat.fake_rules()[torch.ops.aten.add.Tensor]),
)


@expects("make_fx", "traces a function, with tracing_mode and a decomposition_table")
def _make_fx() -> bool:
    table = {torch.ops.aten.silu.default: lambda x: x * torch.sigmoid(x)}
    silu = torch.nn.SiLU()
    traced = compat.make_fx(silu, decomposition_table=table, tracing_mode="real")(torch.ones(2))
    return any(node.target is torch.ops.aten.sigmoid.default for node in traced.graph.nodes)


@expects("get_proxy_mode", "is None outside make_fx only")
def _get_proxy_mode() -> bool:
    modes = []

    def fn(x: torch.Tensor) -> torch.Tensor:
        modes.append(compat.get_proxy_mode())
        return x + 1

    compat.make_fx(fn)(torch.ones(1))
    return compat.get_proxy_mode() is None and modes[-1] is not None


expect(
    "ModuleStackTracer",
    "has call_module(module, forward, args, kwargs), called at each call of a module",
    lambda: callable(compat.ModuleStackTracer.call_module),
)


@expects("disable_current_modes", "is a context in which tensors have memory and nothing is traced")
def _disable_current_modes() -> bool:
    with compat.FakeTensorMode(), compat.disable_current_modes():
        return not isinstance(torch.ones(2), compat.FakeTensor)


@expects("TorchDispatchMode", "intercepts the operators that are called, with their tags")
def _torch_dispatch_mode() -> bool:
    flags = []

    class RecordingMode(compat.TorchDispatchMode):
        def __torch_dispatch__(
            self, func: Any, types: Any, args: Any = (), kwargs: Any = None
        ) -> Any:
            flags.append(torch.Tag.nondeterministic_seeded in func.tags)
            return func(*args, **(kwargs or {}))

    with RecordingMode():
        torch.rand(1)
    return any(flags)


@expects("disable_torch_function", "is a context that bypasses torch function modes")
def _disable_torch_function() -> bool:
    class RefusingMode(torch.overrides.TorchFunctionMode):
        def __torch_function__(
            self, func: Any, types: Any, args: Any = (), kwargs: Any = None
        ) -> Any:
            raise AssertionError

    with RefusingMode(), compat.disable_torch_function():
        return torch.ones(2).tolist() == [1.0, 1.0]


expect(
    "is_functional_tensor",
    "is false for ordinary tensors",
    lambda: not compat.is_functional_tensor(torch.ones(1)),
)
expect(
    "is_traceable_wrapper_subclass",
    "is false for tensors and parameters",
    lambda: not compat.is_traceable_wrapper_subclass(torch.nn.Parameter(torch.ones(1))),
)


@expects("BoxedCodeGen", "makes a graph that takes one list of arguments and empties the list")
def _boxed_codegen() -> bool:
    traced = torch.fx.symbolic_trace(lambda x, y: x + y)
    traced.graph.set_codegen(compat.BoxedCodeGen())
    traced.recompile()
    arguments = [torch.ones(1), torch.ones(1)]
    return traced(arguments).item() == 2 and arguments == []


expect(
    "PyTreeCodeGen",
    "is constructed from a PyTreeInfo, its attribute pytree_info",
    lambda: compat.PyTreeCodeGen(_exported_info()).pytree_info.orig_args == ["x"],
)
expect(
    "PyTreeInfo",
    "is a tuple of orig_args, in_spec and out_spec",
    lambda: compat.PyTreeInfo._fields == ("orig_args", "in_spec", "out_spec"),
)
expect(
    "codegen_of",
    "returns the code generator of an exported graph, with pytree_info",
    lambda: _exported_info().out_spec.num_leaves == 1,
)


def _exported_info() -> Any:
    return compat.codegen_of(exported_program().module().graph).pytree_info


@expects("pytree", "flattens and rebuilds, and has tables of node types and built-in types")
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
    "has two tables of classes, which register_pytree_flatten_spec fills",
    lambda: (
        isinstance(compat.fx_pytree.SUPPORTED_NODES, dict)
        and isinstance(compat.fx_pytree.SUPPORTED_NODES_EXACT_MATCH, dict)
    ),
)


@expects("variable_functions", "has the functions that torch calls for packed sequences")
def _variable_functions() -> bool:
    names = ("_pack_padded_sequence", "_pad_packed_sequence", "lstm", "gru", "rnn_tanh", "rnn_relu")
    return all(callable(getattr(compat.variable_functions, name)) for name in names)


@expects("packed_sequence_functions", "has the functions that a torch function mode gets")
def _packed_sequence_functions() -> bool:
    names: list[str | None] = []

    class Recorder(torch.overrides.TorchFunctionMode):
        def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None):
            names.append(compat.packed_sequence_functions().get(func))
            return func(*args, **(kwargs or {}))

    with Recorder():
        packed = torch.nn.utils.rnn.pack_padded_sequence(torch.rand(2, 1, 3), torch.tensor([2]))
        torch.nn.utils.rnn.pad_packed_sequence(torch.nn.GRU(3, 2)(packed)[0])
    return [name for name in names if name] == ["pack", "gru", "pad"]


@expects("register_pytree", "registers a class whose context begins with the names of its fields")
def _register_pytree() -> bool:
    compat.register_pytree(
        _Pair, lambda p: ([p.a, p.b], (["a", "b"], None)), lambda items, _: _Pair(*items)
    )
    paths, _ = compat.pytree.tree_flatten_with_path(_Pair(1, 2))
    in_fx = _Pair in compat.fx_pytree.SUPPORTED_NODES
    compat.unregister_pytree(_Pair)
    return [compat.pytree.keystr(path) for path, _ in paths] == [".a", ".b"] and in_fx


@expects("unregister_pytree", "makes a registered class a leaf again")
def _unregister_pytree() -> bool:
    compat.pytree.register_pytree_node(
        _Pair, lambda p: ([p.a, p.b], None), lambda items, _: _Pair(*items)
    )
    compat.fx_pytree.register_pytree_flatten_spec(_Pair, lambda p, spec: [p.a, p.b])
    was_registered = _Pair in compat.pytree.SUPPORTED_NODES
    compat.unregister_pytree(_Pair)
    return (
        was_registered
        and _Pair not in compat.pytree.SUPPORTED_NODES
        and _Pair not in compat.fx_pytree.SUPPORTED_NODES
        and len(compat.pytree.tree_leaves(_Pair(1, 2))) == 1
    )


expect(
    "node_type",
    "is list for a list, and one type for all namedtuples",
    lambda: (
        compat.node_type([]) is list
        and compat.node_type(sys.version_info) is not list
        and compat.node_type(torch.ones(1)) not in compat.pytree.SUPPORTED_NODES
    ),
)


@expects("remove_pre_hook", "removes a hook and torch's records of the hook")
def _forget_pre_hook() -> bool:
    module, calls = torch.nn.ReLU(), []

    def hook(*args: Any) -> None:
        calls.append(args)

    module.register_forward_pre_hook(hook, with_kwargs=True)
    module.register_forward_pre_hook(print)
    compat.remove_pre_hook(module, hook)
    remaining = [*module._forward_pre_hooks.values(), *module._forward_pre_hooks_with_kwargs]
    module._forward_pre_hooks.clear()
    module(torch.ones(1))
    return remaining == [print] and not calls


@expects("script_method", "runs the forward of a TorchScript module")
def _script_method() -> bool:
    scripted = torch.jit.trace(Model(), torch.ones(1), check_trace=False)
    return bool(compat.script_method(scripted, "forward")(torch.ones(1)) == 2)


@expects("fsdp_parameters", "iterates, and is empty where nothing is sharded")
def _fsdp_parameters() -> bool:
    if not torch.distributed.is_available():
        return list(compat.fsdp_parameters()) == []
    from torch.distributed import _composable_state as states
    from torch.distributed import fsdp

    return fsdp and hasattr(states, "_module_state_mapping") and not any(compat.fsdp_parameters())


# torch.export and torch.onnx
expect(
    "guards_code",
    "returns the texts of guards of an exported program as a list, also without guards",
    lambda: (
        isinstance(compat.guards_code(symbolic()[0]), list)
        and hasattr(symbolic()[0], "_guards_code")
    ),
)
expect(
    "draft_report",
    "returns the report of draft_export, with failures, or None for another program",
    lambda: (
        compat.draft_report(torch.export.draft_export(Model(), (torch.ones(2),))).failures == []
        and compat.draft_report(exported_program()) is None
    ),
)


@expects("set_example_inputs", "sets example_inputs of a program")
def _set_example_inputs() -> bool:
    program = exported_program()
    compat.set_example_inputs(program, None)
    return program.example_inputs is None


@expects("set_constants", "sets constants of a program")
def _set_constants() -> bool:
    program = exported_program()
    compat.set_constants(program, {"c": torch.ones(1)})
    return list(program.constants) == ["c"]


@expects("wrap_constant_lifting", "makes retracing call the wrapped function")
def _constants_lifted_through() -> bool:
    calls = []

    def wrap(original: Callable[..., Any]) -> Callable[..., Any]:
        def count_call(*args: Any, **kwargs: Any) -> Any:
            calls.append(1)
            return original(*args, **kwargs)

        return count_call

    program = exported_program()
    with compat.wrap_constant_lifting(wrap):
        program.run_decompositions({})
    count = len(calls)
    exported_program().run_decompositions({})
    return count > 0 and len(calls) == count


@expects("export_below_autograd", "records the operators that gradients in forward make")
def _export_of_gradients() -> bool:
    class Gradient(torch.nn.Module):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return torch.func.grad(lambda y: (y * y).sum())(x)

    program = compat.export_below_autograd(Gradient(), (torch.ones(3),), {}, None)
    return bool(torch.equal(program.module()(torch.ones(3)), torch.full((3,), 2.0)))


@expects("keep_functorch_levels", "leaves levels of torch.func that the block enters")
def _functorch_levels_left() -> bool:
    with compat.keep_functorch_levels():
        compat.functorch._vmap_increment_nesting(2, "error")
        entered = len(compat.functorch.get_interpreter_stack())
    return entered == 1 and not compat.functorch.get_interpreter_stack()


expect(
    "functorch",
    "has the stack of the transforms that run",
    lambda: compat.functorch.get_interpreter_stack() is None,
)


def _has_lift(name: str) -> Callable[[], bool]:
    return lambda: callable(getattr(compat, name)._materialize_and_lift_constants)


expect(
    "lift_constants_pass", "has the function that lifts constants", _has_lift("lift_constants_pass")
)
expect(
    "export_trace",
    "has the function that lifts constants, by the same name",
    _has_lift("export_trace"),
)


@expects("set_onnx_export_results", "sets the result of torch.onnx.is_in_onnx_export()")
def _set_onnx_export_answers() -> bool:
    previous = compat.get_onnx_export_results()
    try:
        compat.set_onnx_export_results(True, True)
        return torch.onnx.is_in_onnx_export() is True
    finally:
        compat.set_onnx_export_results(*previous)


expect(
    "get_onnx_export_results",
    "returns the result of torch.onnx.is_in_onnx_export() and dynamo's",
    lambda: compat.get_onnx_export_results() == (False, False),
)
expect(
    "onnx_flags",
    "has the flag of torch.onnx.is_in_onnx_export",
    lambda: compat.onnx_flags._is_onnx_exporting is False,
)
expect(
    "dynamo_torch_functions",
    "has dynamo's values of state queries, torch.onnx among them",
    lambda: operator.contains(
        compat.dynamo_torch_functions.tracing_state_functions(), torch.onnx.is_in_onnx_export
    ),
)


@expects("saved_tensors_hooks", "returns the active pair of hooks, or None")
def _saved_tensors_hooks() -> bool:
    pair = (lambda x: x), (lambda x: x)
    with torch.autograd.graph.saved_tensors_hooks(*pair):
        inside = compat.saved_tensors_hooks(True)
    return inside == pair and compat.saved_tensors_hooks(True) is None


# Specifications of dynamic shapes
def _shapes_spec() -> Any:
    specs = compat.dynamic_spec
    rows = specs.ShapeVar("rows", min=2)
    params = {"x": specs.TensorSpec([rows, None]), "*args": [None], "**kwargs": {"y": 3}}
    return specs.ShapesSpec(params, assumptions=[rows % 2 == 0])


def _attached_spec() -> bool:
    class Decorated(torch.nn.Module):
        forward = compat.dynamic_spec.dynamic_spec({"x": None})(lambda self, x: x)

    forward = compat.without_shapes_spec(Decorated().forward)
    attached = compat.attached_shapes_spec(Decorated())
    return (
        compat.attached_shapes_spec(ADD) is None
        and isinstance(attached, compat.dynamic_spec.ShapesSpec)
        and not hasattr(forward, "_dynamic_spec")
        and forward(2) == 2
    )


expect(
    "dynamic_spec",
    "makes variables, whose symbols are named NAME#NUMBER, with min, max and arithmetic",
    lambda: str(compat.dynamic_spec.ShapeVar("rows", min=2).node.expr).startswith("rows#"),
)
expect(
    "shapes_spec_parts",
    "returns named, positional and keyword entries and the assumptions",
    lambda: [len(part) for part in compat.shapes_spec_parts(_shapes_spec())] == [1, 1, 1, 1],
)
expect(
    "spec_children",
    "returns the entries of each container",
    lambda: (
        compat.spec_children(compat.dynamic_spec.SeqSpec([3, None])) == [3, None]
        and compat.spec_children(compat.dynamic_spec.TensorSpec([3, None])) == [3, None]
        and compat.spec_children(compat.dynamic_spec.DictSpec({"k": 3})) == {"k": 3}
        and compat.spec_children(compat.dynamic_spec.ObjectSpec({"k": 3})) == {"k": 3}
    ),
)
for _name in ("attached_shapes_spec", "without_shapes_spec"):
    expect(
        _name,
        "reads, or leaves out, what @dynamic_spec attached (torch before 2.15 has no decorator)",
        lambda: not hasattr(compat.dynamic_spec, "dynamic_spec") or _attached_spec(),
    )

"""Private or changing interfaces of torch; `NAMES` gives the purpose of each name.

The names are the same in torch 2.13, 2.14 and 2.15 unless noted. A name is looked up when it is
first imported from here. Import names of torch._dynamo, torch._functorch and torch._inductor in the
function that needs them, because these packages are slow to import.
"""

# The imports below are for type checkers; at run time `__getattr__` resolves them from `NAMES`.
# ruff: noqa: F401

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from .private import PrivateName, module_getattr
from .scoped_patch import restore_on_exit

if TYPE_CHECKING:
    from torch._functorch import config as functorch_config
    from torch._functorch._aot_autograd.autograd_cache import (
        BypassAOTAutogradCache,
        FXGraphCacheMiss,
    )
    from torch._functorch._aot_autograd.schemas import SerializableAOTDispatchCompiler
    from torch._inductor.output_code import OutputCode
    from torch._ops import HigherOrderOperator, OperatorBase, OpOverload, OpOverloadPacket
    from torch._subclasses.fake_tensor import FakeTensor, FakeTensorMode, unset_fake_temporarily
    from torch.fx import _pytree as fx_pytree
    from torch.fx.experimental import dynamic_spec
    from torch.fx.experimental.proxy_tensor import make_fx
    from torch.fx.graph import _BoxedCodeGen as BoxedCodeGen
    from torch.fx.graph import _PyTreeCodeGen as PyTreeCodeGen
    from torch.fx.graph import _PyTreeInfo as PyTreeInfo
    from torch.utils import _pytree as pytree
    from torch.utils._python_dispatch import TorchDispatchMode, is_traceable_wrapper_subclass
    from torch.utils._sympy.printers import PythonPrinter

NAMES: dict[str, PrivateName] = {
    # operators
    "OpOverload": PrivateName(
        "torch._ops:OpOverload", "class", "distinguish operators from other targets of a graph"
    ),
    "OpOverloadPacket": PrivateName(
        "torch._ops:OpOverloadPacket", "class", "find the operator of a node in a graph before ATen"
    ),
    "HigherOrderOperator": PrivateName(
        "torch._ops:HigherOrderOperator", "class", "find control flow and calls of subgraphs"
    ),
    "OperatorBase": PrivateName(
        "torch._ops:OperatorBase", "class", "type tables of decompositions"
    ),
    "higher_order_operators": PrivateName(
        "torch._ops:_higher_order_ops", "mapping", "check the names in the option `fallback`"
    ),
    "DispatchKey": PrivateName(
        "torch._C:DispatchKey", "class", "find the decomposition of a composite operator"
    ),
    "TensorBase": PrivateName(
        "torch._C:TensorBase", "class", "find an operator by a tensor's method"
    ),
    "all_operator_names": PrivateName(
        "torch._C:_dispatch_get_all_op_names",
        "function",
        "find the operators over lists of tensors",
    ),
    "schemas_of_packet": PrivateName(
        "torch._C:_jit_get_schemas_for_operator",
        "function",
        "check the names in the option `fallback`",
    ),
    "resolve_packet": PrivateName(
        "torch._C:_jit_resolve_packet", "function", "choose the overload that arguments call"
    ),
    "find_builtin": PrivateName(
        "torch.jit._builtins:_find_builtin", "function", "find an operator by a function of torch"
    ),
    "CustomOpDef": PrivateName(
        "torch._library.custom_ops:CustomOpDef",
        "class",
        "accept a custom operator in place of a name",
    ),
    "custom_op_definitions": PrivateName(
        "torch._library.custom_ops:OPDEFS", "mapping", "find the body of a custom operator"
    ),
    "decomposition_table": PrivateName(
        "torch._decomp:decomposition_table", "mapping", "decompose operators without a converter"
    ),
    "get_decompositions": PrivateName(
        "torch._decomp:get_decompositions", "function", "decompose operators without a converter"
    ),
    "core_aten_decompositions": PrivateName(
        "torch._decomp:core_aten_decompositions", "function", "decompose graphs of AOTAutograd"
    ),
    "upsampled_sizes": PrivateName(
        "torch._decomp.decompositions:upsample_compute_output_size",
        "function",
        "keep sizes of an upsampled image dynamic",
    ),
    "math_attention": PrivateName(
        "torch._higher_order_ops.flex_attention:math_attention",
        "function",
        "convert flex_attention",
    ),
    "check": PrivateName("torch:_check", "function", "constrain a size in one_hot"),
    "variable_functions": PrivateName("torch:_VF", "module", "trace packed sequences in exports"),
    "statically_known_true": PrivateName(
        "torch.fx.experimental.symbolic_shapes:statically_known_true",
        "function",
        "compare sizes without guards, in loops over a dynamic size",
    ),
    # memory
    "to_dlpack": PrivateName("torch._C:_to_dlpack", "function", "pass tensors to ONNX Runtime"),
    "from_dlpack": PrivateName("torch._C:_from_dlpack", "function", "read results of ONNX Runtime"),
    "is_alias_of": PrivateName(
        "torch._C:_is_alias_of", "function", "find operators that return memory of an input"
    ),
    "reinterpret_tensor": PrivateName(
        "torch._C._dynamo.guards:_reinterpret_tensor",
        "function",
        "return results that are no views",
    ),
    "saved_tensors_hooks": PrivateName(
        "torch._C._autograd:_top_saved_tensors_default_hooks",
        "function",
        "detect that a checkpoint counts the tensors that a forward saves",
    ),
    # fake tensors and tracing
    "FakeTensor": PrivateName(
        "torch._subclasses.fake_tensor:FakeTensor", "class", "recognize examples without memory"
    ),
    "FakeTensorMode": PrivateName(
        "torch._subclasses.fake_tensor:FakeTensorMode", "class", "make examples without memory"
    ),
    "fake_rules": PrivateName(
        "torch._subclasses.fake_impls:get_fast_op_impls",
        "function",
        "keep the length of a recurrent layer dynamic in a program that is traced again",
    ),
    "DataDependentOutputException": PrivateName(
        "torch._subclasses.fake_tensor:DataDependentOutputException",
        "class",
        "trace a case with a data-dependent result",
    ),
    "DynamicOutputShapeException": PrivateName(
        "torch._subclasses.fake_tensor:DynamicOutputShapeException",
        "class",
        "trace a case with a data-dependent result",
    ),
    "unset_fake_temporarily": PrivateName(
        "torch._subclasses.fake_tensor:unset_fake_temporarily",
        "function",
        "compute real values while torch traces with fake tensors",
    ),
    "make_fx": PrivateName(
        "torch.fx.experimental.proxy_tensor:make_fx", "function", "trace a function to a graph"
    ),
    "dynamic_spec": PrivateName(
        "torch.fx.experimental.dynamic_spec",
        "module",
        "state the shapes of an observed module as torch's ShapesSpec",
    ),
    "get_proxy_mode": PrivateName(
        "torch.fx.experimental.proxy_tensor:get_proxy_mode",
        "function",
        "detect whether torch is tracing",
    ),
    "ModuleStackTracer": PrivateName(
        "torch.fx.experimental.proxy_tensor:_ModuleStackTracer",
        "class",
        "trace models that contain TorchScript",
    ),
    "disable_current_modes": PrivateName(
        "torch.utils._python_dispatch:_disable_current_modes",
        "function",
        "compute constants while torch traces",
    ),
    "TorchDispatchMode": PrivateName(
        "torch.utils._python_dispatch:TorchDispatchMode",
        "class",
        "detect whether the computation of a constant draws random numbers",
    ),
    "disable_torch_function": PrivateName(
        "torch._C:DisableTorchFunction", "class", "compute constants while torch traces"
    ),
    "is_functional_tensor": PrivateName(
        "torch:_is_functional_tensor", "function", "distinguish constants from traced tensors"
    ),
    "is_traceable_wrapper_subclass": PrivateName(
        "torch.utils._python_dispatch:is_traceable_wrapper_subclass",
        "function",
        "find the tensors inside a tensor subclass",
    ),
    "BoxedCodeGen": PrivateName(
        "torch.fx.graph:_BoxedCodeGen", "class", "free arguments of a partitioned graph early"
    ),
    "PyTreeCodeGen": PrivateName(
        "torch.fx.graph:_PyTreeCodeGen", "class", "merge the graphs of a data-dependent branch"
    ),
    "PyTreeInfo": PrivateName(
        "torch.fx.graph:_PyTreeInfo", "class", "merge the graphs of a data-dependent branch"
    ),
    "pytree": PrivateName(
        "torch.utils._pytree", "module", "flatten arguments and results as torch does"
    ),
    "fx_pytree": PrivateName(
        "torch.fx._pytree", "module", "register caches of transformers for a call"
    ),
    # symbolic sizes
    "ShapeEnv": PrivateName(
        "torch.fx.experimental.symbolic_shapes:ShapeEnv", "class", "explain a failed export"
    ),
    "DimDynamic": PrivateName(
        "torch.fx.experimental.symbolic_shapes:DimDynamic",
        "class",
        "trace a case with dynamic sizes",
    ),
    "StatelessSymbolicContext": PrivateName(
        "torch.fx.experimental.symbolic_shapes:StatelessSymbolicContext",
        "class",
        "trace a case with dynamic sizes",
    ),
    "GuardOnDataDependentSymNode": PrivateName(
        "torch.fx.experimental.symbolic_shapes:GuardOnDataDependentSymNode",
        "class",
        "trace a case with a data-dependent result",
    ),
    "exporting_state": PrivateName(
        "torch._export.utils:_compiling_state_context",
        "function",
        "run a module at other sizes in the way of torch.export",
    ),
    "SYMPY_INTERP": PrivateName(
        "torch.fx.experimental.symbolic_shapes:SYMPY_INTERP", "mapping", "evaluate guards"
    ),
    "mark_dynamic": PrivateName(
        "torch._dynamo:mark_dynamic",
        "function",
        "compile one graph for observed sizes",
    ),
    "fx_config": PrivateName(
        "torch.fx.experimental._config", "module", "keep a dimension of size 1 dynamic"
    ),
    "sympy_interp": PrivateName(
        "torch.utils._sympy.interp:sympy_interp", "function", "write sizes into a graph"
    ),
    "PythonReferenceAnalysis": PrivateName(
        "torch.utils._sympy.reference:PythonReferenceAnalysis", "class", "write sizes into a graph"
    ),
    "PythonPrinter": PrivateName(
        "torch.utils._sympy.printers:PythonPrinter", "class", "print guards"
    ),
    "ValueRanges": PrivateName(
        "torch.utils._sympy.value_ranges:ValueRanges", "class", "prove that a guard always holds"
    ),
    "bound_sympy": PrivateName(
        "torch.utils._sympy.value_ranges:bound_sympy",
        "function",
        "prove that a guard always holds",
    ),
    "int_oo": PrivateName(
        "torch.utils._sympy.numbers:int_oo", "value", "prove that a guard always holds"
    ),
    # torch.compile; heavy modules
    "TracingContext": PrivateName(
        "torch._guards:TracingContext", "class", "find the graph that AOTAutograd compiles"
    ),
    "tracing": PrivateName(
        "torch._guards:tracing", "function", "compile a graph a second time, with inductor"
    ),
    "inductor_compile": PrivateName(
        "torch._inductor:compile", "function", "compile a graph of dynamo with inductor"
    ),
    "CompileContext": PrivateName(
        "torch._guards:CompileContext", "class", "count how often torch compiled a frame"
    ),
    "dynamo_timed": PrivateName(
        "torch._dynamo.utils:dynamo_timed", "function", "record phases in torch's timeline"
    ),
    "dynamo_wrappers": PrivateName(
        "torch._dynamo.external_utils", "module", "find the user's code that is compiled"
    ),
    "trace_structured": PrivateName(
        "torch._logging:trace_structured", "function", "write records for TORCH_TRACE"
    ),
    "aot_autograd": PrivateName(
        "torch._dynamo.backends.common:aot_autograd", "function", "compile graphs of dynamo"
    ),
    "graph_break_reasons": PrivateName(
        "torch._dynamo.utils:graph_break_reasons", "value", "list the graph breaks of a model"
    ),
    "dynamo_profile": PrivateName(
        "torch._dynamo.pgo", "module", "explain a model independently of its earlier compilations"
    ),
    "compiler_bisector": PrivateName(
        "torch._inductor.compiler_bisector", "module", "bisect a compilation with torch's tool"
    ),
    "dynamo": PrivateName("torch._dynamo", "module", "let strict export mark static addresses"),
    "min_cut_partition": PrivateName(
        "torch._functorch.partitioners:min_cut_rematerialization_partition",
        "function",
        "split forward and backward",
    ),
    "functorch_config": PrivateName(
        "torch._functorch.config", "module", "keep compiled graphs in torch's cache"
    ),
    "BypassAOTAutogradCache": PrivateName(
        "torch._functorch._aot_autograd.autograd_cache:BypassAOTAutogradCache",
        "class",
        "exclude a graph from torch's cache",
    ),
    "FXGraphCacheMiss": PrivateName(
        "torch._functorch._aot_autograd.autograd_cache:FXGraphCacheMiss",
        "class",
        "recompile a graph that torch's cache has lost",
    ),
    "SerializableAOTDispatchCompiler": PrivateName(
        "torch._functorch._aot_autograd.schemas:SerializableAOTDispatchCompiler",
        "class",
        "keep compiled graphs in torch's cache",
    ),
    "SerializableCallable": PrivateName(
        "torch._dynamo.aot_compile_types:SerializableCallable",
        "class",
        "save a graph that aot_compile compiled",
    ),
    "deserialize_bundled_cache_entry": PrivateName(
        "torch._functorch._aot_autograd.aot_autograd_result:deserialize_bundled_cache_entry",
        "function",
        "load a graph that aot_compile compiled",
    ),
    "PrecompileContext": PrivateName(
        "torch._dynamo.precompile_context:PrecompileContext",
        "class",
        "keep compiled graphs for TORCH_CACHING_PRECOMPILE",
    ),
    "BackendCacheArtifact": PrivateName(
        "torch._dynamo.precompile_context:BackendCacheArtifact",
        "class",
        "keep compiled graphs for TORCH_CACHING_PRECOMPILE",
    ),
    "compile_lock": PrivateName(
        "torch._dynamo.convert_frame:compile_lock",
        "value",
        "serialize exports and compilations in several threads",
    ),
    "dynamo_config": PrivateName(
        "torch._dynamo.config", "module", "find out what torch stores of a trace, and which guards"
    ),
    "dynamo_eval_frame": PrivateName(
        "torch._dynamo.eval_frame",
        "module",
        "find the backend for which torch loads a trace of dynamo",
    ),
    "CacheArtifactManager": PrivateName(
        "torch.compiler._cache:CacheArtifactManager",
        "class",
        "add conversions to torch.compiler.save_cache_artifacts",
    ),
    "AOTAutogradCache": PrivateName(
        "torch._functorch._aot_autograd.autograd_cache:AOTAutogradCache",
        "class",
        "find conversions of torch.compiler.load_cache_artifacts",
    ),
    "AOTAutogradCacheArtifact": PrivateName(
        "torch._functorch._aot_autograd.autograd_cache:AOTAutogradCacheArtifact",
        "class",
        "add conversions to torch.compiler.save_cache_artifacts",
    ),
    "OutputCode": PrivateName(
        "torch._inductor.output_code:OutputCode", "class", "keep compiled graphs in torch's cache"
    ),
    # torch.export and torch.onnx
    "functorch": PrivateName(
        "torch._C:_functorch", "module", "leave the transforms that a failed export has entered"
    ),
    "lift_constants_pass": PrivateName(
        "torch._export.passes.lift_constants_pass", "module", "retrace a program with its constants"
    ),
    "export_trace": PrivateName(
        "torch.export._trace", "module", "trace transforms of torch.func, and retrace a program"
    ),
    "onnx_flags": PrivateName(
        "torch.onnx._internal.exporter._flags",
        "module",
        "set the result of torch.onnx.is_in_onnx_export",
    ),
    "dynamo_torch_functions": PrivateName(
        "torch._dynamo.variables.torch",
        "module",
        "set the result of torch.onnx.is_in_onnx_export in dynamo",
    ),
}

if TYPE_CHECKING:

    def __getattr__(name: str) -> Any: ...

else:
    __getattr__ = module_getattr(__name__, NAMES)


def _private_name(name: str) -> Any:
    return globals().get(name) or __getattr__(name)


# Operators ---------------------------------------------------------------------------------------


def qualified_op_name(packet: Any) -> str:
    """Return ``aten::add`` for an operator without an overload."""
    return str(packet._qualified_op_name)


def overload_name(overload: Any) -> str:
    """Return ``Tensor`` for ``aten::add.Tensor``, ``default`` for ``aten::relu``."""
    return str(overload._overloadname)


def can_decompose(overload: Any) -> bool:
    """Whether torch has a kernel that decomposes the operator."""
    return bool(overload._can_decompose())


def composite_kernel(overload: Any) -> Callable[..., Any]:
    """Return the decomposition of a composite operator: its Python body, or its C++ kernel."""
    key = _private_name("DispatchKey").CompositeImplicitAutograd
    python_kernel: Any = overload.py_kernels.get(key)
    return python_kernel if callable(python_kernel) else functools.partial(overload._op_dk, key)


def is_composite(overload: Any) -> bool:
    """Whether the operator is composed of other operators on every device."""
    key = _private_name("DispatchKey").CompositeImplicitAutograd
    return bool(overload.has_kernel_for_dispatch_key(key))


def clear_dispatch_cache(overload: Any) -> None:
    """Clear the dispatch cache of an operator, which is stale after ``py_kernels`` changed."""
    overload._dispatch_cache.clear()


def custom_op_overload(definition: Any) -> Any:
    """Return the overload of an operator that ``torch.library.custom_op`` made."""
    return definition._opoverload


def custom_op_kernel(name: str) -> Callable[..., Any] | None:
    """Return the CPU function of an operator that ``torch.library.custom_op`` made, or None."""
    definition = _private_name("custom_op_definitions").get(name)
    if definition is None:
        return None
    kernels = definition._backend_fns
    kernel = kernels.get("cpu", kernels.get(None))
    return kernel if callable(kernel) else None


def is_custom(name: str) -> bool:
    """Whether ``torch.library.custom_op`` made the operator."""
    return name in _private_name("custom_op_definitions")


# torch's caches for other processes ---------------------------------------------------------------


def precompile_mode() -> str | None:
    """Return "aot_compile" or "caching_precompile" if torch stores compiled graphs, else None."""
    config = _private_name("functorch_config")
    if config.bundled_autograd_cache and config.bypass_autograd_cache_key:
        return "aot_compile"
    return "caching_precompile" if _private_name("dynamo_config").caching_precompile else None


def package_name(graph_module: Any) -> str | None:
    """Return the name of a dynamo graph in dynamo's package, or None."""
    name = getattr(graph_module, "_backend_id", None)
    return None if name is None else str(name)


def remove_from_dynamo_package(name: str | None) -> None:
    """Remove a graph from dynamo's packages, so that its function is compiled again."""
    _private_name("PrecompileContext")._backend_artifacts_by_key.pop(name, None)


def find_installing_backend() -> tuple[Any, Mapping[str, Any]] | None:
    """Return the backend of the torch.compile call that loads a compilation of an earlier process.

    The result is a function and its keywords, and None outside of such a call.
    """
    import sys

    dynamo = _private_name("dynamo_eval_frame")
    code = dynamo._TorchDynamoContext.__call__.__code__
    frame = sys._getframe(1)
    while frame is not None and frame.f_code is not code:
        frame = frame.f_back  # type: ignore[assignment]
    if frame is None:
        return None
    wrapper = dynamo.innermost_backend(frame.f_locals["self"].callback)
    function = getattr(wrapper, "compiler_fn", None)
    return None if function is None else (function, getattr(wrapper, "kwargs", {}))


def record_cache_artifact(key: str, content: bytes) -> None:
    """Add bytes under a name to the result of ``torch.compiler.save_cache_artifacts``."""
    artifact_type = _private_name("AOTAutogradCacheArtifact").type()
    _private_name("CacheArtifactManager").record_artifact(artifact_type, key, content)


def loaded_cache_artifacts(key: str) -> Any:
    """Return the folder of ``torch.compiler.load_cache_artifacts``, with one file per content."""
    from pathlib import Path

    return Path(_private_name("AOTAutogradCache")._get_tmp_dir_for_key(key))


# Tensors, modules and pytrees --------------------------------------------------------------------


def storage_identity(tensor: Any) -> int:
    """Return a number that is equal for two tensors with the same storage, fake or real."""
    return int(tensor.untyped_storage()._cdata)


def base_of(tensor: Any) -> Any:
    """Return the tensor of which ``tensor`` is a view; None if it is no view."""
    return tensor._base


def script_method(module: Any, name: str) -> Callable[..., Any]:
    """Return a method of a TorchScript module, without the module call around it."""
    method: Callable[..., Any] = module._c._get_method(name)
    return method


def remove_pre_hook(module: Any, hook: Callable[..., Any] | None = None) -> None:
    """Remove a forward pre-hook, or all of them, without the handle of its owner."""
    hooks = module._forward_pre_hooks
    for hook_id in [
        hook_id for hook_id, registered in hooks.items() if hook is None or registered is hook
    ]:
        module._forward_pre_hooks_with_kwargs.pop(hook_id, None)
        hooks.pop(hook_id, None)


def node_type(value: Any) -> Any:
    """Return the pytree type of a container; all namedtuples have the same type."""
    return _private_name("pytree")._get_node_type(value)


def register_pytree(
    cls: type, flatten: Callable[[Any], Any], unflatten: Callable[[Any, Any], Any]
) -> None:
    """Add a class to both pytree registries of Python; its context begins with the field names."""
    keys = _private_name("pytree").GetAttrKey

    def flatten_with_keys(value: Any) -> Any:
        children, context = flatten(value)
        pairs = zip(context[0], children, strict=True)
        return [(keys(name), child) for name, child in pairs], context

    _private_name("pytree")._private_register_pytree_node(
        cls,
        flatten,
        unflatten,
        serialized_type_name=f"{cls.__module__}.{cls.__qualname__}",
        flatten_with_keys_fn=flatten_with_keys,
    )
    _private_name("fx_pytree").register_pytree_flatten_spec(
        cls, lambda value, spec: flatten(value)[0]
    )


def unregister_pytree(cls: type) -> None:
    """Remove the class from both pytree registries, torch's and that of FX."""
    fx = _private_name("fx_pytree")
    _private_name("pytree")._deregister_pytree_node(cls)
    fx.SUPPORTED_NODES.pop(cls, None)
    fx.SUPPORTED_NODES_EXACT_MATCH.pop(cls, None)


def fsdp_parameters() -> Iterator[Any]:
    """Yield the gathered parameters of modules that FSDP2 shards; none if it was never imported."""
    import sys

    states: Any = sys.modules.get("torch.distributed._composable_state")
    if states is None:
        return
    for reference in list(states._module_state_mapping.values()):
        for group in getattr(reference(), "_fsdp_param_groups", ()):
            for parameter in group.fsdp_params:
                yield getattr(parameter, "_unsharded_param", None)


# Graphs and programs of torch.export --------------------------------------------------------------


def codegen_of(graph: Any) -> Any:
    """Return the code generator of a graph; ``pytree_info`` is the structure of its signature."""
    return graph._codegen


def symbol_of(size: Any) -> Any:
    """Return the expression of a symbolic size as traced, before torch unified it with another."""
    return getattr(size.node, "_expr", size.node.expr)


def shapes_spec_parts(spec: Any) -> tuple[dict[str, Any], list[Any], dict[str, Any], list[Any]]:
    """Return the entries of a ShapesSpec: named, for ``*args``, for ``**kwargs``; assumptions."""
    params = spec._params
    if params is None:
        return {}, [], {}, list(spec._assumptions)
    named, positional, keywords = params._named_args, params._varargs, params._varkw
    return dict(named), list(positional or ()), dict(keywords or {}), list(spec._assumptions)


def spec_children(spec: Any) -> dict[Any, Any] | list[Any]:
    """Return the entries of a DictSpec, ObjectSpec, SeqSpec or TensorSpec."""
    if isinstance(spec, dynamic_spec.SeqSpec):
        return list(spec._entries)
    return list(spec) if isinstance(spec, dynamic_spec.TensorSpec) else dict(spec.items())


def attached_shapes_spec(module: Any) -> Any:
    """Return the ShapesSpec that ``@dynamic_spec`` attached to forward, from 2.15 on; else None."""
    return getattr(getattr(module, "forward", None), "_dynamic_spec", None)


def packed_sequence_functions() -> dict[Any, str]:
    """Return the functions that torch calls for packed sequences, and their names in ortable."""
    functions: Any = _private_name("variable_functions")
    names = {"_pack_padded_sequence": "pack", "_pad_packed_sequence": "pad"}
    names |= {name: name for name in ("lstm", "gru", "rnn_tanh", "rnn_relu")}
    return {getattr(functions, torch_name): name for torch_name, name in names.items()}


def without_shapes_spec(forward: Callable[..., Any]) -> Callable[..., Any]:
    """Wrap a function without the ShapesSpec that ``@dynamic_spec`` attached to it."""

    @functools.wraps(forward)
    def call_forward(*args: Any, **kwargs: Any) -> Any:
        return forward(*args, **kwargs)

    vars(call_forward).pop("_dynamic_spec", None)
    return call_forward


def marked_symbols(shape_env: Any) -> set[Any]:
    """Return the symbols of dimensions that the user marked as dynamic."""
    symbols: set[Any] = set()
    for tracked in shape_env.tracked_fakes or ():
        constraints = getattr(tracked.symbolic_context, "constraint_sizes", None) or ()
        for size, constraint in zip(getattr(tracked.fake, "shape", ()), constraints, strict=False):
            if constraint is not None and not constraint.warn_only and not isinstance(size, int):
                symbols |= size.node.expr.free_symbols
    return symbols


def guards_code(program: Any) -> list[str]:
    """Return the texts of the guards of an exported program; empty if it stores none."""
    return list(getattr(program, "_guards_code", ()))


def draft_report(program: Any) -> Any:
    """Return the report of ``torch.export.draft_export`` on its assumptions, or None."""
    return getattr(program, "_report", None)


def set_example_inputs(program: Any, examples: Any) -> None:
    """Set the example inputs of an exported program, which only its constructor sets otherwise."""
    program._example_inputs = examples


def set_constants(program: Any, constants: Mapping[str, Any]) -> None:
    """Set the constants of an exported program, which only its constructor sets otherwise."""
    program._constants = constants


@contextmanager
def wrap_constant_lifting(
    wrapped: Callable[[Callable[..., Any]], Callable[..., Any]],
) -> Iterator[None]:
    """Make torch.export lift constants through ``wrapped(function)`` in the block.

    ``function`` is torch's own; two modules refer to it by name.
    """
    modules = (_private_name("lift_constants_pass"), _private_name("export_trace"))
    original = modules[0]._materialize_and_lift_constants
    replacement = wrapped(original)

    def patch_modules(function: Callable[..., Any]) -> None:
        for module in modules:
            module._materialize_and_lift_constants = function

    with restore_on_exit(lambda: patch_modules(original)):
        patch_modules(replacement)
        yield


def export_below_autograd(
    model: Any, args: tuple[Any, ...], kwargs: Mapping[str, Any], dynamic_shapes: Any
) -> Any:
    """Export without strict mode, below autograd and torch.func; `torch.export` records above."""
    trace = _private_name("export_trace")
    return trace._export(model, args, kwargs, dynamic_shapes, strict=False, pre_dispatch=False)


@contextmanager
def keep_functorch_levels() -> Iterator[None]:
    """Leave the levels of torch.func that the block enters: a failed strict export keeps them."""
    functorch = _private_name("functorch")
    depth = len(functorch.get_interpreter_stack() or ())
    with restore_on_exit(lambda: functorch.pop_dynamic_layer_stack_and_undo_to_depth(depth)):
        yield


def get_onnx_export_results() -> tuple[bool, Any]:
    """Return ``torch.onnx.is_in_onnx_export()`` outside and inside code that dynamo traces."""
    results = _dynamo_constant_results()
    return _private_name("onnx_flags")._is_onnx_exporting, results.get(_is_in_onnx_export())


def set_onnx_export_results(outside: bool, inside: Any) -> None:
    """Set both results of ``torch.onnx.is_in_onnx_export()``."""
    _private_name("onnx_flags")._is_onnx_exporting = outside
    _dynamo_constant_results()[_is_in_onnx_export()] = inside


def _dynamo_constant_results() -> dict[Any, Any]:
    table: Callable[[], dict[Any, Any]]
    table = getattr(_private_name("dynamo_torch_functions"), "tracing_state_functions", dict)
    return table()


def _is_in_onnx_export() -> Any:
    import torch

    return torch.onnx.is_in_onnx_export

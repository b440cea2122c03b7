"""Checks of the private interfaces behind torch.compile, and of torch's logging."""

from __future__ import annotations

import contextlib
import copy
import functools
import inspect
from collections.abc import Callable
from threading import Thread
from typing import Any

import torch
from functorch.compile import make_boxed_func

from ortable.compat import torch as compat
from ortable.compat import torch_logging as logging_compat

from .registry_of_torch import Model, expect, expects, subclass_of, symbolic

# Symbolic sizes


expect(
    "ShapeEnv",
    "is the class of the environment of a symbolic size",
    lambda: isinstance(symbolic()[1].node.shape_env, compat.ShapeEnv),
)
expect("symbol_of", "is the symbol of a size", lambda: compat.symbol_of(symbolic()[1]).is_Symbol)


@expects("marked_symbols", "returns the symbols of dimensions that the user marked as dynamic")
def _marked_symbols() -> bool:
    free = []

    def backend(gm: Any, inputs: Any) -> Any:
        context = compat.TracingContext.try_get()
        free.extend(compat.marked_symbols(context.fake_mode.shape_env))
        return gm

    x = torch.ones(3, 4)
    torch._dynamo.mark_dynamic(x, 0)
    torch._dynamo.reset()
    torch.compile(lambda t: t + 1, backend=backend)(x)
    return len(free) == 1


@expects("exporting_state", "is a context in which torch.compiler.is_compiling() is true")
def _exporting_state() -> bool:
    with compat.exporting_state():
        inside = torch.compiler.is_compiling()
    return inside and not torch.compiler.is_compiling()


@expects("is_alias_of", "is true for a view and its base, also for fake tensors")
def _is_alias_of() -> bool:
    with compat.FakeTensorMode():
        x = torch.ones(2)
        return compat.is_alias_of(x.view(1, 2), x) and not compat.is_alias_of(x + 0, x)


@expects("DimDynamic", "has DUCK and STATIC, which a symbolic context takes")
def _dim_dynamic() -> bool:
    return isinstance(_make_fake_tensor(2, 3).shape[1], int)


@expects("StatelessSymbolicContext", "makes a DUCK dimension symbolic")
def _symbolic_context() -> bool:
    return isinstance(_make_fake_tensor(2, 3).shape[0], torch.SymInt)


@expects("GuardOnDataDependentSymNode", "is raised by a condition on an unbacked size")
def _data_dependent_size() -> bool:
    size = compat.ShapeEnv().create_unbacked_symint()
    try:
        bool(size == 3)
    except compat.GuardOnDataDependentSymNode:
        return True
    return False


def _make_fake_tensor(*shape: int) -> torch.Tensor:
    mode = compat.FakeTensorMode(shape_env=compat.ShapeEnv())
    sizes = [compat.DimDynamic.DUCK, *[compat.DimDynamic.STATIC] * (len(shape) - 1)]
    context = compat.StatelessSymbolicContext(dynamic_sizes=sizes)
    return mode.from_tensor(torch.ones(shape), symbolic_context=context)


expect(
    "SYMPY_INTERP",
    "has the functions that the code of guards uses, by name",
    lambda: {"IsNonOverlappingAndDenseIndicator", "math"} <= set(compat.SYMPY_INTERP),
)


@expects("fx_config", "has backed_size_oblivious, and patch() as a context manager")
def _fx_config() -> bool:
    initial = compat.fx_config.backed_size_oblivious
    with compat.fx_config.patch(backed_size_oblivious=True):
        inside = compat.fx_config.backed_size_oblivious
    return inside is True and compat.fx_config.backed_size_oblivious == initial


@expects("mark_dynamic", "(tensor, axis): one graph serves all sizes of an axis above 1")
def _mark_dynamic() -> bool:
    graphs: list[torch.fx.GraphModule] = []

    def backend(graph: torch.fx.GraphModule, example: Any) -> Any:
        graphs.append(graph)
        return graph

    first = torch.ones(3)
    compat.mark_dynamic(first, 0)
    double = torch.compile(lambda x: x + x, backend=backend)
    double(first)
    double(torch.ones(5))
    return len(graphs) == 1


@expects("sympy_interp", "(analysis, values, expression) evaluates an expression")
def _sympy_interp() -> bool:
    import sympy

    n = sympy.Symbol("n", integer=True)
    return bool(compat.sympy_interp(compat.PythonReferenceAnalysis, {n: 3}, n * 2 + 1) == 7)


expect(
    "PythonReferenceAnalysis",
    "has Python functions by operator",
    lambda: compat.PythonReferenceAnalysis.floordiv(7, 2) == 3,
)


@expects("PythonPrinter", "prints an expression, and symbols with _print_Symbol")
def _python_printer() -> bool:
    import sympy

    class Printer(compat.PythonPrinter):
        def _print_Symbol(self, symbol: Any) -> str:
            return "size"

    return Printer().doprint(sympy.Symbol("n") + 1) in ("size + 1", "1 + size")


@expects("ValueRanges", "is constructed from two bounds, lower and upper")
def _value_ranges() -> bool:
    ranges = compat.ValueRanges(2, compat.int_oo)
    return ranges.lower == 2 and ranges.upper == compat.int_oo


@expects("bound_sympy", "(expression, ranges by symbol) returns a range")
def _bound_sympy() -> bool:
    import sympy

    n = sympy.Symbol("n", integer=True)
    ranges = compat.bound_sympy(n + 1, {n: compat.ValueRanges(2, 4)})
    return (ranges.lower, ranges.upper) == (3, 5)


expect("int_oo", "is larger than every int", lambda: compat.int_oo > 10**9)


# torch.compile
@expects("TracingContext", "try_get() is None outside a compilation, and instances have fields")
def _tracing_context() -> bool:
    from torch._guards import TracingContext

    context = TracingContext(None)
    return compat.TracingContext.try_get() is None and all(
        hasattr(context, name) for name in ("fw_metadata", "output_strides", "fakify_first_call")
    )


@expects("tracing", "makes a context current, a copy of another one too")
def _tracing() -> bool:
    context = copy.copy(compat.TracingContext(None))
    with compat.tracing(context):
        return compat.TracingContext.try_get() is context


@expects("inductor_compile", "compiles a GraphModule, with settings of inductor as options")
def _inductor_compile() -> bool:
    parameters = inspect.signature(compat.inductor_compile).parameters
    return list(parameters)[:3] == ["gm", "example_inputs", "options"]


@expects("aot_autograd", "passes ATen graphs to fw_compiler, and takes a partition_fn")
def _aot_autograd() -> bool:
    targets = []

    def compiler(graph: Any, inputs: Any) -> Any:
        targets.extend(node.target for node in graph.graph.nodes if node.op == "call_function")
        return make_boxed_func(graph.forward)

    backend = compat.aot_autograd(
        fw_compiler=compiler, bw_compiler=compiler, partition_fn=compat.min_cut_partition
    )
    torch.compile(lambda x: (x * 3).sum(), backend=backend)(
        torch.ones(2, requires_grad=True)
    ).backward()
    torch.compiler.reset()
    return torch.ops.aten.mul.Tensor in targets


expect(
    "min_cut_partition",
    "(joint graph, inputs, num_fwd_outputs=...) returns two graphs",
    lambda: _has_parameters(compat.min_cut_partition, "num_fwd_outputs"),
)


def _has_parameters(function: Any, *names: str) -> bool:
    import inspect

    return set(names) <= set(inspect.signature(function).parameters)


@expects("graph_break_reasons", "is a list of records with reason, user_stack and graph_break")
def _graph_break_reasons() -> bool:
    def function(x: Any) -> Any:
        torch._dynamo.graph_break()
        return x + 1

    previous = list(compat.graph_break_reasons)
    torch.compile(function, backend="eager")(torch.ones(1))
    (record,) = [item for item in compat.graph_break_reasons if item not in previous]
    torch.compiler.reset()
    is_complete = record.reason.startswith("Call to") and record.user_stack[-1].name == "function"
    return record.graph_break is True and is_complete


@expects("dynamo_profile", "get_code_state() returns one dict that fills as frames compile")
def _dynamo_profile() -> bool:
    torch.compiler.reset()
    state = compat.dynamo_profile.get_code_state()
    torch.compile(lambda x: x + 1, backend="eager")(torch.ones(2))
    filled = len(state) == 1 and compat.dynamo_profile.get_code_state() is state
    torch.compiler.reset()
    return filled


@expects("compiler_bisector", "has a table of backends, and asks which subsystem is disabled")
def _compiler_bisector() -> bool:
    module = compat.compiler_bisector
    bisector = module.CompilerBisector
    is_idle = bisector.bisection_enabled is False and bisector.get_backend() is None
    disabled = bisector.disable_subsystem("ortable", "rewrites", lambda: "never asked")
    subsystem = module.BisectSubsystem("rewrites")
    return (
        is_idle
        and disabled is False
        and bisector.get_subsystem() is None
        and subsystem.name == "rewrites"
        and isinstance(module.BACKENDS["inductor"], list)
        and callable(module.command_line_usage)
    )


expect(
    "dynamo",
    "has mark_static_address(tensor, guard=...)",
    lambda: _has_parameters(compat.dynamo.mark_static_address, "t", "guard"),
)


@expects("compile_lock", "is held while dynamo compiles, and is reentrant")
def _compile_lock() -> bool:
    busy = []

    def backend(graph_module: Any, example_inputs: Any) -> Any:
        thread = Thread(target=lambda: busy.append(not compat.compile_lock.acquire(blocking=False)))
        thread.start()
        thread.join()
        with compat.compile_lock:
            return graph_module.forward

    torch.compile(lambda x: x + 1, backend=backend)(torch.ones(2))
    return busy == [True]


@expects("dynamo_config", "has TORCH_CACHING_PRECOMPILE, settings that omit guards, and patch()")
def _dynamo_config() -> bool:
    with compat.dynamo_config.patch(install_free_tensors=True, skip_nnmodule_hook_guards=False):
        free = compat.dynamo_config.install_free_tensors
        return bool(free) and compat.dynamo_config.caching_precompile is False


@expects("functorch_config", "has the two settings of torch's cache, and patch()")
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
    "is constructed from a class of results and a compiler",
    lambda: compat.SerializableAOTDispatchCompiler(compat.OutputCode, lambda gm, inputs: gm),
)
expect(
    "SerializableCallable",
    "has the methods with which aot_compile saves and loads",
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


@expects("PrecompileContext", "record_artifact() stores an artifact under its key")
def _precompile_context() -> bool:
    context = compat.PrecompileContext
    artifact = compat.BackendCacheArtifact("ortable test", b"content")
    context.record_artifact(artifact)
    stored = context.serialize_artifact_by_key("ortable test")
    compat.remove_from_dynamo_package("ortable test")
    is_removed = context.serialize_artifact_by_key("ortable test") is None
    return is_removed and bool(stored.content == artifact.content)


expect("remove_from_dynamo_package", "removes a recorded artifact", _precompile_context)


expect(
    "BackendCacheArtifact",
    "is constructed from a key and a content; subclasses have after_deserialization",
    lambda: (
        compat.BackendCacheArtifact("key", b"content").content == b"content"
        and hasattr(compat.BackendCacheArtifact, "after_deserialization")
    ),
)


@expects("precompile_mode", "is None in a plain compilation, otherwise the name of the mode")
def _precompile_mode() -> bool:
    modes = []

    def backend(graph: Any, inputs: Any) -> Any:
        modes.append(compat.precompile_mode())
        raise RuntimeError

    compiled = torch.compile(lambda x: x + 1, backend=backend, fullgraph=True)
    patch = torch._dynamo.config.patch
    for call in (compiled, lambda x: compiled.aot_compile(((x,), {}))):
        with contextlib.suppress(Exception):
            call(torch.ones(1))
    with contextlib.suppress(Exception), patch(caching_precompile=True):
        compiled(torch.ones(2))
    # the user's own setting of torch's cache, which saves no single function
    with contextlib.suppress(Exception), torch._functorch.config.patch(bundled_autograd_cache=True):
        compiled(torch.ones(3))
    torch.compiler.reset()
    return modes == [None, "aot_compile", "caching_precompile", None]


@expects("package_name", "is a text where dynamo stores packages")
def _package_name() -> bool:
    names = []

    def backend(graph: Any, inputs: Any) -> Any:
        names.append(compat.package_name(graph))
        raise RuntimeError

    with contextlib.suppress(Exception), torch._dynamo.config.patch(caching_precompile=True):
        torch.compile(lambda x: x + 1, backend=backend)(torch.ones(2))
    torch.compiler.reset()
    return len(names) == 1 and bool(names[0]) and compat.package_name(torch.nn.Module()) is None


@expects("find_installing_backend", "returns the backend for which a package is loaded")
def _backend_of_install() -> bool:
    from torch._dynamo.package import DynamoCache

    backends = []

    def backend(graph: Any, inputs: Any) -> Any:
        return graph.forward

    def load(function: Any) -> None:
        backends.append(compat.find_installing_backend())

    original, DynamoCache.load = DynamoCache.load, load
    try:
        with torch._dynamo.config.patch(caching_precompile=True):
            torch.compile(lambda x: x + 1, backend=backend, options={"a": 1})
    finally:
        DynamoCache.load = original
    torch.compiler.reset()
    return (
        backends == [(backend, {"options": {"a": 1}})] and compat.find_installing_backend() is None
    )


expect(
    "dynamo_eval_frame",
    "has the context of torch.compile and innermost_backend",
    lambda: (
        callable(compat.dynamo_eval_frame.innermost_backend)
        and hasattr(compat.dynamo_eval_frame, "_TorchDynamoContext")
    ),
)


@expects("record_cache_artifact", "stores bytes that loading puts in the folder of their name")
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


expect("loaded_cache_artifacts", "is the folder of loaded artifacts", _record_cache_artifact)
expect(
    "CacheArtifactManager",
    "has record_artifact(kind, key, bytes), and a context with no artifacts",
    lambda: _has_parameters(compat.CacheArtifactManager.record_artifact, "key", "content"),
)
expect(
    "AOTAutogradCache",
    "returns the folder of a key",
    lambda: callable(compat.AOTAutogradCache._get_tmp_dir_for_key),
)
expect(
    "AOTAutogradCacheArtifact",
    "has a type() that names its kind",
    lambda: compat.AOTAutogradCacheArtifact.type() == "aot_autograd",
)
expect(
    "OutputCode",
    "has the methods that a result in torch's cache defines",
    subclass_of(
        "OutputCode", ("prepare_for_serialization", "post_compile", "set_triton_bundle", "__call__")
    ),
)


@expects("CompileContext", "current_compile_id() is None outside, and counts frames inside")
def _compile_context() -> bool:
    ids = []

    def backend(graph: Any, inputs: Any) -> Any:
        ids.append(compat.CompileContext.current_compile_id().frame_compile_id)
        return graph.forward

    torch.compile(lambda x: x + 1, backend=backend)(torch.ones(1))
    torch.compiler.reset()
    return compat.CompileContext.current_compile_id() is None and ids == [0]


@expects("dynamo_timed", "is a context manager")
def _dynamo_timed() -> bool:
    with compat.dynamo_timed("ortable_check"):
        return True


expect(
    "dynamo_wrappers", "has a source file", lambda: compat.dynamo_wrappers.__file__.endswith(".py")
)
expect(
    "trace_structured",
    "takes (name, metadata_fn, payload_fn=..., expect_trace_id=...)",
    lambda: _has_parameters(
        compat.trace_structured, "name", "metadata_fn", "payload_fn", "expect_trace_id"
    ),
)


@functools.cache
def _compile_once() -> list[Any]:
    results: list[Any] = []

    def backend(graph: Any, inputs: Any) -> Any:
        results.extend([logging_compat.compiled_code(), logging_compat.frame_compilation()])
        return graph.forward

    torch.compile(Model(), backend=backend)(torch.ones(1))
    torch.compiler.reset()
    return results


def _trace_nothing() -> bool:
    logging_compat.trace_artifact("ortable_check", "string", lambda: "nothing")
    return True


def _record_event() -> bool:
    with logging_compat.timeline_event("ortable_check"):
        return True


CHECKS_OF_LOGGING: dict[str, tuple[str, Callable[[], Any]]] = {
    "compiled_code": (
        "returns the code of the compiled frame, and None outside",
        lambda: _compile_once()[0].co_name == "forward" and logging_compat.compiled_code() is None,
    ),
    "frame_compilation": ("returns 0 for the first compilation", lambda: _compile_once()[1] == 0),
    "timeline_event": ("is a context manager", _record_event),
    "trace_artifact": ("writes nothing without TORCH_TRACE", _trace_nothing),
}

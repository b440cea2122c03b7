"""The same as checks_of_torch of what torch.compile is made of: symbolic sizes, AOTAutograd,
dynamo, guards, and torch's logging."""

from __future__ import annotations

import contextlib
import functools
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
    "a size's environment is of it",
    lambda: isinstance(symbolic()[1].node.shape_env, compat.ShapeEnv),
)
expect("symbol_of", "the symbol of a size", lambda: compat.symbol_of(symbolic()[1]).is_Symbol)


@expects("marked_symbols", "the symbols of dimensions that the user marked as dynamic")
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


@expects("exporting_state", "a context in which torch.compiler says that it exports")
def _exporting_state() -> bool:
    with compat.exporting_state():
        inside = torch.compiler.is_compiling()
    return inside and not torch.compiler.is_compiling()


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


@expects("mark_dynamic", "(tensor, axis): one graph for the sizes of an axis that are above 1")
def _mark_dynamic() -> bool:
    made: list[torch.fx.GraphModule] = []

    def kept(graph: torch.fx.GraphModule, example: Any) -> Any:
        made.append(graph)
        return graph

    first = torch.ones(3)
    compat.mark_dynamic(first, 0)
    double = torch.compile(lambda x: x + x, backend=kept)
    double(first)
    double(torch.ones(5))
    return len(made) == 1


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


@expects("compiler_bisector", "has a table of backends, and asks what is off")
def _compiler_bisector() -> bool:
    module = compat.compiler_bisector
    bisector = module.CompilerBisector
    answers = bisector.bisection_enabled is False and bisector.get_backend() is None
    off = bisector.disable_subsystem("ortable", "rewrites", lambda: "never asked")
    subsystem = module.BisectSubsystem("rewrites")
    return (
        answers
        and off is False
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


@expects("compile_lock", "is held while dynamo compiles, and a thread may take it twice")
def _compile_lock() -> bool:
    held = []

    def backend(graph_module: Any, example_inputs: Any) -> Any:
        thread = Thread(target=lambda: held.append(not compat.compile_lock.acquire(blocking=False)))
        thread.start()
        thread.join()
        with compat.compile_lock:
            return graph_module.forward

    torch.compile(lambda x: x + 1, backend=backend)(torch.ones(2))
    return held == [True]


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
    compat.remove_from_dynamo_package("ortable test")
    gone = context.serialize_artifact_by_key("ortable test") is None
    return gone and bool(found.content == artifact.content)


expect("remove_from_dynamo_package", "as PrecompileContext", _precompile_context)


expect(
    "BackendCacheArtifact",
    "made of a key and a content; subclasses have after_deserialization",
    lambda: (
        compat.BackendCacheArtifact("key", b"content").content == b"content"
        and hasattr(compat.BackendCacheArtifact, "after_deserialization")
    ),
)


@expects("precompile_mode", "None in a plain compilation, the name of what keeps it in others")
def _precompiles() -> bool:
    seen = []

    def backend(graph: Any, inputs: Any) -> Any:
        seen.append(compat.precompile_mode())
        raise RuntimeError

    fast = torch.compile(lambda x: x + 1, backend=backend, fullgraph=True)
    patch = torch._dynamo.config.patch
    for call in (fast, lambda x: fast.aot_compile(((x,), {}))):
        with contextlib.suppress(Exception):
            call(torch.ones(1))
    with contextlib.suppress(Exception), patch(caching_precompile=True):
        fast(torch.ones(2))
    # caches of torch that others asked for, and no files of one function
    with contextlib.suppress(Exception), torch._functorch.config.patch(bundled_autograd_cache=True):
        fast(torch.ones(3))
    torch.compiler.reset()
    return seen == [None, "aot_compile", "caching_precompile", None]


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


@expects("find_installing_backend", "names the backend for which a package is read")
def _backend_of_install() -> bool:
    from torch._dynamo.package import DynamoCache

    seen = []

    def backend(graph: Any, inputs: Any) -> Any:
        return graph.forward

    def load(function: Any) -> None:
        seen.append(compat.find_installing_backend())

    original, DynamoCache.load = DynamoCache.load, load
    try:
        with torch._dynamo.config.patch(caching_precompile=True):
            torch.compile(lambda x: x + 1, backend=backend, options={"a": 1})
    finally:
        DynamoCache.load = original
    torch.compiler.reset()
    return seen == [(backend, {"options": {"a": 1}})] and compat.find_installing_backend() is None


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

    torch.compile(Model(), backend=backend)(torch.ones(1))
    torch.compiler.reset()
    return seen


def _writes_nothing() -> bool:
    logging_compat.trace_artifact("ortable_check", "string", lambda: "nothing")
    return True


def _timed() -> bool:
    with logging_compat.timeline_event("ortable_check"):
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
    "timeline_event": ("a block", _timed),
    "trace_artifact": ("nothing without TORCH_TRACE", _writes_nothing),
}

"""The compared candidates: eager, inductor, a bare ONNX Runtime session, and backend `ortable`.

Each function compiles the model, runs it once, and returns the call to measure. The inputs of a
session are converted before that call.
"""

from __future__ import annotations

import contextlib
import io
import logging
import os
import shutil
import tempfile
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch

from benchmarks.sessions import operators, session_options

Candidate = Callable[[], Any]
Arguments = tuple[torch.Tensor, ...]


def prepare(threads: int, with_inductor: bool = True) -> None:
    """Disable caches, allow recurrent networks, and import the compilers in this process."""
    import torch._inductor.config as inductor_config

    warnings.simplefilter("ignore")
    logging.disable(logging.WARNING)
    torch.set_num_threads(threads)
    inductor_config.force_disable_caches = True  # compile times are those of a first compilation
    torch._dynamo.config.allow_rnn = True
    torch._dynamo.config.recompile_limit = 64  # several backends share the code of one model
    _register()
    # these calls import torch.compile, sympy, onnx and onnxruntime before a measured compilation
    tiny, arguments = torch.nn.Linear(2, 2).eval(), (torch.randn(1, 2),)
    ortable(tiny, arguments)
    bare(tiny, arguments, threads)
    if with_inductor and has_compiler():
        inductor(tiny, arguments)
    torch._dynamo.reset()


def _register() -> None:
    """Register backend "ortable" if the package is on the path but not installed."""
    from torch._dynamo.backends.registry import _BACKENDS, list_backends, register_backend

    from ortable.backend import ortable as function

    if "ortable" not in list_backends() and "ortable" not in _BACKENDS:
        register_backend(function, name="ortable")


def has_compiler() -> bool:
    """Return whether this machine has the C++ compiler that inductor needs."""
    names = (os.environ.get("CXX", "g++"), "g++", "clang++")
    return any(shutil.which(name) for name in names)


def eager(model: torch.nn.Module, arguments: Arguments) -> Candidate:
    """Return a call of the uncompiled model, without gradients."""

    def call() -> Any:
        with torch.no_grad():
            return model(*arguments)

    return call


def ortable(model: torch.nn.Module, arguments: Arguments, grad: bool = False) -> Candidate:
    """Compile with backend `ortable`; with `grad`, weights are inputs in the first calls."""
    return _compiled(model, arguments, "ortable", grad)


def named(model: torch.nn.Module, arguments: Arguments, backend: Any) -> Candidate:
    """Compile with any backend of torch.compile, under no_grad."""
    return _compiled(model, arguments, backend)


def _compiled(
    model: torch.nn.Module,
    arguments: Arguments,
    backend: Any,
    grad: bool = False,
    settings: dict[str, Any] | None = None,
) -> Candidate:
    compiled = torch.compile(model, backend=backend, fullgraph=True, options=settings)

    def call() -> Any:
        with torch.set_grad_enabled(grad):
            return compiled(*arguments)

    call()
    return call


def inductor(model: torch.nn.Module, arguments: Arguments, freezing: bool = False) -> Candidate:
    """Compile with inductor; with `freezing`, weights become constants of its graph."""
    import torch._inductor.config as inductor_config
    from torch._inductor.compile_fx import compile_fx

    def backend(graph: torch.fx.GraphModule, inputs: Any) -> Any:
        return compile_fx(graph, inputs)  # a new object: dynamo caches code by backend

    # dynamo reads it in the first call, and then removes the weights from the arguments
    with inductor_config.patch(freezing=freezing):
        return _compiled(model, arguments, backend)


def floor(model: torch.nn.Module, arguments: Arguments) -> Candidate:
    """Compile to a graph that does nothing: the overhead of dynamo and AOTAutograd alone."""
    from torch._dynamo.backends.common import aot_autograd

    def compiler(graph: torch.fx.GraphModule, inputs: Any) -> Any:
        output = next(node for node in graph.graph.nodes if node.op == "output")
        shapes = [node.meta["val"].shape for node in output.args[0]]
        results = [torch.zeros(*[int(size) for size in shape]) for shape in shapes]

        def run(args: list[Any]) -> list[torch.Tensor]:
            args.clear()
            return list(results)

        run._boxed_call = True  # type: ignore[attr-defined]
        return run

    return _compiled(model, arguments, aot_autograd(fw_compiler=compiler))


def bare(model: torch.nn.Module, arguments: Arguments, threads: int) -> Candidate:
    """Make a default session of torch.onnx.export's optimized graph, with constant weights."""
    no_output = contextlib.redirect_stdout(io.StringIO())
    with torch.no_grad(), no_output, warnings.catch_warnings():
        warnings.simplefilter("ignore")
        program = torch.onnx.export(model, arguments, dynamo=True, optimize=True, verbose=False)
    assert program is not None
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "model.onnx"
        program.save(path, external_data=True)  # protobuf allows at most 2 GB
        del program
        return _session_call(path, arguments, threads)


def exported(
    model: torch.nn.Module, arguments: Arguments, threads: int, optimized: Path | None = None
) -> Candidate:
    """Make a default session of ortable's export; it writes its optimized graph to `optimized`."""
    import ortable

    with torch.no_grad(), warnings.catch_warnings(), tempfile.TemporaryDirectory() as folder:
        warnings.simplefilter("ignore")
        path = Path(folder) / "model.onnx"
        program = ortable.to_onnx(model, arguments, target="onnxruntime", large_model=True)
        program.save(path)
        return _session_call(path, arguments, threads, optimized)


def nodes_as_run(model: torch.nn.Module, arguments: Arguments, threads: int) -> dict[str, int]:
    """Count the nodes that ONNX Runtime runs; the dict is empty if a part runs in torch."""
    import onnx

    records: dict[str, Any] = {}
    with tempfile.TemporaryDirectory() as folder:
        paths = {name: Path(folder) / f"{name}.onnx" for name in ("compiled", "exported")}
        settings = {"optimized_model_filepath": str(paths["compiled"])}
        options = {"session_options": settings, "storage": records}
        _compiled(model, arguments, "ortable", settings=options)
        exported(model, arguments, threads, paths["exported"])
        if len(records["instance"]) != 1 or not paths["compiled"].exists():
            return {}
        graphs = {
            name: onnx.load(path, load_external_data=False).graph for name, path in paths.items()
        }
        return {name: len(operators(graph)) for name, graph in graphs.items()}


def _session_call(
    path: Path, arguments: Arguments, threads: int, optimized: Path | None = None
) -> Candidate:
    """Make a session of a file, run it once, and return its call."""
    import onnxruntime

    options = session_options(threads)
    if optimized is not None:
        options.optimized_model_filepath = str(optimized)
    session = onnxruntime.InferenceSession(path, options, providers=["CPUExecutionProvider"])
    names = [value.name for value in session.get_inputs()]
    feeds = {name: value.detach().numpy() for name, value in zip(names, arguments, strict=True)}

    def call() -> Any:
        return session.run(None, feeds)

    call()
    return call

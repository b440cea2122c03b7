"""What runs a converted graph: a session of ONNX Runtime, and nothing where no node is left."""

from __future__ import annotations

from .call import OrtBackend
from .compile import CompiledGraph
from .devices import executor, session_providers
from .options import OrtOptions
from .session import make_run_options, make_session

__all__ = ["run_with_onnxruntime"]


def run_with_onnxruntime(compiled: CompiledGraph, options: OrtOptions) -> OrtBackend:
    providers, stream = session_providers(options.providers or (), compiled.device)
    if not compiled.fetches:
        return OrtBackend(compiled, None, None)
    session = make_session(
        compiled.model,
        providers,
        options.session_options,
        training=compiled.part or compiled.kind != "inference",
    )
    run_options = make_run_options(options.run_options)
    own = None if run_options is options.run_options else run_options
    return OrtBackend(compiled, session, run_options, executor(compiled, session, stream, own))

"""What runs a converted graph: a session of ONNX Runtime, and nothing where no node is left."""

from __future__ import annotations

from .call import OrtBackend
from .compile import CompiledGraph
from .options import OrtOptions
from .session import check_providers, make_run_options, make_session

__all__ = ["run_with_onnxruntime"]


def run_with_onnxruntime(compiled: CompiledGraph, options: OrtOptions) -> OrtBackend:
    check_providers(options.providers)
    if not compiled.fetches:
        return OrtBackend(compiled, None, None)
    session = make_session(
        compiled.model,
        options.providers,
        options.session_options,
        training=compiled.part or compiled.kind != "inference",
    )
    return OrtBackend(compiled, session, make_run_options(options.run_options))

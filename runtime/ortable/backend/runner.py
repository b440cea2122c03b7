"""What runs a converted graph: a session of ONNX Runtime, and nothing where no node is left."""

from __future__ import annotations

from typing import Any

from .cache.keys import session_key
from .cache.memory import shared_session
from .call import OrtBackend
from .compile import CompiledGraph
from .options import OrtOptions
from .session import check_providers, make_run_options, make_session

__all__ = ["run_with_onnxruntime"]


def run_with_onnxruntime(compiled: CompiledGraph, options: OrtOptions) -> OrtBackend:
    check_providers(options.providers)
    if not compiled.fetches:
        return OrtBackend(compiled, None, None)
    training = compiled.kind != "inference"

    def make() -> Any:
        return make_session(
            compiled.model, options.providers, options.session_options, training=training
        )

    session = shared_session(session_key(compiled, options, training), (), make)
    return OrtBackend(compiled, session, make_run_options(options.run_options))

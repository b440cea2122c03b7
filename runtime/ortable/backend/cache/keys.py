"""Keys of conversions: what of the graph, the options and the installed versions changes one, as
one digest. In come an AotGraph and options, out comes a text of 64 digits, the same in every
process; called by `conversion`, `autotune.decisions`, `precompile` and `aot.torch_cache`."""

from __future__ import annotations

import torch

from ortable.backend.lower.aot_graph import AotGraph
from ortable.backend.lower.compile import target_opset
from ortable.backend.options import OrtOptions
from ortable.compat.providers import provider_names
from ortable.interpreter.tables import LOADED
from ortable.passes.rewrite.choose import content

from .graph_key import Uncacheable, graph_text
from .session_keys import digest_of_lines, text_of, versions


def conversion_key(
    graph: AotGraph,
    options: OrtOptions,
    static: frozenset[int],
    whole: AotGraph | None = None,
) -> str:
    """Digest of all that `compile_graph` reads of these arguments, in this process.

    :raises Uncacheable: the graph holds what has no content to compare, or the options hold
        functions that change the model
    """
    if options.pre_ort_model_transforms:
        raise Uncacheable("pre_ort_model_transforms may do anything")
    settings = [
        target_opset(options.target_opset, provider_names(options.providers)),
        options.optimize,
        content(options.rewrites),
        options.weights == "keep",
        sorted(options.raise_on),
        provider_names(options.providers),
        sorted(static),
        None if whole is None else whole.kind,
        str(torch.get_default_dtype()),
        torch.are_deterministic_algorithms_enabled(),  # what new memory holds
        getattr(torch.utils.deterministic, "fill_uninitialized_memory", True),
        len(LOADED),
    ]
    return digest_of_lines([text_of(settings), f"kind {graph.kind}", *graph_text(graph.module)])


def disk_key(key: str) -> str:
    """The key of a conversion for other processes: with versions, and the user's specs.

    :raises Uncacheable: `load_specs` was given functions, whose content nobody can compare
    """
    for specs in LOADED:
        if specs.lowerings:
            raise Uncacheable(f"{specs.path} was loaded with lowerings, which are functions")
    return digest_of_lines([key, text_of(versions()), *(specs.source for specs in LOADED)])

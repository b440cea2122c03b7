"""Call `compile_graph` through the caches: first memory, then the folder of option `cache_dir`."""

from __future__ import annotations

import contextlib
import logging
import time
from collections.abc import Mapping
from dataclasses import replace

from ortable.backend.lower.aot_graph import AotGraph
from ortable.backend.lower.compile import compile_graph
from ortable.backend.options import OrtOptions
from ortable.backend.roles import CompiledGraph
from ortable.backend.store import Limits, Uncacheable
from ortable.compat.bisector import is_bisecting

from .graph_key import conversion_key
from .keys import disk_key
from .memory import conversions

_log = logging.getLogger(__name__)


def compile_cached(
    graph: AotGraph,
    options: OrtOptions,
    static: frozenset[int] = frozenset(),
    parent: AotGraph | None = None,
) -> CompiledGraph:
    """Return the result of `compile_graph`, from a cache if possible.

    `CompiledGraph.cache` is `miss`, `memory` or `disk`. Errors of `compile_graph` are passed on.
    """
    if is_bisecting():  # a bisection disables parts of the conversion
        return compile_graph(graph, options, static, parent)
    begin = time.perf_counter()
    try:
        key = conversion_key(graph, options, static, parent)
    except Uncacheable as exc:
        _log_and_print(options, f"not cached: {exc}")
        return compile_graph(graph, options, static, parent)
    seconds = {"key": time.perf_counter() - begin}
    # stored conversions refer to nodes by position: the names differ between equal graphs
    names = {str(index): node.name for index, node in enumerate(graph.module.graph.nodes)}
    conversion = _find_conversion(key, options, seconds)
    if conversion is None:
        _log.debug("no conversion of the %s graph is stored under %s", graph.kind, key)
        compiled = compile_graph(graph, options, static, parent)
        seconds |= compiled.timings
        positions = {name: position for position, name in names.items()}
        conversion = _rename_nodes(replace(compiled, key=key), positions)
        conversions.put(key, conversion)
        _save_conversion(key, conversion, options)
    # restore this graph's timings and node names
    return _rename_nodes(replace(conversion, timings=seconds), names)


def _rename_nodes(compiled: CompiledGraph, names: Mapping[str, str]) -> CompiledGraph:
    """Replace the names of FX nodes in a conversion; `names` maps old names to new names."""
    return replace(
        compiled,
        fx_names={result: _rename_part(name, names) for result, name in compiled.fx_names.items()},
        cases={names[name]: case for name, case in compiled.cases.items()},
    )


def _rename_part(name: str, names: Mapping[str, str]) -> str:
    """Rename a node, also in the name of a part such as `fft.real`."""
    node, dot, part = name.partition(".")
    return f"{names[node]}{dot}{part}"


def load_cached(key: str, options: OrtOptions) -> CompiledGraph | None:
    """Return the conversion under a key (`CompiledGraph.key`) from memory or disk, or None.

    The conversion has no names of FX nodes.
    """
    seconds: dict[str, float] = {}
    conversion = _find_conversion(key, options, seconds)
    return (
        None if conversion is None else replace(conversion, timings=seconds, fx_names={}, cases={})
    )


def _find_conversion(
    key: str, options: OrtOptions, seconds: dict[str, float]
) -> CompiledGraph | None:
    """Find a conversion in memory or on disk; add the time of the search to `seconds`.

    A conversion from memory is also written to `cache_dir` if it is not stored there.
    """
    begin = time.perf_counter()
    conversion = conversions.get(key)
    if conversion is not None:
        _save_conversion(key, conversion, options, overwrite=False)
        conversion = replace(conversion, cache="memory")
    elif options.cache_dir is not None:
        with contextlib.suppress(Uncacheable):
            conversion = conversions.load(options.cache_dir, disk_key(key), limits_of(options))
        if conversion is not None:
            conversion = replace(conversion, key=key)
            conversions.put(key, conversion)
    if conversion is not None:
        _log.debug("the conversion %s was found: %s", key, conversion.cache)
    seconds["load"] = time.perf_counter() - begin
    return conversion


def limits_of(options: OrtOptions) -> Limits:
    """Return the limits of the cache folder that the options set."""
    return Limits(options.cache_megabytes * 2**20, options.cache_days * 24 * 3600)


def _save_conversion(
    key: str, compiled: CompiledGraph, options: OrtOptions, overwrite: bool = True
) -> None:
    """Write a conversion to `cache_dir`; replace an existing file only if `overwrite` is set."""
    folder = options.cache_dir
    if folder is None:
        return
    try:
        name = disk_key(key)
        if overwrite or not conversions.path(folder, name).exists():
            conversions.save(folder, name, compiled, limits_of(options))
    except Uncacheable as exc:
        _log_and_print(options, f"not written to {folder}: {exc}")


def _log_and_print(options: OrtOptions, message: str) -> None:
    _log.info("%s", message)
    if options.verbose:
        print(f"[ortable] {message}")

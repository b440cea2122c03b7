"""`compile_graph` behind the caches: memory first, then the folder of option `cache_dir`."""

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
from ortable.compat.bisector import searched

from .graph_key import conversion_key
from .keys import disk_key
from .memory import conversions

_log = logging.getLogger(__name__)


def compile_cached(
    graph: AotGraph,
    options: OrtOptions,
    static: frozenset[int] = frozenset(),
    whole: AotGraph | None = None,
) -> CompiledGraph:
    """What `compile_graph` returns, converted here or found in a cache: `CompiledGraph.cache` says
    which (`miss`, `memory`, `disk`). Raises what `compile_graph` raises.
    """
    if searched():  # a fault: parts of the conversion are switched off
        return compile_graph(graph, options, static, whole)
    begin = time.perf_counter()
    try:
        key = conversion_key(graph, options, static, whole)
    except Uncacheable as exc:
        _say(options, f"not cached: {exc}")
        return compile_graph(graph, options, static, whole)
    seconds = {"key": time.perf_counter() - begin}
    # kept are positions in place of the names of nodes, which equal graphs may have others of
    names = {str(i): node.name for i, node in enumerate(graph.module.graph.nodes)}
    found = _find(key, options, seconds)
    if found is None:
        _log.debug("no conversion of the %s graph is kept under %s", graph.kind, key)
        made = compile_graph(graph, options, static, whole)
        seconds |= made.timings
        positions = {name: position for position, name in names.items()}
        found = _renamed(replace(made, key=key), positions)
        conversions.put(key, found)
        _save(key, found, options)
    # timings are those of this graph, and so are the names of nodes
    return _renamed(replace(found, timings=seconds), names)


def _renamed(compiled: CompiledGraph, names: Mapping[str, str]) -> CompiledGraph:
    return replace(
        compiled,
        fx_names={result: _renamed_part(name, names) for result, name in compiled.fx_names.items()},
        cases={names[name]: case for name, case in compiled.cases.items()},
    )


def _renamed_part(name: str, names: Mapping[str, str]) -> str:
    """A node under its other name, or a part of one: `fft.real`."""
    node, dot, part = name.partition(".")
    return f"{names[node]}{dot}{part}"


def load_cached(key: str, options: OrtOptions) -> CompiledGraph | None:
    """The conversion of a key that `compile_cached` gave in this or another process; None when
    neither memory nor the folder has it."""
    seconds: dict[str, float] = {}
    found = _find(key, options, seconds)
    return None if found is None else replace(found, timings=seconds, fx_names={}, cases={})


def _find(key: str, options: OrtOptions, seconds: dict[str, float]) -> CompiledGraph | None:
    begin = time.perf_counter()
    found = conversions.get(key)
    if found is not None:
        _save(key, found, options, again=False)
        found = replace(found, cache="memory")
    elif options.cache_dir is not None:
        with contextlib.suppress(Uncacheable):
            found = conversions.load(options.cache_dir, disk_key(key), limits_of(options))
        if found is not None:
            found = replace(found, key=key)
            conversions.put(key, found)
    if found is not None:
        _log.debug("the conversion %s is found: %s", key, found.cache)
    seconds["load"] = time.perf_counter() - begin
    return found


def limits_of(options: OrtOptions) -> Limits:
    """Those of the folder that the options set."""
    return Limits(options.cache_megabytes * 2**20, options.cache_days * 24 * 3600)


def _save(key: str, compiled: CompiledGraph, options: OrtOptions, again: bool = True) -> None:
    """Writes a conversion into `cache_dir`; one that is there already only when `again`."""
    folder = options.cache_dir
    if folder is None:
        return
    try:
        name = disk_key(key)
        if again or not conversions.path(folder, name).exists():
            conversions.save(folder, name, compiled, limits_of(options))
    except Uncacheable as exc:
        _say(options, f"not written into {folder}: {exc}")


def _say(options: OrtOptions, message: str) -> None:
    _log.info("%s", message)
    if options.verbose:
        print(f"[ortable] {message}")

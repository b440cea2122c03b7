"""Serialize a compiled graph to bytes: its conversions, host graph, and the options of a run.

The host graph, if there is one, is the torch graph that calls the converted parts. The bytes
contain the constants of the graph, but no weights: the caller passes the weights at each call.
"""

from __future__ import annotations

import hashlib
import json
import logging
from collections.abc import Mapping
from dataclasses import asdict, dataclass, fields
from typing import Any

from ortable.backend.cache.codec import (
    Unserializable,
    decode_value,
    decode_with_model,
    encode_value,
    encode_with_model,
)
from ortable.backend.cache.envelope import seal_bytes, unseal_bytes
from ortable.backend.cache.keys import option_settings
from ortable.backend.execute.runner import run_with_onnxruntime
from ortable.backend.options import OrtOptions
from ortable.backend.partition.host_graph import (
    HostGraph,
    PartitionedGraph,
    decode_host_graph,
    join_partitions,
    partition_name,
)
from ortable.backend.roles import CompiledGraph
from ortable.backend.sessions.providers import CPU
from ortable.errors import PrecompileError
from ortable.passes.weight_quantization import WeightOptions

_log = logging.getLogger(__name__)
# Options that affect only the compilation or its reports.
_COMPILE_TIME_OPTIONS = frozenset(
    {
        "cache_days", "cache_dir", "cache_megabytes", "dump_prefix", "export_options", "fallback",
        "hints", "optimize", "pre_ort_model_transforms", "raise_on", "rewrites", "storage",
        "target_opset", "verbose",
    }
)  # fmt: skip
_ADVICE = (
    "What to do: compile this model without aot_compile and without TORCH_CACHING_PRECOMPILE; "
    "option cache_dir stores its conversions for other processes."
)


def pack_graph(run: Any, options: OrtOptions) -> bytes:
    """Return the bytes of a compiled graph.

    Args:
        run: an OrtBackend or a PartitionedGraph.
        options: the options of the backend.

    Raises:
        PrecompileError: if bytes cannot represent the graph or an option.
    """
    conversions, text = get_conversions(run)
    entries, models = [], []
    for compiled in conversions:
        try:
            graph_fields, model = encode_with_model(compiled)
        except Unserializable as exc:
            raise _make_error(str(exc)) from None
        models.append(model)
        entry = {
            "graph": graph_fields,
            "key": compiled.key,
            "label": compiled.label,
            "bytes": len(model),
        }
        entries.append(entry)
    header = {"options": serialize_options(options), "text": text, "graphs": entries}
    return seal_bytes(
        "graph", {"digest_options": digest_options(options), **header}, b"".join(models)
    )


@dataclass(frozen=True)
class UnpackedGraph:
    """The contents of a packed graph; `text` is the encoded form of `host`."""

    conversions: list[CompiledGraph]
    host: HostGraph | None
    text: str | None
    options: OrtOptions

    def make_callable(self) -> Any:
        """Make the callable of the graph: an OrtBackend or a PartitionedGraph."""
        callables = [run_with_onnxruntime(compiled, self.options) for compiled in self.conversions]
        for compiled in self.conversions:
            _log.info("loaded %s: %d ONNX nodes", compiled.label, len(compiled.model.graph.node))
        if self.host is None:
            return callables[0]
        callables_by_name = {partition_name(index): run for index, run in enumerate(callables)}
        return join_partitions(self.host.graph, callables_by_name, text=self.text)


def unpack_graph(packed: bytes) -> UnpackedGraph:
    """Return the contents of the bytes that `pack_graph` returned.

    Raises:
        PrecompileError: if `pack_graph` did not write the bytes in this environment.
    """
    header, content = unseal_bytes("graph", packed)
    conversions = []
    begin = 0
    for entry in header["graphs"]:
        end = begin + entry["bytes"]
        identity = {"key": entry["key"], "label": entry["label"]}
        conversions.append(decode_with_model(entry["graph"], content[begin:end], **identity))
        begin = end
    text = header["text"]
    host = None if text is None else decode_host_graph(text, len(conversions))
    return UnpackedGraph(conversions, host, text, deserialize_options(header["options"]))


def get_conversions(run: Any) -> tuple[list[CompiledGraph], str | None]:
    """Return the conversions of a callable, and the text of its host graph if there is one.

    Raises:
        PrecompileError: if other processes could not restore the callable from the conversions and
            the text.
    """
    text = None
    callables: tuple[Any, ...] = (run,)
    if isinstance(run, PartitionedGraph):
        text, callables = run.text, run.partitions
        if text is None:
            raise _make_error(
                "torch runs a part that reads a constant or calls a higher-order operator"
            )
    graphs = []
    for part in callables:
        error = getattr(part, "error", None)
        if isinstance(error, Exception):
            raise error
        compiled = getattr(part, "compiled", None)
        if not isinstance(compiled, CompiledGraph):
            raise _make_error(f"its callable is a {type(part).__name__}")
        if compiled.device != "cpu":
            raise _make_error(
                f"it runs on {compiled.device}, and only CPU graphs can be serialized"
            )
        graphs.append(compiled)
    return graphs, text


def serialize_options(options: OrtOptions) -> dict[str, Any]:
    """Return the options that a run reads and that differ from their defaults, as plain values.

    Raises:
        PrecompileError: if the format cannot represent a value.
    """
    default = OrtOptions()
    values = {}
    for option in fields(OrtOptions):
        value = getattr(options, option.name)
        if option.name in _COMPILE_TIME_OPTIONS or value == getattr(default, option.name):
            continue
        if isinstance(value, WeightOptions):
            value = asdict(value)
        try:
            values[option.name] = encode_value(value)
        except Unserializable as exc:
            raise PrecompileError(
                f"Option {option.name!r} cannot be stored in a file: {exc}."
            ).with_advice(f"What to do: give {option.name} as a dict of settings.") from None
    return values


def deserialize_options(serialized: Mapping[str, Any]) -> OrtOptions:
    """Return the options that `serialize_options` serialized."""
    values = {name: decode_value(value) for name, value in serialized.items()}
    return OrtOptions(**{"providers": CPU, **values})


def digest_options(options: OrtOptions) -> str:
    """Digest the options that change a compiled graph or how it runs."""
    settings = [option_settings(options), serialize_options(options)]
    return hashlib.sha256(json.dumps(settings, default=repr).encode()).hexdigest()


def _make_error(reason: str) -> PrecompileError:
    return PrecompileError(
        f"This graph cannot be serialized for another process: {reason}."
    ).with_advice(_ADVICE)

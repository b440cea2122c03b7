"""A compiled graph whole, as bytes: its conversions, the code around them where torch runs a part,
and the options that a run reads.

Weights are in no conversion, so they are in no bytes either: the caller hands them over at each
call. Constants of the graph are in the model, once."""

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
    decode_whole,
    encode_value,
    encode_whole,
)
from ortable.backend.cache.envelope import seal, unseal
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
# What an option of these did is done when a graph is compiled, or tells of compilations.
_DONE = frozenset(
    {
        "cache_days", "cache_dir", "cache_megabytes", "dump_prefix", "export_options", "fallback",
        "hints", "optimize", "pre_ort_model_transforms", "raise_on", "rewrites", "storage",
        "target_opset", "verbose",
    }
)  # fmt: skip
_ADVICE = (
    "What to do: torch.compile without aot_compile and without TORCH_CACHING_PRECOMPILE takes "
    "this model; the option cache_dir keeps its conversions for other processes."
)


def pack(run: Any, options: OrtOptions) -> bytes:
    """The bytes of a compiled graph.

    :param run: an OrtBackend or a PartitionedGraph
    :raises PrecompileError: bytes cannot hold the graph or an option
    """
    conversions, text = converted_graphs(run)
    described, models = [], []
    for each in conversions:
        try:
            fields_, model = encode_whole(each)
        except Unserializable as exc:
            raise _refused(str(exc)) from None
        models.append(model)
        about = {"graph": fields_, "key": each.key, "label": each.label, "bytes": len(model)}
        described.append(about)
    header = {"options": kept_options(options), "text": text, "graphs": described}
    return seal("graph", {"made_with": made_with(options), **header}, b"".join(models))


@dataclass(frozen=True)
class Unpacked:
    """What `pack` was given: the conversions, the code around them, the options."""

    conversions: list[CompiledGraph]
    host: HostGraph | None
    text: str | None
    options: OrtOptions

    def run(self) -> Any:
        """What runs the graph: an OrtBackend or a PartitionedGraph."""
        callables = [run_with_onnxruntime(each, self.options) for each in self.conversions]
        for each in self.conversions:
            _log.info("%s was loaded: %d ONNX nodes", each.label, len(each.model.graph.node))
        if self.host is None:
            return callables[0]
        named = {partition_name(index): each for index, each in enumerate(callables)}
        return join_partitions(self.host.graph, named, text=self.text)


def unpack(packed: bytes) -> Unpacked:
    """What `pack` was given.

    :raises PrecompileError: `pack` did not write the bytes in this environment
    """
    header, content = unseal("graph", packed)
    conversions = []
    begin = 0
    for each in header["graphs"]:
        end = begin + each["bytes"]
        known = {"key": each["key"], "label": each["label"]}
        conversions.append(decode_whole(each["graph"], content[begin:end], **known))
        begin = end
    text = header["text"]
    host = None if text is None else decode_host_graph(text, len(conversions))
    return Unpacked(conversions, host, text, options_of(header["options"]))


def converted_graphs(run: Any) -> tuple[list[CompiledGraph], str | None]:
    """The conversions that a callable runs, and the text of a graph of which torch runs a part.

    :raises PrecompileError: other processes could not make the callable from these
    """
    text = None
    callables: tuple[Any, ...] = (run,)
    if isinstance(run, PartitionedGraph):
        text, callables = run.text, run.partitions
        if text is None:
            raise _refused(
                "torch runs a part of it that reads a constant or calls a higher-order operator"
            )
    found = []
    for each in callables:
        failed = getattr(each, "error", None)
        if isinstance(failed, Exception):
            raise failed
        compiled = getattr(each, "compiled", None)
        if not isinstance(compiled, CompiledGraph):
            raise _refused(f"a {type(each).__name__} runs it")
        if compiled.device != "cpu":
            raise _refused(f"it runs on {compiled.device}, and only graphs for the CPU can be kept")
        found.append(compiled)
    return found, text


def kept_options(options: OrtOptions) -> dict[str, Any]:
    """The options that a run reads, as plain values; those with their default are left out.

    :raises PrecompileError: an object that has no form in a file
    """
    default = OrtOptions()
    kept = {}
    for each in fields(OrtOptions):
        value = getattr(options, each.name)
        if each.name in _DONE or value == getattr(default, each.name):
            continue
        if isinstance(value, WeightOptions):
            value = asdict(value)
        try:
            kept[each.name] = encode_value(value)
        except Unserializable as exc:
            raise PrecompileError(f"Option {each.name!r} cannot be kept in a file: {exc}.").advised(
                f"What to do: give {each.name} as a dict of settings."
            ) from None
    return kept


def options_of(kept: Mapping[str, Any]) -> OrtOptions:
    """The inverse of `kept_options`."""
    values = {name: decode_value(value) for name, value in kept.items()}
    return OrtOptions(**{"providers": CPU, **values})


def made_with(options: OrtOptions) -> str:
    """A digest of the options that change a compiled graph or how it runs."""
    settings = [option_settings(options), kept_options(options)]
    return hashlib.sha256(json.dumps(settings, default=repr).encode()).hexdigest()


def _refused(why: str) -> PrecompileError:
    return PrecompileError(f"This graph cannot be kept for another process: {why}.").advised(
        _ADVICE
    )

"""Reports of a compiled graph: a record in the caller's dict, dumped files and printed lines.

Calls of the compiled graph never use them.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Mapping, MutableMapping, Sequence
from dataclasses import dataclass, field, fields
from pathlib import Path
from typing import Any

from onnx import ModelProto, printer
from torch.fx import GraphModule

from ortable.backend.roles import (
    CompiledGraph,
    InputRole,
    Mutation,
    OutputRole,
    OutputRoleKind,
    Placement,
)
from ortable.ir.proto.atomic_files import write_file

_dump_numbers = itertools.count()


@dataclass(frozen=True, repr=False, eq=False, kw_only=True)
class CompileRecord(Mapping[str, Any]):
    """One compiled graph, or one partition of a graph that runs partly in torch.

    `record.onnx` and `record["onnx"]` are the same: the model, or None if torch runs the graph.
    `graph_module` is the FX graph, or None if nothing was traced. `frozen` are the names of the
    inputs that become constants, or the reason why none does. `placement` lists where each operator
    runs. `rewrites` counts how often each rule fired; `refused` counts the reasons why rules did
    not fire. `cases` maps FX nodes to the case of `lower` that converted them, for entries with
    several cases (`{"addmm": "aten::addmm/2"}`). `cache` is where the conversion was found, and
    `timings` are seconds per phase. `cpu_nodes` counts by operator the nodes that a requested
    provider leaves to the CPU provider. `tuned` and `weights` are the results of options `tune` and
    `weights`. These three are set when a session is created. For quantized weights, `weights` has
    the keys `rounded`, a list with one row for each weight, and `onnx`, the model without its
    weights. For `"keep"` and `"float32"` it has the keys `model_bytes` and `session_bytes`, the
    size of the weights in torch's memory and additionally in the session.
    """

    kind: str
    onnx: ModelProto | None = None
    providers: list[str] = field(default_factory=list)
    cpu_nodes: dict[str, int] = field(default_factory=dict)
    graph_module: GraphModule | None
    inputs: list[InputRole] = field(default_factory=list)
    outputs: list[OutputRole] = field(default_factory=list)
    mutations: list[Mutation] = field(default_factory=list)
    frozen: tuple[str, ...] | str = "not run by ONNX Runtime"
    timings: dict[str, float] = field(default_factory=dict)
    rewrites: dict[str, int] = field(default_factory=dict)
    refused: dict[str, dict[str, int]] = field(default_factory=dict)
    cases: dict[str, str] = field(default_factory=dict)
    cache: str
    placement: list[Placement]
    tuned: dict[str, Any] = field(default_factory=dict)
    weights: dict[str, Any] = field(default_factory=dict)

    def __getitem__(self, name: str) -> Any:
        if name not in _FIELDS:
            raise KeyError(name)
        return getattr(self, name)

    def __iter__(self) -> Iterator[str]:
        return iter(_FIELDS)

    def __len__(self) -> int:
        return len(_FIELDS)

    def __repr__(self) -> str:
        nodes = "all in torch" if self.onnx is None else f"{len(self.onnx.graph.node)} ONNX nodes"
        sizes = f"{len(self.inputs)} inputs, {len(self.outputs)} outputs"
        return f"CompileRecord({self.kind}: {nodes}, {sizes}, cache={self.cache!r})"


_FIELDS = tuple(f.name for f in fields(CompileRecord))


def make_record(
    compiled: CompiledGraph,
    graph_module: GraphModule | None,
    callable_graph: Any,
    providers: Sequence[str],
    placement: list[Placement],
) -> CompileRecord:
    """Make the record of a converted graph.

    Args:
        compiled: the conversion.
        graph_module: its FX graph; None if it was not traced.
        callable_graph: the callable that runs it, which may have a session and constant weights.
        providers: the names of the requested providers, recorded if there is no session.
        placement: where each operator runs.
    """
    model = ModelProto()
    model.CopyFrom(compiled.model)  # a copy, because the conversion is shared
    session = getattr(callable_graph, "session", None)
    return CompileRecord(
        kind=compiled.kind,
        onnx=model,
        providers=list(providers) if session is None else session.get_providers(),
        cpu_nodes=getattr(callable_graph, "cpu_nodes", {}),
        graph_module=graph_module,
        inputs=list(compiled.inputs),
        outputs=list(compiled.outputs[: compiled.n_results]),
        mutations=list(compiled.mutations),
        frozen=getattr(callable_graph, "frozen", CompileRecord.frozen),
        timings=dict(compiled.timings),
        rewrites=dict(compiled.rewrites),
        refused={rule: dict(reasons) for rule, reasons in compiled.refused.items()},
        cases=dict(compiled.cases),
        cache=compiled.cache,
        placement=placement,
        tuned=getattr(callable_graph, "tuned", {}),
        weights=getattr(callable_graph, "weights", {}),
    )


def make_torch_record(
    kind: str, graph_module: GraphModule | None, placement: list[Placement]
) -> CompileRecord:
    """Make the record of a graph that torch runs entirely."""
    return CompileRecord(
        kind=kind,
        graph_module=graph_module,
        cache="disk" if graph_module is None else "miss",
        placement=placement,
    )


def append_record(storage: MutableMapping[str, Any] | None, record: CompileRecord) -> None:
    """Append `record` to `storage["instance"]`, unless `storage` is None."""
    if storage is not None:
        storage.setdefault("instance", []).append(record)


def dump_model(prefix: str | None, model: ModelProto, graph_text: str) -> Path | None:
    """Write `<prefix>_<n>.onnx` and `<prefix>_<n>.txt` (the FX graph, then the ONNX graph).

    `n` counts the models dumped by this process. The folder is created if it does not exist.

    Returns:
        The path of the model, or None if there is no prefix.
    """
    if prefix is None:
        return None
    number = next(_dump_numbers)
    path = Path(f"{prefix}_{number}.onnx")
    path.parent.mkdir(parents=True, exist_ok=True)
    write_file(path, model.SerializeToString())
    text = f"{graph_text}\n\n{printer.to_text(model)}\n"
    write_file(path.with_suffix(".txt"), text.encode())
    return path


def print_report(compiled: CompiledGraph, verbose: int, graph_text: str) -> None:
    """Print one line about a graph; from `verbose` 2 on the FX and the ONNX graph as well."""
    seconds = ", ".join(f"{name} {value:.4f} s" for name, value in compiled.timings.items())
    bypassed = sum(role.kind is not OutputRoleKind.TENSOR for role in compiled.outputs)
    print(
        f"[ortable] {compiled.kind}: {len(compiled.model.graph.node)} ONNX nodes, "
        f"{len(compiled.inputs)} inputs, {compiled.n_results} outputs ({bypassed} not computed by "
        f"ONNX Runtime), {seconds}"
    )
    if verbose > 1:
        print(graph_text)
        print(printer.to_text(compiled.model))

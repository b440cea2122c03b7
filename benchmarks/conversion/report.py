"""Markdown report of benchmarks.conversion."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from benchmarks.measure import geomean
from benchmarks.report import made_of, number, table

Record = Mapping[str, Any]
ORTABLE, TORCH_ONNX = "ortable", "torch.onnx"
IN_TORCH, IN_PROTO = "weights left in torch", "one ModelProto"
SMALL_MODEL, LARGE_MODEL = 100, 400  # megabytes of weights


def one_line(record: Record) -> str:
    """Format the progress line of a measured model."""
    mode = "free" if record["dynamic"] else "fixed"
    if "failed" in record:
        return f"{record['name']}, {mode}: FAILED, {record['failed']}"
    ours = record["median"][f"{ORTABLE}, {IN_TORCH}"]
    parts = [f"{record['name']}, {mode}: {1e3 * ours:.1f} ms, {record['nodes'][ORTABLE]} nodes"]
    if "ratio" in record:
        parts.append(
            f"torch.onnx {record['ratio'][IN_TORCH]:.0f} and {record['ratio'][IN_PROTO]:.1f} "
            f"times, {record['nodes'][TORCH_ONNX]} nodes"
        )
    if "latency_ratio" in record:
        parts.append(f"latency / theirs {record['latency_ratio']:.3f} +- {record['band']:.3f}")
    parts += [f"{name}: {text}" for name, text in record["errors"].items()]
    return "; ".join(parts)


def _mean(records: Sequence[Record], get: Callable[[Record], float | None], digits: int) -> str:
    values = [value for record in records if (value := get(record)) is not None]
    return number(geomean(values) if values else None, digits)


def _ratio(label: str) -> Callable[[Record], float | None]:
    return lambda record: record.get("ratio", {}).get(label)


def _seconds(label: str) -> Callable[[Record], float | None]:
    return lambda record: record["median"].get(label)


def conversions(records: Sequence[Record], means_only: bool = False) -> str:
    """Format seconds and ratios of each model, and geometric means of the ratios."""
    columns = [
        (f"{tool}, {label}", label)
        for label in (IN_TORCH, IN_PROTO)
        for tool in (ORTABLE, TORCH_ONNX)
    ]
    header = ["model", "MB"]
    for label in (IN_TORCH, IN_PROTO):
        header += [f"{label}: ortable, s", "torch.onnx, s", "ratio"]
    rows = []
    for record in () if means_only else records:
        cells = [record["name"], f"{record['megabytes']:.0f}"]
        for position, (column, label) in enumerate(columns):
            cells.append(number(_seconds(column)(record), 3 if position % 2 == 0 else 2))
            if position % 2:
                cells.append(number(_ratio(label)(record), 1))
        rows.append(cells)
    for title, subset in (
        ("geometric mean", list(records)),
        (f"below {SMALL_MODEL} MB", [r for r in records if r["megabytes"] < SMALL_MODEL]),
        (f"above {LARGE_MODEL} MB", [r for r in records if r["megabytes"] > LARGE_MODEL]),
    ):
        means = [title, ""]
        for label in (IN_TORCH, IN_PROTO):
            means += ["", "", _mean(subset, _ratio(label), 1)]
        rows.append(means)
    return table(header, rows)


def _node_ratio(record: Record) -> float | None:
    nodes = record["nodes"]
    return nodes[ORTABLE] / nodes[TORCH_ONNX] if TORCH_ONNX in nodes else None


def _nodes_of(tool: str) -> Callable[[Record], float | None]:
    def get_nodes(record: Record) -> float | None:
        has_both = TORCH_ONNX in record["nodes"] or tool == ORTABLE
        return record["nodes"].get(tool) if has_both else None

    return get_nodes


def graphs(records: Sequence[Record]) -> str:
    """Format nodes, latency and peak memory of both graphs."""
    header = ["model", "nodes: ortable", "ortable / torch.onnx"]
    has_latency = any("latency" in record for record in records)
    if has_latency:
        header += ["ortable, ms", "ortable / torch.onnx", "A/A band"]
    header += ["peak MB: ortable", "torch.onnx"]
    rows = []
    for record in records:
        cells = [record["name"], str(record["nodes"][ORTABLE])]
        cells.append(number(_node_ratio(record), 2))
        if has_latency:
            latency = record.get("latency", {})
            cells.append(f"{1e3 * latency[ORTABLE]:.3g}" if ORTABLE in latency else "-")
            cells.append(number(record.get("latency_ratio"), 3))
            cells.append(f"{100 * record['band']:.1f} %" if "band" in record else "-")
        cells += [number(record["memory"].get(tool), 0) for tool in (ORTABLE, TORCH_ONNX)]
        rows.append(cells)
    compared = [record for record in records if TORCH_ONNX in record["nodes"]]
    means = ["geometric mean", _mean(compared, _nodes_of(ORTABLE), 0)]
    means.append(_mean(compared, _node_ratio, 3))
    if has_latency:
        means += ["", _mean(compared, lambda record: record.get("latency_ratio"), 3), ""]
    rows.append([*means, "", ""])
    return table(header, rows)


def shares(records: Sequence[Record]) -> str:
    """Format the mean share of each phase in ortable's time."""
    rows = []
    for label in (IN_TORCH, IN_PROTO):
        names = list(dict.fromkeys(name for record in records for name in record["phases"][label]))
        totals = [sum(record["phases"][label].values()) for record in records]
        for name in names:
            parts = [
                record["phases"][label].get(name, 0.0) / total
                for record, total in zip(records, totals, strict=True)
            ]
            rows.append([label, name, f"{100 * sum(parts) / len(parts):.1f} %"])
    return table(["result", "phase", "share, mean over the models"], rows)


def depths(records: Sequence[Record]) -> str:
    """Format the time per node in deeper models."""
    rows = [
        [
            str(record["layers"]),
            "free" if record["dynamic"] else "fixed",
            str(record["fx_nodes"]),
            f"{1e3 * record['seconds']:.1f}",
            f"{record['microseconds_per_node']:.1f}",
        ]
        for record in sorted(records, key=lambda record: record["dynamic"])
    ]
    header = ["layers of BERT", "dimensions", "FX nodes", "ms", "microseconds for each FX node"]
    return table(header, rows)


def markdown(run: Mapping[str, Any]) -> str:
    """Format the page: all models with static dimensions, and means with dynamic dimensions."""
    records = [record for record in run["records"] if "failed" not in record]
    parts = [made_of(run)] if "commit" in run else []
    parts.append(f"{run['machine']}. Medians of rounds in which both exporters take turns.")
    for dynamic in (False, True):
        subset = [record for record in records if record["dynamic"] == dynamic]
        if not subset:
            continue
        kind = "Free dimensions" if dynamic else "Fixed dimensions"
        parts.append(f"{kind}, from the same ExportedProgram; a ratio is torch.onnx / ortable.")
        parts.append(conversions(subset, means_only=dynamic))
        if not dynamic:
            parts.append(_BOTH_GRAPHS.format(kind=kind))
            parts.append(graphs(subset))
    failures = [
        f"`{record['name']}`, {'free' if record['dynamic'] else 'fixed'}: {text}"
        for record in [*run["records"], *run.get("depths", ())]
        for text in (
            [record["failed"]]
            if "failed" in record
            else [f"{tool}: {error}" for tool, error in record.get("errors", {}).items()]
        )
    ]
    if failures:
        parts.append("Did not run:\n\n" + "\n".join(f"- {line}" for line in failures))
    return "\n\n".join(parts)


_BOTH_GRAPHS = (
    "{kind}: both graphs in ONNX Runtime. Below 1, ortable's is smaller or faster; within the A/A "
    "band nothing can be told."
)


def details(run: Mapping[str, Any]) -> str:
    """Format the tables that are only printed: dynamic dimensions, phases, deeper models."""
    records = [record for record in run["records"] if "failed" not in record]
    parts = []
    for dynamic in (False, True):
        subset = [record for record in records if record["dynamic"] == dynamic]
        kind = "Free dimensions" if dynamic else "Fixed dimensions"
        if subset and dynamic:
            parts += [f"{kind}:", conversions(subset), _BOTH_GRAPHS.format(kind=kind)]
            parts.append(graphs(subset))
        if subset:
            parts += [f"{kind}: where ortable's time goes.", shares(subset)]
    depth_records = [record for record in run.get("depths", ()) if "failed" not in record]
    if depth_records:
        parts += ["What a node costs, weights left in torch:", depths(depth_records)]
    return "\n\n".join(parts)

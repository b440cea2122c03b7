"""Markdown of benchmarks.conversion, from its records."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from benchmarks.measure import geomean
from benchmarks.report import made_of, number, table

Record = Mapping[str, Any]
OURS, THEIRS = "ortable", "torch.onnx"
LARGE, WHOLE = "weights left in torch", "one ModelProto"
SMALL_MODEL, LARGE_MODEL = 100, 400  # megabytes of weights


def one_line(record: Record) -> str:
    """What is printed when a model is done."""
    mode = "free" if record["dynamic"] else "fixed"
    if "failed" in record:
        return f"{record['name']}, {mode}: FAILED, {record['failed']}"
    ours = record["median"][f"{OURS}, {LARGE}"]
    parts = [f"{record['name']}, {mode}: {1e3 * ours:.1f} ms, {record['nodes'][OURS]} nodes"]
    if "ratio" in record:
        parts.append(
            f"torch.onnx {record['ratio'][LARGE]:.0f} and {record['ratio'][WHOLE]:.1f} times, "
            f"{record['nodes'][THEIRS]} nodes"
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
    """Seconds and ratios of both results, of each model and in the mean."""
    columns = [(f"{who}, {label}", label) for label in (LARGE, WHOLE) for who in (OURS, THEIRS)]
    head = ["model", "MB"]
    for label in (LARGE, WHOLE):
        head += [f"{label}: ortable, s", "torch.onnx, s", "ratio"]
    rows = []
    for record in () if means_only else records:
        cells = [record["name"], f"{record['megabytes']:.0f}"]
        for position, (column, label) in enumerate(columns):
            cells.append(number(_seconds(column)(record), 3 if position % 2 == 0 else 2))
            if position % 2:
                cells.append(number(_ratio(label)(record), 1))
        rows.append(cells)
    for title, chosen in (
        ("geometric mean", list(records)),
        (f"below {SMALL_MODEL} MB", [r for r in records if r["megabytes"] < SMALL_MODEL]),
        (f"above {LARGE_MODEL} MB", [r for r in records if r["megabytes"] > LARGE_MODEL]),
    ):
        means = [title, ""]
        for label in (LARGE, WHOLE):
            means += ["", "", _mean(chosen, _ratio(label), 1)]
        rows.append(means)
    return table(head, rows)


def _node_ratio(record: Record) -> float | None:
    nodes = record["nodes"]
    return nodes[OURS] / nodes[THEIRS] if THEIRS in nodes else None


def _nodes_of(who: str) -> Callable[[Record], float | None]:
    def get(record: Record) -> float | None:
        both = THEIRS in record["nodes"] or who == OURS
        return record["nodes"].get(who) if both else None

    return get


def graphs(records: Sequence[Record]) -> str:
    """Nodes, latency and peak memory of both graphs."""
    head = ["model", "nodes: ortable", "ortable / torch.onnx"]
    timed = any("latency" in record for record in records)
    if timed:
        head += ["ortable, ms", "ortable / torch.onnx", "A/A band"]
    head += ["peak MB: ortable", "torch.onnx"]
    rows = []
    for record in records:
        cells = [record["name"], str(record["nodes"][OURS])]
        cells.append(number(_node_ratio(record), 2))
        if timed:
            latency = record.get("latency", {})
            cells.append(f"{1e3 * latency[OURS]:.3g}" if OURS in latency else "-")
            cells.append(number(record.get("latency_ratio"), 3))
            cells.append(f"{100 * record['band']:.1f} %" if "band" in record else "-")
        cells += [number(record["memory"].get(who), 0) for who in (OURS, THEIRS)]
        rows.append(cells)
    both = [record for record in records if THEIRS in record["nodes"]]
    means = ["geometric mean", _mean(both, _nodes_of(OURS), 0)]
    means.append(_mean(both, _node_ratio, 3))
    if timed:
        means += ["", _mean(both, lambda record: record.get("latency_ratio"), 3), ""]
    rows.append([*means, "", ""])
    return table(head, rows)


def shares(records: Sequence[Record]) -> str:
    """Mean share of each phase in ortable's time."""
    rows = []
    for label in (LARGE, WHOLE):
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
    """What a node costs in deeper models."""
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
    head = ["layers of BERT", "dimensions", "FX nodes", "ms", "microseconds for each FX node"]
    return table(head, rows)


def markdown(found: Mapping[str, Any]) -> str:
    """The tables of the page: models with fixed dimensions, means of those with free ones."""
    records = [record for record in found["records"] if "failed" not in record]
    parts = [made_of(found)] if "commit" in found else []
    parts.append(f"{found['machine']}. Medians of rounds in which both exporters take turns.")
    for dynamic in (False, True):
        chosen = [record for record in records if record["dynamic"] == dynamic]
        if not chosen:
            continue
        kind = "Free dimensions" if dynamic else "Fixed dimensions"
        parts.append(f"{kind}, from the same ExportedProgram; a ratio is torch.onnx / ortable.")
        parts.append(conversions(chosen, means_only=dynamic))
        if not dynamic:
            parts.append(_BOTH_GRAPHS.format(kind=kind))
            parts.append(graphs(chosen))
    lost = [
        f"`{record['name']}`, {'free' if record['dynamic'] else 'fixed'}: {text}"
        for record in [*found["records"], *found.get("depths", ())]
        for text in (
            [record["failed"]]
            if "failed" in record
            else [f"{who}: {why}" for who, why in record.get("errors", {}).items()]
        )
    ]
    if lost:
        parts.append("Did not run:\n\n" + "\n".join(f"- {line}" for line in lost))
    return "\n\n".join(parts)


_BOTH_GRAPHS = (
    "{kind}: both graphs in ONNX Runtime. Below 1, ortable's is smaller or faster; within the A/A "
    "band nothing can be told."
)


def details(found: Mapping[str, Any]) -> str:
    """Tables that no page has: models with free dimensions, phases, deeper models."""
    records = [record for record in found["records"] if "failed" not in record]
    parts = []
    for dynamic in (False, True):
        chosen = [record for record in records if record["dynamic"] == dynamic]
        kind = "Free dimensions" if dynamic else "Fixed dimensions"
        if chosen and dynamic:
            parts += [f"{kind}:", conversions(chosen), _BOTH_GRAPHS.format(kind=kind)]
            parts.append(graphs(chosen))
        if chosen:
            parts += [f"{kind}: where ortable's time goes.", shares(chosen)]
    deep = [record for record in found.get("depths", ()) if "failed" not in record]
    if deep:
        parts += ["What a node costs, weights left in torch:", depths(deep)]
    return "\n\n".join(parts)

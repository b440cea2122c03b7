"""Markdown report of benchmarks.rewrites."""

from __future__ import annotations

import collections
import json
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from benchmarks.measure import geomean
from benchmarks.report import made_of, number, percent, table

Record = Mapping[str, Any]
TORCH_ONNX, WITHOUT, WITH = "torch.onnx", "without", "with"
RATIOS = (f"{WITHOUT} / {TORCH_ONNX}", f"{WITH} / {TORCH_ONNX}", f"{WITH} / {WITHOUT}")
_REPORTED = RATIOS[1:]  # the record also has the ratio without rewrites to torch.onnx
# torch.onnx's graph of dlrm loops over the bags, and is many times slower than ortable's.
OUTLIER = "dlrm"
TOLERANCE = 1e-4  # the report names models with larger errors


def one_line(record: Record) -> str:
    """Format the progress line of a measured model or depth."""
    if "layers" in record:
        failed = record.get("failed")
        times = failed or ", ".join(f"{1e3 * seconds:.1f} ms" for seconds in _get_times(record))
        return f"{record['layers']} layers, {_kind(record)}: {times}"
    if "failed" in record:
        return f"{record['name']}: FAILED, {record['failed']}"
    parts = []
    if "nodes" in record:
        nodes = record["nodes"]
        parts.append("nodes " + ", ".join(f"{label} {count}" for label, count in nodes.items()))
    for name, ratio in record.get("ratio", {}).items():
        parts.append(f"{name} {ratio:.3f}")
    if "band" in record:
        parts.append(f"band {100 * band(record, RATIOS[1]):.1f} %")
        errors = record["difference"]
        parts.append(f"error without {errors[WITHOUT]:.0e}, with {errors[WITH]:.0e}")
    for rule, result in record.get("ablation", {}).items():
        parts.append(
            f"{rule} ({result['fired']}) {result['ratio']:.3f} +- {result['band']:.3f}, "
            f"error {result['difference']:.0e}"
        )
    parts += [f"{name}: {text}" for name, text in record["errors"].items()]
    return f"{record['name']}: {'; '.join(parts)}; {record['wall']:.0f} s"


def band(record: Record, ratio: str) -> float:
    """Return the noise band of a ratio: the wider one of the two compared graphs."""
    return max((record["band"].get(graph, 0.0) for graph in ratio.split(" / ")), default=0.0)


def graphs(records: Sequence[Record]) -> str:
    """Format the nodes as exported, and after ONNX Runtime's optimizer."""
    header = ["model", "first input", "nodes: torch.onnx", WITHOUT, WITH]
    header += ["run: torch.onnx", WITHOUT, WITH]
    rows = []
    for record in records:
        cells = [record["name"], " x ".join(map(str, record["shape"]))]
        for kind in ("nodes", "kernels"):
            cells += [str(record[kind].get(label, "-")) for label in (TORCH_ONNX, WITHOUT, WITH)]
        rows.append(cells)
    means = ["geometric mean", ""]
    for kind in ("nodes", "kernels"):
        for label in (TORCH_ONNX, WITHOUT, WITH):
            values = [r[kind][label] for r in records if TORCH_ONNX in r[kind]]
            means.append(number(geomean(values) if values else None, 0))
    return table(header, [*rows, means])


def latency(records: Sequence[Record]) -> str:
    """Format milliseconds and ratios of every model."""
    header = ["model", "torch.onnx, ms", *_REPORTED, "A/A band"]
    rows = []
    for record in records:
        torch_seconds = record["latency"].get(TORCH_ONNX)
        cells = [record["name"], "-" if torch_seconds is None else f"{1e3 * torch_seconds:.3g}"]
        cells += [number(record["ratio"].get(name), 3) for name in _REPORTED]
        band_ratio = RATIOS[1] if RATIOS[1] in record["ratio"] else RATIOS[2]
        rows.append([*cells, percent(band(record, band_ratio))])
    others = [record for record in records if record["name"] != OUTLIER]
    summaries: list[tuple[str, Callable[[Sequence[float]], float], Sequence[Record]]]
    summaries = [("geometric mean", geomean, records), ("worst", max, records)]
    if len(others) < len(records):
        summaries.insert(1, (f"geometric mean without {OUTLIER}", geomean, others))
    for title, summary, subset in summaries:
        values = [[r["ratio"][name] for r in subset if name in r["ratio"]] for name in _REPORTED]
        means = [number(summary(column) if column else None, 3) for column in values]
        rows.append([title, "", *means, ""])
    return table(header, rows)


def find_significant(records: Sequence[Record], ratio: str) -> tuple[list[str], list[str]]:
    """List the models whose ratio is above 1, and below 1, by more than the noise band."""
    above, below = [], []
    for record in records:
        value = record["ratio"].get(ratio)
        if value is None:
            continue
        noise = band(record, ratio)
        text = f"`{record['name']}` ({value:.3f}, band {percent(noise)})"
        if value > 1 + noise:
            above.append(text)
        elif value < 1 - noise:
            below.append(text)
    return above, below


def format_verdicts(records: Sequence[Record]) -> str:
    """List the models with a significant ratio, and those whose results differ from eager."""
    lines = []
    for ratio in RATIOS[1:]:
        above, below = find_significant(records, ratio)
        count = sum(ratio in record["ratio"] for record in records)
        if count:
            lines.append(
                f"- {ratio}: below 1 by more than the band: {len(below)} of {count}; above: "
                f"{', '.join(above) or 'none'}."
            )
    wrong = [
        f"`{record['name']}` {label} rewrites ({record['difference'][label]:.0e})"
        for record in records
        for label in (WITHOUT, WITH)
        if record["difference"][label] > TOLERANCE
    ]
    lines.append(
        f"- Apart from eager by more than {TOLERANCE:.0e} of the largest value: "
        f"{', '.join(wrong) or 'none'}."
    )
    return "\n".join(lines)


def rules(records: Sequence[Record]) -> str:
    """Format the number of models in which each rule fired, and of its firings."""
    models: collections.Counter[str] = collections.Counter()
    firings: collections.Counter[str] = collections.Counter()
    for record in records:
        models.update(record["rules"].keys())
        firings.update(record["rules"])
    order = sorted(models, key=lambda name: (-models[name], -firings[name], name))
    rows = [[f"`{name}`", str(models[name]), str(firings[name])] for name in order]
    return table(["rule", "models", "firings"], rows)


def conversions(records: Sequence[Record]) -> str:
    """Format milliseconds of conversion, and the share of the rules."""
    header = ["model", "FX nodes", "without, ms", "with, ms", "rules, ms", "share of the rules"]
    rows = []
    for record in records:
        plain, full = record["conversion"][WITHOUT], record["conversion"][WITH]
        times = (plain["total"], full["total"], full["rules"])
        cells = [record["name"], str(record["fx_nodes"]), *(f"{1e3 * t:.1f}" for t in times)]
        rows.append([*cells, percent(full["share"])])
    shares = [record["conversion"][WITH]["share"] for record in records]
    if shares:
        mean = sum(shares) / len(shares)
        rows.append(["mean; most", "", "", "", "", f"{percent(mean)}; {percent(max(shares))}"])
    return table(header, rows)


def merged(paths: list[Path]) -> dict[str, Any]:
    """Merge the records of several runs; a later file overrides the values of earlier ones."""
    records: dict[str, dict[str, Any]] = {}
    depths: dict[tuple[int, bool], dict[str, Any]] = {}
    run: dict[str, Any] = {}
    for path in paths:
        file_run = json.loads(path.read_text())
        for record in file_run["records"]:
            merged_record = records.setdefault(record["name"], {})
            if "failed" not in record:
                merged_record.pop("failed", None)
            merged_record.update(record)
        for record in file_run["depths"]:
            depths[record["layers"], record["dynamic"]] = record
        run.update(file_run)
    return {**run, "records": list(records.values()), "depths": list(depths.values())}


def _kind(record: Record) -> str:
    return "free" if record["dynamic"] else "fixed"


def depths(records: Sequence[Record]) -> str:
    """Format nodes and milliseconds by depth, and the ratio of the deepest model to the first."""
    header = ["layers of BERT", "dimensions", "FX nodes", "nodes: without", WITH]
    header += ["without, ms", "with, ms", "rules, ms"]
    rows = []
    for dynamic in (False, True):
        subset = [record for record in records if record["dynamic"] == dynamic]
        for record in subset:
            cells = [str(record["layers"]), _kind(record), str(record["fx_nodes"])]
            cells += [str(record["nodes"][label]) for label in (WITHOUT, WITH)]
            rows.append(cells + [f"{1e3 * seconds:.1f}" for seconds in _get_times(record)])
        if len(subset) > 1:
            first, last = subset[0], subset[-1]
            pairs = zip(_get_times(last), _get_times(first), strict=True)
            growth = [f"{a / b:.2f}" if b else "-" for a, b in pairs]
            title = f"{last['layers']} / {first['layers']}"
            nodes = f"{last['fx_nodes'] / first['fx_nodes']:.2f}"
            rows.append([title, _kind(last), nodes, "", "", *growth])
    return table(header, rows)


def _get_times(record: Record) -> tuple[float, float, float]:
    """Return the seconds without rewrites, with rewrites, and of the rules."""
    plain, full = record["conversion"][WITHOUT], record["conversion"][WITH]
    return plain["total"], full["total"], full["rules"]


def ablation(records: Sequence[Record]) -> str:
    """Format the effect of single rules on latency, over the models in which they fire."""
    records_by_rule: dict[str, list[tuple[str, Record]]] = {}
    for record in records:
        for rule, measured in record.get("ablation", {}).items():
            records_by_rule.setdefault(rule, []).append((record["name"], measured))
    header = [
        "rule",
        "models",
        "firings",
        "nodes saved",
        "without / with the rule",
        "A/A band, median",
    ]
    header += ["faster with it", "slower with it"]
    rows = []
    for rule in sorted(records_by_rule):
        results = records_by_rule[rule]
        bands = sorted(m["band"] for _, m in results)
        faster = [f"{n} {m['ratio']:.3f}" for n, m in results if m["ratio"] > 1 + m["band"]]
        slower = [f"{n} {m['ratio']:.3f}" for n, m in results if m["ratio"] < 1 - m["band"]]
        title = f"`{rule}`, off by default" if results[0][1]["added"] else f"`{rule}`"
        cells = [title, str(len(results))]
        cells += [str(sum(m[key] for _, m in results)) for key in ("fired", "nodes_saved")]
        cells.append(number(geomean([m["ratio"] for _, m in results]), 3))
        cells.append(percent(bands[len(bands) // 2]))
        rows.append([*cells, ", ".join(faster) or "-", ", ".join(slower) or "-"])
    return table(header, rows)


def markdown(run: Mapping[str, Any]) -> str:
    """Format the page of a run: its tables, with explanations."""
    measured = [record for record in run["records"] if "failed" not in record]
    timed_records = [record for record in measured if "ratio" in record]
    names = ", ".join(run["set"])
    parts = [made_of(run)] if "commit" in run else []
    parts.append(f'{run["machine"]}. `target="onnxruntime"`, `rewrites={names}`.')
    if timed_records:
        parts.append(
            "Latency in ONNX Runtime. Below 1, the first of the two is faster; within the A/A "
            f"band nothing can be told. The band is that of {RATIOS[1]}."
        )
        parts += [latency(timed_records), format_verdicts(timed_records)]
    if any(record.get("ablation") for record in measured):
        parts.append("Single rules: latency without the rule / with it. Above 1, the rule pays.")
        parts.append(ablation(measured))
    failed = [f"`{r['name']}`: {r['failed']}" for r in run["records"] if "failed" in r]
    failed += [f"{r['layers']} layers: {r['failed']}" for r in run["depths"] if "failed" in r]
    failed += [
        f"`{r['name']}`, {name}: {error}" for r in measured for name, error in r["errors"].items()
    ]
    if failed:
        parts.append("Did not run:\n\n" + "\n".join(f"- {line}" for line in failed))
    return "\n\n".join(part for part in parts if part)


def details(run: Mapping[str, Any]) -> str:
    """Format the tables that are only printed: nodes, rules, conversions, deeper models."""
    records = [record for record in run["records"] if "nodes" in record]
    parts = []
    if records:
        parts = [
            f"Nodes as they are written: {TORCH_ONNX} (opset {_opsets(records, TORCH_ONNX)}), "
            f"ortable without and with rewrites (opset {_opsets(records, WITH)}); and as ONNX "
            "Runtime runs them, after its own optimizer.",
            graphs(records),
        ]
        if any(record["rules"] for record in records):
            parts += ["Which rules fired:", rules(records)]
        parts += ["A second conversion, weights left in torch:", conversions(records)]
    depth_records = [record for record in run["depths"] if "failed" not in record]
    if depth_records:
        parts.append("Deeper models: 96 / 12 is 8 for work that grows with the nodes.")
        parts.append(depths(depth_records))
    return "\n\n".join(parts)


def _opsets(records: Sequence[Record], label: str) -> str:
    """List the opsets of the graphs with this label."""
    versions = sorted({r["opset"][label] for r in records if label in r["opset"]})
    return ", ".join(map(str, versions)) or "-"

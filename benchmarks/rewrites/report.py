"""Markdown of benchmarks.rewrites, from its records."""

from __future__ import annotations

import collections
import json
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from benchmarks.measure import geomean
from benchmarks.report import made_of, number, percent, table

Record = Mapping[str, Any]
THEIRS, WITHOUT, WITH = "torch.onnx", "without", "with"
RATIOS = (f"{WITHOUT} / {THEIRS}", f"{WITH} / {THEIRS}", f"{WITH} / {WITHOUT}")
_SHOWN = RATIOS[1:]  # without rewrites next to torch.onnx is in the record
# torch.onnx's graph of dlrm loops over the bags: any other one is many times faster.
APART = "dlrm"
TOLERANCE = 1e-4  # a larger difference from eager is named


def one_line(record: Record) -> str:
    """What is printed when a model or a depth is done."""
    if "layers" in record:
        failed = record.get("failed")
        took = failed or ", ".join(f"{1e3 * seconds:.1f} ms" for seconds in _took(record))
        return f"{record['layers']} layers, {_kind(record)}: {took}"
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
        apart = record["difference"]
        parts.append(f"error without {apart[WITHOUT]:.0e}, with {apart[WITH]:.0e}")
    for rule, found in record.get("ablation", {}).items():
        parts.append(
            f"{rule} ({found['fired']}) {found['ratio']:.3f} +- {found['band']:.3f}, "
            f"error {found['difference']:.0e}"
        )
    parts += [f"{name}: {text}" for name, text in record["errors"].items()]
    return f"{record['name']}: {'; '.join(parts)}; {record['wall']:.0f} s"


def band(record: Record, ratio: str) -> float:
    """Inside which a ratio says nothing: the widest of the bands of the graphs that it compares."""
    return max((record["band"].get(each, 0.0) for each in ratio.split(" / ")), default=0.0)


def graphs(records: Sequence[Record]) -> str:
    """Nodes as they are written, and as ONNX Runtime runs them."""
    head = ["model", "first input", "nodes: torch.onnx", WITHOUT, WITH]
    head += ["run: torch.onnx", WITHOUT, WITH]
    rows = []
    for record in records:
        cells = [record["name"], " x ".join(map(str, record["shape"]))]
        for kind in ("nodes", "kernels"):
            cells += [str(record[kind].get(label, "-")) for label in (THEIRS, WITHOUT, WITH)]
        rows.append(cells)
    means = ["geometric mean", ""]
    for kind in ("nodes", "kernels"):
        for label in (THEIRS, WITHOUT, WITH):
            full = [r[kind][label] for r in records if THEIRS in r[kind]]
            means.append(number(geomean(full) if full else None, 0))
    return table(head, [*rows, means])


def latency(records: Sequence[Record]) -> str:
    """Milliseconds and ratios of every model."""
    head = ["model", "torch.onnx, ms", *_SHOWN, "A/A band"]
    rows = []
    for record in records:
        theirs = record["latency"].get(THEIRS)
        cells = [record["name"], "-" if theirs is None else f"{1e3 * theirs:.3g}"]
        cells += [number(record["ratio"].get(name), 3) for name in _SHOWN]
        shown = RATIOS[1] if RATIOS[1] in record["ratio"] else RATIOS[2]
        rows.append([*cells, percent(band(record, shown))])
    others = [record for record in records if record["name"] != APART]
    chosen: list[tuple[str, Callable[[Sequence[float]], float], Sequence[Record]]]
    chosen = [("geometric mean", geomean, records), ("worst", max, records)]
    if len(others) < len(records):
        chosen.insert(1, (f"geometric mean without {APART}", geomean, others))
    for title, summary, some in chosen:
        values = [[r["ratio"][name] for r in some if name in r["ratio"]] for name in _SHOWN]
        means = [number(summary(each) if each else None, 3) for each in values]
        rows.append([title, "", *means, ""])
    return table(head, rows)


def outside(records: Sequence[Record], ratio: str) -> tuple[list[str], list[str]]:
    """The models whose ratio lies above 1, and those below, by more than the band."""
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


def verdicts(records: Sequence[Record]) -> str:
    """Which models the bands leave no doubt about, and which results differ from eager."""
    lines = []
    for ratio in RATIOS[1:]:
        above, below = outside(records, ratio)
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
    """In how many models each rule fired, and how often."""
    models: collections.Counter[str] = collections.Counter()
    firings: collections.Counter[str] = collections.Counter()
    for record in records:
        models.update(record["rules"].keys())
        firings.update(record["rules"])
    order = sorted(models, key=lambda name: (-models[name], -firings[name], name))
    rows = [[f"`{name}`", str(models[name]), str(firings[name])] for name in order]
    return table(["rule", "models", "firings"], rows)


def conversions(records: Sequence[Record]) -> str:
    """Milliseconds of conversion, and the share of the rules."""
    head = ["model", "FX nodes", "without, ms", "with, ms", "rules, ms", "share of the rules"]
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
    return table(head, rows)


def merged(paths: list[Path]) -> dict[str, Any]:
    """The records of several runs as one: what a later file has of a model replaces what an earlier
    one has."""
    records: dict[str, dict[str, Any]] = {}
    depths: dict[tuple[int, bool], dict[str, Any]] = {}
    found: dict[str, Any] = {}
    for path in paths:
        part = json.loads(path.read_text())
        for record in part["records"]:
            known = records.setdefault(record["name"], {})
            if "failed" not in record:
                known.pop("failed", None)
            known.update(record)
        for record in part["depths"]:
            depths[record["layers"], record["dynamic"]] = record
        found.update(part)
    return {**found, "records": list(records.values()), "depths": list(depths.values())}


def _kind(record: Record) -> str:
    return "free" if record["dynamic"] else "fixed"


def depths(records: Sequence[Record]) -> str:
    """Nodes and milliseconds of deeper models, and how the deepest compares with the first."""
    head = ["layers of BERT", "dimensions", "FX nodes", "nodes: without", WITH]
    head += ["without, ms", "with, ms", "rules, ms"]
    rows = []
    for dynamic in (False, True):
        chosen = [record for record in records if record["dynamic"] == dynamic]
        for record in chosen:
            cells = [str(record["layers"]), _kind(record), str(record["fx_nodes"])]
            cells += [str(record["nodes"][label]) for label in (WITHOUT, WITH)]
            rows.append(cells + [f"{1e3 * seconds:.1f}" for seconds in _took(record)])
        if len(chosen) > 1:
            first, last = chosen[0], chosen[-1]
            pairs = zip(_took(last), _took(first), strict=True)
            grown = [f"{a / b:.2f}" if b else "-" for a, b in pairs]
            title = f"{last['layers']} / {first['layers']}"
            nodes = f"{last['fx_nodes'] / first['fx_nodes']:.2f}"
            rows.append([title, _kind(last), nodes, "", "", *grown])
    return table(head, rows)


def _took(record: Record) -> tuple[float, float, float]:
    """Seconds without rewrites, with them, and of the rules."""
    plain, full = record["conversion"][WITHOUT], record["conversion"][WITH]
    return plain["total"], full["total"], full["rules"]


def ablation(records: Sequence[Record]) -> str:
    """What single rules do to the latency, over the models in which they fire."""
    found: dict[str, list[tuple[str, Record]]] = {}
    for record in records:
        for rule, measured in record.get("ablation", {}).items():
            found.setdefault(rule, []).append((record["name"], measured))
    head = [
        "rule",
        "models",
        "firings",
        "nodes saved",
        "without / with the rule",
        "A/A band, median",
    ]
    head += ["faster with it", "slower with it"]
    rows = []
    for rule in sorted(found):
        each = found[rule]
        bands = sorted(m["band"] for _, m in each)
        faster = [f"{n} {m['ratio']:.3f}" for n, m in each if m["ratio"] > 1 + m["band"]]
        slower = [f"{n} {m['ratio']:.3f}" for n, m in each if m["ratio"] < 1 - m["band"]]
        title = f"`{rule}`, off by default" if each[0][1]["added"] else f"`{rule}`"
        cells = [title, str(len(each))]
        cells += [str(sum(m[key] for _, m in each)) for key in ("fired", "nodes_saved")]
        cells.append(number(geomean([m["ratio"] for _, m in each]), 3))
        cells.append(percent(bands[len(bands) // 2]))
        rows.append([*cells, ", ".join(faster) or "-", ", ".join(slower) or "-"])
    return table(head, rows)


def markdown(found: Mapping[str, Any]) -> str:
    """The tables of the page, with what they mean."""
    done = [record for record in found["records"] if "failed" not in record]
    timed = [record for record in done if "ratio" in record]
    names = ", ".join(found["set"])
    parts = [made_of(found)] if "commit" in found else []
    parts.append(f'{found["machine"]}. `target="onnxruntime"`, `rewrites={names}`.')
    if timed:
        parts.append(
            "Latency in ONNX Runtime. Below 1, the first of the two is faster; within the A/A "
            f"band nothing can be told. The band is that of {RATIOS[1]}."
        )
        parts += [latency(timed), verdicts(timed)]
    if any(record.get("ablation") for record in done):
        parts.append("Single rules: latency without the rule / with it. Above 1, the rule pays.")
        parts.append(ablation(done))
    lost = [f"`{r['name']}`: {r['failed']}" for r in found["records"] if "failed" in r]
    lost += [f"{r['layers']} layers: {r['failed']}" for r in found["depths"] if "failed" in r]
    lost += [f"`{r['name']}`, {who}: {why}" for r in done for who, why in r["errors"].items()]
    if lost:
        parts.append("Did not run:\n\n" + "\n".join(f"- {line}" for line in lost))
    return "\n\n".join(part for part in parts if part)


def details(found: Mapping[str, Any]) -> str:
    """Tables that no page has: nodes, firings of rules, seconds of conversions, deeper models."""
    drawn = [record for record in found["records"] if "nodes" in record]
    parts = []
    if drawn:
        parts = [
            f"Nodes as they are written: {THEIRS} (opset {_opsets(drawn, THEIRS)}), ortable "
            f"without and with rewrites (opset {_opsets(drawn, WITH)}); and as ONNX Runtime runs "
            "them, after its own optimizer.",
            graphs(drawn),
        ]
        if any(record["rules"] for record in drawn):
            parts += ["Which rules fired:", rules(drawn)]
        parts += ["A second conversion, weights left in torch:", conversions(drawn)]
    deep = [record for record in found["depths"] if "failed" not in record]
    if deep:
        parts.append("Deeper models: 96 / 12 is 8 for work that grows with the nodes.")
        parts.append(depths(deep))
    return "\n\n".join(parts)


def _opsets(records: Sequence[Record], label: str) -> str:
    """The opsets of a kind of graph."""
    versions = sorted({r["opset"][label] for r in records if label in r["opset"]})
    return ", ".join(map(str, versions)) or "-"

"""Markdown report of benchmarks.backend."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from benchmarks.measure import geomean
from benchmarks.report import OUTLIERS, made_of, percent, table

Record = Mapping[str, Any]
COLUMNS = (
    "bare session", "bare session, ours", "inductor", "inductor, freezing", "ortable",
    "ortable, grad on",
)  # fmt: skip
COMPILED = ("inductor", "inductor, freezing", "bare session", "ortable")


def one_line(record: Record) -> str:
    """Format the progress line of a measured model."""
    if "failed" in record:
        return f"{record['name']}: FAILED, {record['failed']}"
    if "microseconds" in record:
        return f"{record['name']}: done"
    ratios = ", ".join(f"{name} {value:.2f}" for name, value in record["ratio"].items())
    errors = "".join(f"; {name}: {text}" for name, text in record["errors"].items())
    return f"{record['name']}: ratios to eager: {ratios}{errors}"


def _cell(values: Mapping[str, float], errors: Mapping[str, str], name: str, digits: int) -> str:
    if name in values:
        return f"{values[name]:.{digits}f}"
    return "fails" if name in errors else "-"


def _means(records: Sequence[Record], key: str, names: Sequence[str], digits: int) -> list[str]:
    """Return the geometric mean of each column, over the records that have a value."""
    rows = [{n: r[key][n] for n in names if n in r[key]} for r in records]
    cells = []
    for name in names:
        values = [values[name] for values in rows if name in values]
        cells.append(f"{geomean(values):.{digits}f}" if values else "-")
    return cells


def latency(records: Sequence[Record]) -> str:
    """Format ratios to eager, ratios of ortable to its exported graph, and the noise band."""
    header = ["model", "eager, ms", *COLUMNS, "ortable / bare, ours", "A/A band"]
    rows = []
    for r in records:
        cells = [_cell(r["ratio"], r["errors"], name, 2) for name in COLUMNS]
        session_ratio = f"{r['to_ours']:.3f}" if "to_ours" in r else "-"
        noise_band = f"{100 * r['band']:.1f} %" if "band" in r else "-"
        milliseconds = f"{1e3 * r['seconds']['eager']:.3g}"
        rows.append([r["name"], milliseconds, *cells, session_ratio, noise_band])
    others = [r for r in records if r["name"] not in OUTLIERS]
    for title, subset in (("geometric mean", records), (f"without {', '.join(OUTLIERS)}", others)):
        values = [r["to_ours"] for r in subset if "to_ours" in r]
        mean = f"{geomean(values):.3f}" if values else "-"
        rows.append([title, "", *_means(subset, "ratio", COLUMNS, 2), mean, ""])
    return table(header, rows)


def compare_with_export(records: Sequence[Record]) -> str:
    """Compare the compiled graph with ortable's export of the model: nodes and call times."""
    header = ["model", "nodes: compiled", "exported", "ratio", "call / bare session", "A/A band"]
    header += ["after a pause", "A/A band"]
    rows = []
    for r in records:
        nodes = r["nodes"]
        counts = ["-", "-", "-"]
        if nodes:
            ratio = nodes["compiled"] / nodes["exported"]
            counts = [str(nodes["compiled"]), str(nodes["exported"]), f"{ratio:.2f}"]
        times = [f"{r['to_ours']:.3f}", percent(r["band"])]
        times += [f"{r['to_ours_paused']:.3f}", percent(r["band_paused"])]
        rows.append([r["name"], *counts, *times])
    others = [r for r in records if r["name"] not in OUTLIERS]
    for title, subset in (("geometric mean", records), (f"without {', '.join(OUTLIERS)}", others)):
        ratios = [r["nodes"]["compiled"] / r["nodes"]["exported"] for r in subset if r["nodes"]]
        means = [geomean([r[key] for r in subset]) for key in ("to_ours", "to_ours_paused")]
        rows.append(
            [title, "", "", f"{geomean(ratios):.2f}", f"{means[0]:.3f}", "", f"{means[1]:.3f}", ""]
        )
    return table(header, rows)


def compilation(records: Sequence[Record]) -> str:
    """Format seconds of the first call; for a bare session, of its export and creation."""
    header = ["model", *COMPILED, "inductor / ortable"]
    rows = []
    quotients = []
    for r in records:
        cells = [_cell(r["compile"], r["errors"], name, 2) for name in COMPILED]
        quotient = "-"
        if "inductor" in r["compile"] and "ortable" in r["compile"]:
            quotients.append(r["compile"]["inductor"] / r["compile"]["ortable"])
            quotient = f"{quotients[-1]:.1f}"
        rows.append([r["name"], *cells, quotient])
    mean = f"{geomean(quotients):.1f}" if quotients else "-"
    rows.append(["geometric mean", *_means(records, "compile", COMPILED, 2), mean])
    return table(header, rows)


def overhead(record: Record) -> str:
    """Format microseconds per call; the last row is the overhead of ortable over the floor."""
    columns = list(record["microseconds"])
    labels = list(dict.fromkeys(n for c in columns for n in record["microseconds"][c]))
    rows = []
    for label in labels:
        cells = [_cell(record["microseconds"][c], record["errors"], label, 1) for c in columns]
        rows.append([label, *cells])
    added = []
    for column in columns:
        times = record["microseconds"][column]
        has_both = "ortable" in times and "AOTAutograd floor" in times
        added.append(f"{times['ortable'] - times['AOTAutograd floor']:.1f}" if has_both else "-")
    rows.append(["ortable over the floor", *added])
    return table(["microseconds per call", *columns], rows)


def details(run: Mapping[str, Any]) -> str:
    """Compare the compiled graph with ortable's export; this table is only printed."""
    records = [r for r in run["records"] if "ratio" in r and "nodes" in r]
    if not records:
        return ""
    return (
        "The compiled graph and the graph that `to_onnx` writes for ONNX Runtime: nodes as ONNX "
        "Runtime runs them, and the call of the compiled module, guards and all, by a bare session "
        "of the export, back to back and after 30 ms in which nothing ran.\n\n"
        + compare_with_export(records)
    )


def markdown(run: Mapping[str, Any]) -> str:
    """Format the page of a run: its tables, with explanations."""
    records = run["records"]
    models = [r for r in records if "ratio" in r]
    parts = [made_of(run)] if "commit" in run else []
    parts.append(
        f"{run['machine']}. Inference under `torch.no_grad()`, weights as they are after a few "
        "calls."
    )
    if models:
        parts.append(
            "Latency as ratios to eager, medians of rounds in which all candidates take turns. "
            "`grad on` is evaluation without `no_grad`, whose results nobody differentiates."
        )
        parts.append(latency(models))
        if not any("inductor" in r["ratio"] for r in models):
            parts.append("inductor: not measured (no C++ compiler, or `--no-inductor`).")
        parts.append("Seconds of the first call, no caches; bare session: export and creation.")
        parts.append(compilation(models))
    overheads = next((r for r in records if "microseconds" in r), None)
    if overheads is not None:
        parts += ["Call overhead, 2 x 16 inputs:", overhead(overheads)]
    failed = [f"`{r['name']}`: {r['failed']}" for r in records if "failed" in r]
    failed += [
        f"`{r['name']}`, {name}: {text}" for r in models for name, text in r["errors"].items()
    ]
    if failed:
        parts.append("Did not run:\n\n" + "\n".join(f"- {line}" for line in failed))
    return "\n\n".join(parts)

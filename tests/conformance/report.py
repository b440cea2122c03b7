"""Read and write the records of a run, and print its summary table and its verdict."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from datetime import UTC, datetime
from importlib.metadata import version
from pathlib import Path
from typing import Any, TextIO

from rich.console import Console
from rich.table import Table

from tests.conformance.check import OUTCOMES
from tests.conformance.expected import Verdict


def read(path: Path) -> tuple[list[dict[str, Any]], set[tuple[str, str, str]]]:
    """Return the records of the groups that an earlier run finished, and these groups."""
    records: list[dict[str, Any]] = []
    done: set[tuple[str, str, str]] = set()
    if not path.exists():
        return records, done
    for line in path.read_text().splitlines():
        try:
            entry = json.loads(line)
        except json.JSONDecodeError:
            continue
        if "commit" in entry:
            continue
        if "done" in entry:
            op, dtype, kind = entry["done"]
            done.add((op, dtype, kind))
        else:
            records.append(entry)
    finished = [r for r in records if (r["op"], r["dtype"], r["kind"]) in done]
    return finished, done


def heading(commit: str) -> dict[str, Any]:
    """Return the commit, date and versions of a run; a resumed run writes another heading."""
    names = ("torch", "onnx", "onnxruntime")
    return {"commit": commit, "date": datetime.now(UTC).date().isoformat(),
            "versions": {name: version(name) for name in names}}  # fmt: skip


def commits(path: Path) -> list[dict[str, Any]]:
    """Return the headings of a file of results."""
    lines = (line for line in path.read_text().splitlines() if line.startswith('{"commit"'))
    return [json.loads(line) for line in lines]


def write(stream: TextIO, entry: Mapping[str, Any]) -> None:
    """Append one line and flush it, so that an interrupted run loses nothing."""
    stream.write(json.dumps(entry) + "\n")
    stream.flush()


def summary(records: Iterable[Mapping[str, Any]]) -> Table:
    """Return a table of outcomes by kind and dtype, with shares of the captured samples."""
    counts: dict[tuple[str, str], Counter[str]] = {}
    for record in records:
        counts.setdefault((record["kind"], record["dtype"]), Counter())[record["outcome"]] += 1
    table = Table(title="samples of PyTorch's operator tests")
    table.add_column("kind")
    table.add_column("dtype")
    outcomes = [outcome for outcome in OUTCOMES if any(count[outcome] for count in counts.values())]
    for outcome in outcomes:
        table.add_column(outcome, justify="right")
    table.add_column("captured", justify="right")
    table.add_column("exact, %", justify="right")
    total: Counter[str] = Counter()
    for (kind, dtype), count in sorted(counts.items()):
        total.update(count)
        table.add_row(kind, dtype, *_row(count, outcomes))
    table.add_section()
    table.add_row("all", "", *_row(total, outcomes))
    return table


def _row(count: Counter[str], outcomes: list[str]) -> list[str]:
    captured = count.total() - count["uncaptured"]
    share = f"{100 * count['exact'] / captured:.1f}" if captured else "-"
    return [*(str(count[outcome]) for outcome in outcomes), str(captured), share]


def measured(records: Iterable[Mapping[str, Any]]) -> dict[str, dict[str, str]]:
    """Count exact and captured samples by operator, gradients for the operators of the forward."""
    records = list(records)
    counts: dict[str, dict[str, Counter[str]]] = {}
    names_by_op: dict[str, set[str]] = {}
    for record in records:
        if record["kind"] == "forward":
            for name in record["overloads"]:
                names_by_op.setdefault(record["op"], set()).add(name)
    for record in records:
        if record["outcome"] == "uncaptured":
            continue
        forward = record["kind"] == "forward"
        for name in record["overloads"] if forward else names_by_op.get(record["op"], ()):
            count = counts.setdefault(name, {}).setdefault(record["kind"], Counter())
            count[record["outcome"]] += 1
    return {
        name: {kind: f"{n['exact']}/{n.total()}" for kind, n in sorted(kinds.items())}
        for name, kinds in sorted(counts.items())
    }


def write_measured(
    path: Path, records: Iterable[Mapping[str, Any]], headings: Sequence[Mapping[str, Any]]
) -> None:
    """Write :func:`measured` as YAML, below commits, date, versions and command of the run."""
    records = list(records)
    revisions = list(dict.fromkeys(heading["commit"][:12] + "+" * heading["commit"].endswith("+")
                                   for heading in headings))  # fmt: skip
    run = {
        "commit": " ".join(revisions),
        "date": max((heading["date"] for heading in headings), default=""),
        **(headings[-1]["versions"] if headings else {}),
        "samples": str(len(records)),
        "command": "make conformance ARGS=--record",
    }
    lines = [
        "# Samples of PyTorch's operator tests: exact, of those captured. Written by",
        "# `make conformance ARGS=--record`; read by codegen for docs/operators.md.",
        '"run":',
        *(f"  {name}: {json.dumps(text)}" for name, text in run.items()),
    ]
    for name, kinds in measured(records).items():
        inner = ", ".join(f"{kind}: {number}" for kind, number in kinds.items())
        lines.append(f'"{name}": {{{inner}}}')
    path.write_text("\n".join(lines) + "\n")


def print_verdict(console: Console, verdict: Verdict, max_records: int = 60) -> None:
    """Print the unexpected samples and stale expectations, a line or two each."""
    for record in verdict.unexpected[:max_records]:
        location = f" [{record['where']}]" if record["where"] else ""
        console.print(
            f"{record['outcome']}: {record['call'] or record['op']} ({record['kind']}, "
            f"{record['dtype']}, sample {record['index']}){location}",
            style="bold", markup=False, highlight=False,
        )  # fmt: skip
        console.print(f"    {record['detail']}", markup=False, highlight=False)
    if len(verdict.unexpected) > max_records:
        console.print(f"and {len(verdict.unexpected) - max_records} more unexpected outcomes")
    for line in verdict.stale:
        console.print(f"stale: {line}; run its OpInfo with --record-expected", markup=False)
    for line in verdict.low:
        console.print(f"floor: {line}", markup=False)

"""Results of a run: in come records, out come JSON lines, a summary table, the published numbers
and the words for what was not expected. __main__.py calls it."""

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
    """Records of an earlier run, and the (op, dtype, kind) that it finished; a line that was cut
    off and records of unfinished ones are dropped."""
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
    """What a run was made with: the first line of its results, and of each time it went on."""
    names = ("torch", "onnx", "onnxruntime")
    return {"commit": commit, "date": datetime.now(UTC).date().isoformat(),
            "versions": {name: version(name) for name in names}}  # fmt: skip


def commits(path: Path) -> list[dict[str, Any]]:
    """The headings of a file of results."""
    lines = (line for line in path.read_text().splitlines() if line.startswith('{"commit"'))
    return [json.loads(line) for line in lines]


def write(stream: TextIO, entry: Mapping[str, Any]) -> None:
    """Append one line; flushed, so that an interrupted run loses nothing."""
    stream.write(json.dumps(entry) + "\n")
    stream.flush()


def summary(records: Iterable[Mapping[str, Any]]) -> Table:
    """Outcomes by kind and dtype; the share is of the samples that torch captures."""
    counts: dict[tuple[str, str], Counter[str]] = {}
    for record in records:
        counts.setdefault((record["kind"], record["dtype"]), Counter())[record["outcome"]] += 1
    table = Table(title="samples of PyTorch's operator tests")
    table.add_column("kind")
    table.add_column("dtype")
    shown = [word for word in OUTCOMES if any(count[word] for count in counts.values())]
    for word in shown:
        table.add_column(word, justify="right")
    table.add_column("captured", justify="right")
    table.add_column("exact, %", justify="right")
    total: Counter[str] = Counter()
    for (kind, dtype), count in sorted(counts.items()):
        total.update(count)
        table.add_row(kind, dtype, *_row(count, shown))
    table.add_section()
    table.add_row("all", "", *_row(total, shown))
    return table


def _row(count: Counter[str], shown: list[str]) -> list[str]:
    captured = count.total() - count["uncaptured"]
    share = f"{100 * count['exact'] / captured:.1f}" if captured else "-"
    return [*(str(count[word]) for word in shown), str(captured), share]


def measured(records: Iterable[Mapping[str, Any]]) -> dict[str, dict[str, str]]:
    """Operator -> exact samples of those captured, forward and gradient, of graphs that hold it.

    A gradient sample counts for the operators of the forward graphs of its OpInfo.
    """
    records = list(records)
    counts: dict[str, dict[str, Counter[str]]] = {}
    holders: dict[str, set[str]] = {}
    for record in records:
        if record["kind"] == "forward":
            for name in record["overloads"]:
                holders.setdefault(record["op"], set()).add(name)
    for record in records:
        if record["outcome"] == "uncaptured":
            continue
        forward = record["kind"] == "forward"
        for name in record["overloads"] if forward else holders.get(record["op"], ()):
            count = counts.setdefault(name, {}).setdefault(record["kind"], Counter())
            count[record["outcome"]] += 1
    return {
        name: {kind: f"{n['exact']}/{n.total()}" for kind, n in sorted(kinds.items())}
        for name, kinds in sorted(counts.items())
    }


def write_measured(
    path: Path, records: Iterable[Mapping[str, Any]], headings: Sequence[Mapping[str, Any]]
) -> None:
    """Write the numbers of :func:`measured` as YAML, one line an operator, under what they were
    measured with: commits and dates of the run, versions, and the command that repeats it."""
    records = list(records)
    revisions = list(dict.fromkeys(each["commit"][:12] + "+" * each["commit"].endswith("+")
                                   for each in headings))  # fmt: skip
    run = {
        "commit": " ".join(revisions),
        "date": max((each["date"] for each in headings), default=""),
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


def print_verdict(console: Console, verdict: Verdict, most: int = 60) -> None:
    """The unexpected samples and stale expectations, a line or two each."""
    for record in verdict.unexpected[:most]:
        place = f" [{record['where']}]" if record["where"] else ""
        console.print(
            f"{record['outcome']}: {record['call'] or record['op']} ({record['kind']}, "
            f"{record['dtype']}, sample {record['index']}){place}",
            style="bold", markup=False, highlight=False,
        )  # fmt: skip
        console.print(f"    {record['detail']}", markup=False, highlight=False)
    if len(verdict.unexpected) > most:
        console.print(f"and {len(verdict.unexpected) - most} more unexpected outcomes")
    for line in verdict.stale:
        console.print(f"stale: {line}; run its OpInfo with --record-expected", markup=False)
    for line in verdict.low:
        console.print(f"floor: {line}", markup=False)

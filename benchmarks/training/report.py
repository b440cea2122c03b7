"""Reports of benchmarks.training: tables of its records, and operators of profiled sessions."""

from __future__ import annotations

import collections
import statistics
from collections.abc import Mapping, Sequence
from typing import Any

from benchmarks.measure import geomean
from benchmarks.report import made_of, number, percent, table


def markdown(run: Mapping[str, Any]) -> str:
    """Format the report of one run: a table for each number of threads."""
    parts = [made_of(run)]
    for threads, records in run["threads"].items():
        parts += [f"{records['machine']}.", _table(records["models"], threads)]
        parts += [f"- `{record['model']}`: {record['failed']}" for record in records["failed"]]
    return "\n\n".join(parts)


def _table(records: Sequence[Mapping[str, Any]], threads: str) -> str:
    compilers = list(records[0]["ratio"]) if records else []
    header = [f"threads: {threads}", "eager, ms", *compilers, "A/A band"]
    rows = [
        [
            record["model"],
            number(record["ms"]["eager"], 2),
            *(number(record["ratio"][name], 2) for name in compilers),
            percent(record["band"]),
        ]
        for record in records
    ]
    without_dlrm = [record for record in records if record["model"] != "dlrm"]
    for title, subset in (("geometric mean", records), ("without dlrm", without_dlrm)):
        means = [
            number(geomean([record["ratio"][compiler] for record in subset]), 3)
            for compiler in compilers
        ]
        rows.append([title, "", *means, ""])
    return table(header, rows)


def print_operators(name: str, events: list[dict[str, Any]], top: int) -> None:
    """Print the milliseconds per step of each operator of one session, slowest first.

    The time of an operator is the sum of the medians of its nodes.
    """
    nodes: dict[tuple[str, str], list[int]] = collections.defaultdict(list)
    for event in events:
        if event.get("cat") == "Node" and event["name"].endswith("_kernel_time"):
            nodes[event["args"]["op_name"], event["name"]].append(event["dur"])
    total: collections.Counter[str] = collections.Counter()
    count: collections.Counter[str] = collections.Counter()
    for (kind, _), durations in nodes.items():
        total[kind] += int(statistics.median(durations))
        count[kind] += 1
    print(f"{name}: a session of {len(nodes)} nodes, {sum(total.values()) / 1e3:.3f} ms a step")
    for kind, microseconds in total.most_common(top):
        print(f"  {microseconds / 1e3:8.3f} ms  {count[kind]:5d} x {kind}")

"""What benchmarks.training prints: tables of its records, and operators of the sessions that it
profiled."""

from __future__ import annotations

import collections
import statistics
from collections.abc import Mapping, Sequence
from typing import Any

from benchmarks.measure import geomean
from benchmarks.report import made_of, number, percent, table


def markdown(run: Mapping[str, Any]) -> str:
    """The page of one run: a table for each number of threads."""
    parts = [made_of(run)]
    for threads, records in run["threads"].items():
        parts += [f"{records['machine']}.", _table(records["models"], threads)]
        parts += [f"- `{each['model']}`: {each['failed']}" for each in records["failed"]]
    return "\n\n".join(parts)


def _table(records: Sequence[Mapping[str, Any]], threads: str) -> str:
    compilers = list(records[0]["ratio"]) if records else []
    head = [f"threads: {threads}", "eager, ms", *compilers, "A/A band"]
    rows = [
        [
            each["model"],
            number(each["ms"]["eager"], 2),
            *(number(each["ratio"][name], 2) for name in compilers),
            percent(each["band"]),
        ]
        for each in records
    ]
    without = [each for each in records if each["model"] != "dlrm"]
    for title, chosen in (("geometric mean", records), ("without dlrm", without)):
        means = [number(geomean([each["ratio"][c] for each in chosen]), 3) for c in compilers]
        rows.append([title, "", *means, ""])
    return table(head, rows)


def print_operators(name: str, events: list[dict[str, Any]], top: int) -> None:
    """Milliseconds a step of each operator of one session, longest first: the sum of its nodes'
    medians."""
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

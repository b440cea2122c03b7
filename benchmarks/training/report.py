"""What benchmarks.training prints of the sessions that it profiled."""

from __future__ import annotations

import collections
import statistics
from typing import Any

__all__ = ["print_operators"]


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

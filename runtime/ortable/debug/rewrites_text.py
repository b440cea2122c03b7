"""What rewriting did to a graph, in words: which rules fired, for which lines of the model, and
why others did not. In come counts of rules and a model, out come lines; called by the shell."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Collection, Iterator, Mapping
from typing import Any

from ortable.ir.node import REWRITES
from ortable.ir.proto.walk import nodes_below

_PLACES = 3
_NAMED = re.compile(r"^(\S+) (is read elsewhere|is an output|comes later in the graph)$")


def counted(number: int, what: str) -> str:
    """``1 rule``, ``2 rules``."""
    return f"{number} {what}" if number == 1 else f"{number} {what}s"


def summary(counts: Mapping[str, int]) -> str:
    """How many replacements there were, by how many rules."""
    return f"{counted(sum(counts.values()), 'rewrite')} by {counted(len(counts), 'rule')}"


def fired_lines(counts: Mapping[str, int], model: Any) -> Iterator[str]:
    """A line for each rule that fired: how often, and for which lines of the model."""
    places = made_by_rules(model)
    width = max(map(len, counts), default=0)
    for rule, count in sorted(counts.items(), key=lambda pair: (-pair[1], pair[0])):
        found = places.get(rule, Counter())
        shown = [where for where, _ in found.most_common(_PLACES)]
        more = f" and {len(found) - _PLACES} more lines" if len(found) > _PLACES else ""
        yield f"{rule:{width}} {count:4}  {', '.join(shown)}{more}".rstrip()


def made_by_rules(model: Any) -> dict[str, Counter[str]]:
    """The lines of the model that nodes made by a rule stand for, by rule; a rule that only takes
    nodes away made none."""
    found: dict[str, Counter[str]] = {}
    for node, _ in (each for part in (model.graph, *model.functions) for each in nodes_below(part)):
        about = {each.key: each.value for each in node.metadata_props}
        if REWRITES in about:
            where = about.get("source") or about.get("fx_node", "")
            line = re.match(r".*?:\d+(?=:|$)", where)
            for rule in about[REWRITES].split(", "):
                found.setdefault(rule, Counter())[line.group() if line else where] += 1
    return found


def refused_lines(
    refused: Mapping[str, Mapping[str, int]], first: Collection[str] = (), most: int = 5
) -> Iterator[str]:
    """A line for each of the rules that were refused most often, with their reasons; before these
    come the rules ``first``, all of them."""
    order = sorted(refused, key=lambda rule: rule not in first)
    shown = order[: max(most, sum(rule in first for rule in order))]
    width = max(map(len, shown), default=0)
    for rule in shown:
        yield f"{rule:{width}}  {'; '.join(_merged(refused[rule]))}"
    if len(order) > len(shown):
        yield f"and {counted(len(order) - len(shown), 'other rule')}"


def _merged(reasons: Mapping[str, int]) -> list[str]:
    """Reasons that differ only in the result that they name, as one."""
    names: dict[str, list[str]] = {}
    for reason in reasons:
        match = _NAMED.match(reason)
        if match:
            names.setdefault(match.group(2), []).append(match.group(1))
        else:
            names.setdefault(reason, [])
    return [f"{', '.join(found)} {text}" if found else text for text, found in names.items()]

"""Compile specs/runtime/optimizers.yaml to lists of optimizers and to `docs/optimizers.md`."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from ortablegen.source.diagnostics import Diagnostics
from ortablegen.source.templates import header
from ortablegen.source.yaml_source import YMap, YNode, YScalar, load

_HEADER = header("specs/runtime/optimizers.yaml")
# levels in the table -> in the page
_LEVELS = {"0": "always", "1": "basic", "2": "extended", "3": "layout", "4": "last"}
# verdict -> the keys that its rows need in addition to name, level and verdict
_REQUIRED_KEYS = {
    "safe": (),
    "avoided": ("wrong", "instead"),
    "disabled": ("wrong", "instead", "cost"),
    "idle": ("why",),
}
_GRAPHS = ("float64", "int8 activations")
_KEYS = {"name", "class", "level", "verdict", "graphs", "wrong", "instead", "cost", "why"}


@dataclass(frozen=True)
class Optimizer:
    """A row: how an ONNX Runtime optimizer changes graphs, and whether ortable disables it.

    ``graphs`` are the graphs for which it is disabled. ``wrong`` says what it breaks, ``instead``
    what ortable does about it, ``cost`` what that costs, and ``why`` the reason for the verdict
    `idle`. ``type_name`` is its class in ONNX Runtime.
    """

    name: str
    level: str
    verdict: str
    graphs: str = "all"
    wrong: str = ""
    instead: str = ""
    cost: str = ""
    why: str = ""
    type_name: str = ""


def read_optimizers(path: Path, diagnostics: Diagnostics) -> list[Optimizer]:
    """Read the rows in file order, and report errors to ``diagnostics``."""
    rows = [
        _read_row(entry, diagnostics)
        for entry in load(path, f"specs/runtime/{path.name}", diagnostics)
    ]
    return [row for row in rows if row is not None]


def _read_row(entry: YNode, diagnostics: Diagnostics) -> Optimizer | None:
    pairs = entry.items() if isinstance(entry, YMap) else ()
    texts = {key.text: value.text for key, value in pairs if isinstance(value, YScalar)}
    unknown = sorted({key.text for key, _ in pairs} - (_KEYS & set(texts)))
    verdict = texts.get("verdict", "")
    if unknown or texts.get("level") not in _LEVELS or verdict not in _REQUIRED_KEYS:
        return diagnostics.error(
            entry.span,
            f"an optimizer has a name, a level of {', '.join(_LEVELS)}, a verdict of "
            f"{', '.join(_REQUIRED_KEYS)}, and texts"
            + (f"; not {', '.join(unknown)}" * bool(unknown)),
        )
    for key in ("name", *_REQUIRED_KEYS[verdict]):
        if not texts.get(key):
            return diagnostics.error(entry.span, f"an optimizer that is {verdict} needs '{key}'")
    if "graphs" in texts and (verdict != "disabled" or texts["graphs"] not in _GRAPHS):
        return diagnostics.error(
            entry.span, f"'graphs' of a disabled optimizer is {' or '.join(_GRAPHS)}"
        )
    texts["type_name"] = texts.pop("class", texts["name"])
    return Optimizer(**texts)


def emit_optimizers(rows: Iterable[Optimizer]) -> dict[str, str]:
    """Emit ``ortable_generated/optimizers.py``, three lists in the order of the table.

    ``DISABLED`` is for all graphs, ``DISABLED_FOR`` for graphs with a feature; ``ENABLED`` has the
    other optimizers.
    """
    rows = list(rows)
    disabled = [row for row in rows if row.verdict == "disabled"]
    always_disabled = sorted({row.name for row in disabled if row.graphs == "all"})
    text = f"# {_HEADER}\n"
    text += '"""Optimizers of ONNX Runtime: those that sessions run without, and the others."""\n\n'
    lines = "".join(f'    "{name}",\n' for name in always_disabled)
    text += f"DISABLED: tuple[str, ...] = (\n{lines})\n\n"
    text += "DISABLED_FOR: dict[str, tuple[str, ...]] = {\n"
    for graphs in _GRAPHS:
        names = "".join(f'"{row.name}", ' for row in disabled if row.graphs == graphs)
        text += f'    "{graphs}": ({names.rstrip()}),\n'
    enabled_lines = "".join(f'    "{row.name}",\n' for row in rows if row not in disabled)
    text += f"}}\n\nENABLED: tuple[str, ...] = (\n{enabled_lines})\n"
    return {"ortable_generated/optimizers.py": text}


_INTRODUCTION = f"""# Optimizers of ONNX Runtime

<!-- {_HEADER} -->

Before a session of ONNX Runtime runs your graph, its optimizers change it. At negative bounds,
sizes of zero, float64 or infinities, some change what the graph computes. This page lists every
optimizer, which ones go wrong and where, and what ortable does about it.

You need not do anything if your graph comes from ortable:

- **A model that you export** runs in a session of yours, with all optimizers on. So ortable writes
  graphs that they cannot hurt.
- **The sessions of `torch.compile`** run without the optimizers that are `disabled` here, so these
  sessions do not rely on the rewrites either.

You need this page if you write or change graphs by other means, since the same optimizers are
waiting for them, or if you export with `rewrites="none"`, since rewrites keep some of the patterns
away. Then switch off what is disabled here when you make the session:

```python
import onnxruntime
import torch

import ortable

model, x = torch.nn.Linear(4, 3), torch.rand(2, 4)
ortable.to_onnx(model, (x,), rewrites="none", filename="model.onnx")
session = onnxruntime.InferenceSession(
    "model.onnx",
    disabled_optimizers=[
"""
_VERDICTS = """## What the tables say

| verdict | says |
|---|---|
| `safe` | equal, or within rounding, in all that was tried; a deviation that stays is named |
| `avoided` | ortable writes no graph that the optimizer changes for the worse |
| `disabled` | that too, and the sessions of `torch.compile` run without the optimizer |
| `idle` | the optimizer finds nothing on the CPU, or runs only when asked for |

Each optimizer was tried at the corners of its pattern: the same graph, with all optimizers and with
none. A test shows that what a row says still goes wrong; another compares the names with those of
the installed version.

"""


def optimizers_page(rows: list[Optimizer]) -> str:
    """Return the text of ``docs/optimizers.md``: optimizers with wrong results first."""
    names = sorted({row.name for row in rows if row.verdict == "disabled"})
    parts = [_INTRODUCTION, *(f'        "{name}",\n' for name in names), "    ],\n)\n```\n\n"]
    parts.append(_VERDICTS)
    counts = ", ".join(
        f"{sum(row.verdict == verdict for row in rows)} {verdict}" for verdict in _REQUIRED_KEYS
    )
    parts.append(
        f"{len(rows)} optimizers: {counts}.\n\n## What goes wrong, and what is done about it\n\n"
    )
    parts.append(
        "| optimizer | level | verdict | wrong | instead | cost |\n|---|---|---|---|---|---|\n"
    )
    for row in rows:
        if row.wrong:
            verdict = row.verdict + (f" in graphs with {row.graphs}" * (row.graphs != "all"))
            instead = row.instead or "it stays"
            cells = (row.name, _LEVELS[row.level], verdict, row.wrong, instead, row.cost)
            parts.append(f"| {' | '.join(cells)} |\n")
    parts.append("\n## The others\n\n")
    groups: dict[str, list[str]] = {}
    for row in rows:
        if not row.wrong:
            verdict = f"idle, {row.why}" if row.verdict == "idle" else row.verdict
            groups.setdefault(verdict, []).append(f"{row.name} ({_LEVELS[row.level]})")
    parts += [f"- {verdict}: {', '.join(names)}\n" for verdict, names in groups.items()]
    return "".join(parts)

"""Compile specs/runtime/session.yaml to the session settings and to `docs/sessions.md`."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from ortablegen.source.diagnostics import Diagnostics
from ortablegen.source.templates import header
from ortablegen.source.yaml_source import YMap, YNode, YScalar, YSeq, load

_HEADER = header("specs/runtime/session.yaml")
_TEXTS = ("name", "usual", "inference", "training", "about", "source")
_LISTS = ("range", "search")
_TORCH = "torch"  # as a value: the number of threads of torch


@dataclass(frozen=True)
class Setting:
    """A row: a session setting, its allowed range, and its values.

    ``usual`` is ONNX Runtime's default, ``inference`` and ``training`` are what the backend sets,
    and ``search`` are the values that option `tune` tries. ``source`` documents the setting.
    """

    name: str
    range: tuple[int, int]
    usual: str
    inference: str
    training: str
    search: tuple[int, ...]
    about: str
    source: str


def read_settings(path: Path, diagnostics: Diagnostics) -> list[Setting]:
    """Read the rows in file order, and report errors to ``diagnostics``."""
    settings: dict[str, Setting] = {}
    for entry in load(path, f"specs/runtime/{path.name}", diagnostics):
        row = _read_row(entry, diagnostics)
        if row is None:
            continue
        if row.name in settings:
            diagnostics.error(entry.span, f"a second row for '{row.name}'")
        settings[row.name] = row
    return list(settings.values())


def _read_row(entry: YNode, diagnostics: Diagnostics) -> Setting | None:
    pairs = entry.items() if isinstance(entry, YMap) else ()
    texts = {k.text: v.text for k, v in pairs if isinstance(v, YScalar) and k.text in _TEXTS}
    lists = {k.text: _parse_ints(v) for k, v in pairs if isinstance(v, YSeq) and k.text in _LISTS}
    unknown = sorted({key.text for key, _ in pairs} - set(texts) - set(lists))
    bounds, search = lists.get("range") or [], lists.get("search", [])
    if unknown or len(bounds) != 2 or not all(map(texts.get, ("name", "about", "source"))):
        return diagnostics.error(
            entry.span,
            "a setting has a name, a range of two numbers, texts about and source, and may have"
            " usual, inference and training, a value each, and search, a list"
            + (f"; not {', '.join(unknown)}" if unknown else ""),
        )
    if search is None:
        return diagnostics.error(entry.span, "search is a list of whole numbers")
    defaults = {key: texts.get(key, "") for key in ("usual", "inference", "training")}
    values = [
        *search,
        *(_parse_int(text) for text in defaults.values() if text not in ("", _TORCH)),
    ]
    if not all(value is not None and bounds[0] <= value <= bounds[1] for value in values):
        return diagnostics.error(
            entry.span, f"a value outside the range {bounds[0]} to {bounds[1]}"
        )
    return Setting(
        name=texts["name"],
        range=(bounds[0], bounds[1]),
        search=tuple(search),
        about=texts["about"],
        source=texts["source"],
        **defaults,
    )


def _parse_int(text: str) -> int | None:
    return int(text) if re.fullmatch("-?[0-9]{1,18}", text) else None


def _parse_ints(value: YSeq) -> list[int] | None:
    numbers = [_parse_int(item.text) if isinstance(item, YScalar) else None for item in value]
    return None if None in numbers else [number for number in numbers if number is not None]


def emit_settings(rows: Iterable[Setting]) -> dict[str, str]:
    """Emit ``ortable_generated/sessions.py``.

    ``INFERENCE`` and ``TRAINING`` have settings by name, ``SEARCHED`` the values that the option
    `tune` tries, ``RANGES`` the allowed values.
    """
    rows = list(rows)
    text = f"# {_HEADER}\n"
    text += '"""What sessions of ONNX Runtime are told, and what may be tried."""\n\n'
    for table, key in (("INFERENCE", "inference"), ("TRAINING", "training")):
        values = [(row.name, getattr(row, key)) for row in rows if getattr(row, key)]
        lines = "".join(f'    "{name}": "{value}",\n' for name, value in values)
        text += f"{table}: dict[str, str] = {{\n{lines}}}\n\n"
    lines = "".join(f'    "{row.name}": {row.search!r},\n' for row in rows if row.search)
    text += f"SEARCHED: dict[str, tuple[int, ...]] = {{\n{lines}}}\n\n"
    lines = "".join(f'    "{row.name}": {row.range!r},\n' for row in rows)
    return {
        "ortable_generated/sessions.py": text
        + f"RANGES: dict[str, tuple[int, int]] = {{\n{lines}}}\n"
    }


_INTRODUCTION = f"""# Settings of sessions

<!-- {_HEADER} -->

A session is ONNX Runtime's prepared form of one graph, and it has settings: how many threads it
uses, how long they look for work, what is computed in integers. ortable chooses them for you. You
need this page if you want to know what it chose, to choose yourself, or to have the fastest values
searched on your machine.

```python
import torch

model = torch.nn.Sequential(torch.nn.Linear(8, 16), torch.nn.ReLU()).eval()
# one setting by hand, the others stay
yours = {{"session_options": {{"intra_op_num_threads": 1}}}}
fast = torch.compile(model, backend="ortable", options=yours)
with torch.no_grad():
    fast(torch.randn(3, 8))
```

**To have them searched**, say `options={{"tune": 20}}`. When a graph's session is made, ortable
takes up to 20 seconds to try the values under `tried`, and keeps what is at least 3 % faster. The
result stays in memory, and in `cache_dir` if you give one. `ortable tune module:callable` does so
from the shell. None of the values that are tried changes what is computed; outputs are compared all
the same. Graphs with free sizes, and graphs on other providers than the CPU, keep the usual
settings.

**To read the table**: `inference` and `training` are what the sessions of
`torch.compile(backend="ortable")` get, for graphs of that kind. Where a cell is empty, ONNX
Runtime's own default holds. You may set any of them in `session_options`. If that is an
`onnxruntime.SessionOptions`, the entries that it does not have are added to it, and each session
gets the number of threads that it leaves at 0.

| setting | values | ONNX Runtime's | inference | training | tried | what it does |
|---|---|---|---|---|---|---|
"""


def settings_page(rows: Iterable[Setting]) -> str:
    """Return the text of ``docs/sessions.md``."""
    lines = []
    for row in rows:
        tried = ", ".join(map(str, row.search))
        cells = (row.usual, row.inference, row.training, tried, row.about)
        lines.append(f"| `{row.name}` | {row.range[0]} to {row.range[1]} | {' | '.join(cells)} |\n")
    return _INTRODUCTION + "".join(lines)

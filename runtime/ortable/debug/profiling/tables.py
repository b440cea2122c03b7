"""The tables of a profile for people, as rows of texts and as lines. In come Times, out go the
head, Tables and lines; called by `Profile.text`, by `page` and by the shell."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from .times import Row, Times

_SMALL = 0.01  # of the call: modules below it are not in a table


@dataclass(frozen=True)
class Table:
    """A table for people: its title, and rows of a name, milliseconds, per cent and a count."""

    title: str
    rows: tuple[tuple[str, str, str, str], ...]


HEADS = ("ms", "%", "kernels")


def head(profile: Times) -> str:
    """The first line."""
    calls = "1 call" if profile.calls == 1 else f"{profile.calls} calls"
    if profile.counted > 1:
        middle = "" if profile.counted == profile.calls else f"the middle {profile.counted} of "
        calls = f"the mean of {middle}{calls}"
    return (
        f"{profile.model}: {profile.call_us / 1000:.3f} ms a call ({calls}), "
        f"{profile.plain_us / 1000:.3f} ms without the profiler"
    )


def tables_of(profile: Times, most: int) -> list[Table]:
    """The four tables; what is in no kernel ends each of them, so that all have the same sum."""
    rest = [_cells(profile, row.name, row.us, row.runs) for row in profile.rest]
    total = _cells(profile, "the call", profile.call_us, sum(n.runs for n in profile.nodes))
    made = [Table("by module", (*_module_cells(profile), *rest, total))]
    for title, rows in (
        ("by source line", profile.lines),
        ("by ATen operator", profile.operators),
        ("by kernel", profile.kernels),
    ):
        shown = [_cells(profile, row.name, row.us, row.runs) for row in _cut(rows, most)]
        made.append(Table(title, (*shown, *rest, total)))
    return made


def _cut(rows: Sequence[Row], most: int) -> Sequence[Row]:
    if len(rows) <= most + 1:
        return rows
    last = rows[most:]
    more = Row(f"{len(last)} more", sum(r.us for r in last), sum(r.runs for r in last))
    return [*rows[:most], more]


def _module_cells(profile: Times) -> Iterator[tuple[str, str, str, str]]:
    for row in profile.modules:
        if row.path and row.us < _SMALL * profile.call_us:
            continue
        name = row.path.rpartition(".")[2] or profile.graphs[row.graph].label
        name = "  " * row.depth + name + (f" ({row.kind})" if row.kind and row.path else "")
        yield _cells(profile, name, row.us, row.runs)


def _cells(profile: Times, name: str, us: float, runs: float) -> tuple[str, str, str, str]:
    share = 100 * us / profile.call_us if profile.call_us else 0.0
    return name, f"{us / 1000:.3f}", f"{share:.1f}", f"{runs:g}" if runs else ""


_WIDEST = 100


def lines_of(table: Table) -> Iterator[str]:
    """The lines of a table."""
    names = [_short(row[0]) for row in table.rows]
    width = max(len(table.title), *map(len, names))
    yield f"{table.title:{width}} {HEADS[0]:>10} {HEADS[1]:>6} {HEADS[2]:>8}"
    for name, (_, *numbers) in zip(names, table.rows, strict=True):
        yield f"{name:{width}} {numbers[0]:>10} {numbers[1]:>6} {numbers[2]:>8}".rstrip()


def _short(name: str) -> str:
    return name if len(name) <= _WIDEST else f"{name[: _WIDEST - 3]}..."

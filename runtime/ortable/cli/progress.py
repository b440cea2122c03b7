"""How far a long command is: a line at the bottom of a terminal that goes when the command ends.
Nothing where nobody looks (stderr is no terminal) or rich is not installed. Called by commands."""

from __future__ import annotations

import io
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager, redirect_stdout
from typing import Any

Step = Callable[..., None]


@contextmanager
def progress(what: str, total: int | None = None, quiet: bool = False) -> Iterator[Step]:
    """A bar of ``total`` steps, or without an end, during the block.

    Args:
        what: what is done, in one or two words.
        total: how many steps there are; None where nobody knows.
        quiet: draws between steps alone, so that nothing of it runs in what is timed.

    Yields a function that says that a step has ended, and what comes next: ``step("convert")``.
    """
    shown = _bar(total, quiet)
    if shown is None:
        yield lambda what="", count=1: None
        return
    with _kept_back(), shown:
        task = shown.add_task(what, total=total)
        shown.refresh()

        def step(what: str = "", count: int = 1) -> None:
            shown.update(task, advance=count, **({"description": what} if what else {}))
            if quiet or what:  # what takes less than a moment is shown, too
                shown.refresh()

        yield step


@contextmanager
def _kept_back() -> Iterator[None]:
    """What is printed in the block comes after it: a terminal has one line for both."""
    if not sys.stdout.isatty():
        yield
        return
    printed = io.StringIO()
    try:
        with redirect_stdout(printed):
            yield
    finally:
        sys.stdout.write(printed.getvalue())
        sys.stdout.flush()


def _bar(total: int | None, quiet: bool) -> Any:
    if not sys.stderr.isatty():
        return None
    try:
        from rich.console import Console
        from rich.progress import (
            BarColumn,
            MofNCompleteColumn,
            Progress,
            SpinnerColumn,
            TextColumn,
            TimeElapsedColumn,
        )
    except ImportError:
        return None
    columns = [SpinnerColumn(), TextColumn("{task.description}")]
    if total is not None:
        columns += [BarColumn(bar_width=24), MofNCompleteColumn()]
    return Progress(
        *columns,
        TimeElapsedColumn(),
        console=Console(stderr=True),
        transient=True,
        auto_refresh=not quiet,
        redirect_stdout=False,  # results go where they went
    )

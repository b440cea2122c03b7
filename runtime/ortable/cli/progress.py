"""Show a progress line at the bottom of the terminal, and remove it when the block ends.

Nothing is shown if stderr is not a terminal or rich is not installed.
"""

from __future__ import annotations

import io
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager, redirect_stdout
from typing import Any

Step = Callable[..., None]


@contextmanager
def show_progress(label: str, total: int | None = None, quiet: bool = False) -> Iterator[Step]:
    """Show a line with label, elapsed time and, if known, the share of steps that have ended.

    Args:
        label: text of the first step, in one or two words.
        total: the number of steps; None if unknown.
        quiet: draw only between steps, so that drawing does not disturb timed code.

    Yields:
        A function that ends `count` steps and labels the next one: ``step("convert", count=1)``.
        Without arguments it ends one step and keeps the label.
    """
    bar = _make_bar(total, quiet)
    if bar is None:
        yield lambda label="", count=1: None
        return
    with _defer_stdout(), bar:
        task = bar.add_task(label, total=total)
        bar.refresh()

        def end_step(label: str = "", count: int = 1) -> None:
            bar.update(task, advance=count, **({"description": label} if label else {}))
            if quiet or label:  # the periodic refresh would miss short steps; `quiet` has none
                bar.refresh()

        yield end_step


@contextmanager
def _defer_stdout() -> Iterator[None]:
    """Print the block's output when the block ends, if stdout is a terminal.

    Output and progress line would otherwise mix in the last line of the terminal.
    """
    if not sys.stdout.isatty():
        yield
        return
    output = io.StringIO()
    try:
        with redirect_stdout(output):
            yield
    finally:
        sys.stdout.write(output.getvalue())
        sys.stdout.flush()


def _make_bar(total: int | None, quiet: bool) -> Any:
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
        redirect_stdout=False,  # else rich writes what the block prints to its console, stderr
    )

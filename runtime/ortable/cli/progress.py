"""A progress line at the bottom of the terminal, removed when the command ends.

Nothing is drawn if stderr is no terminal or rich is not installed.
"""

from __future__ import annotations

import io
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager, redirect_stdout
from typing import Any

Step = Callable[..., None]


@contextmanager
def show_progress(what: str, total: int | None = None, quiet: bool = False) -> Iterator[Step]:
    """Show a bar of ``total`` steps, or without an end, during the block.

    Args:
        what: what is done, in one or two words.
        total: how many steps there are; None if unknown.
        quiet: draw only between steps, so that nothing of it runs in what is timed.

    Yields:
        A function that ends a step and names the next: ``step("convert")``.
    """
    bar = _make_bar(total, quiet)
    if bar is None:
        yield lambda what="", count=1: None
        return
    with _defer_stdout(), bar:
        task = bar.add_task(what, total=total)
        bar.refresh()

        def end_step(what: str = "", count: int = 1) -> None:
            bar.update(task, advance=count, **({"description": what} if what else {}))
            if quiet or what:  # also draw very short steps
                bar.refresh()

        yield end_step


@contextmanager
def _defer_stdout() -> Iterator[None]:
    """Print the output of the block after it: a terminal has one line for both."""
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
        redirect_stdout=False,  # results go where they went
    )

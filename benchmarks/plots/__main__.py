"""Draw the plots of docs/performance.md from the records in benchmarks/results.

Nothing is measured: run this again after a benchmark has written new records.
"""

from __future__ import annotations

import argparse
from pathlib import Path

from benchmarks.report import RESULTS

from .draw import IMAGES, draw
from .figures import FIGURES, load


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.plots", description=__doc__.splitlines()[0]
    )
    parser.add_argument("--results", type=Path, default=RESULTS, help="folder of the records")
    parser.add_argument("--images", type=Path, default=IMAGES, help="folder for the plots")
    parser.add_argument("--only", choices=sorted(FIGURES), help="draw one plot")
    return parser.parse_args()


def main() -> None:
    options = arguments()
    options.images.mkdir(parents=True, exist_ok=True)
    for name, figure in FIGURES.items():
        if options.only in (None, name):
            path = options.images / f"performance-{name}.svg"
            draw(figure(load(options.results)), path)
            print(path)


if __name__ == "__main__":
    main()

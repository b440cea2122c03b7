"""The shell command `ortable draw`: a picture of an ONNX model, or a page in which modules open."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any

from ortable.errors import OptionError

from .files import existing

__all__ = ["add_draw"]


def add_draw(commands: Any) -> None:
    """Adds the command to the subparsers of argparse."""
    draw = commands.add_parser("draw", help="draw an ONNX model")
    draw.add_argument("model", help="path of the model")
    draw.add_argument(
        "-o",
        "--output",
        required=True,
        help="model.html, a page in which modules open; model.svg, .png, .pdf by graphviz; .dot",
    )
    draw.add_argument(
        "--module", metavar="NAME", help="only this module: its path, encoder.layer.0, or its class"
    )
    draw.add_argument(
        "--depth", type=int, metavar="N", help="levels of modules that are open; default: what fits"
    )
    switch = argparse.BooleanOptionalAction
    draw.add_argument(
        "--fold", action=switch, default=True, help="draw the first of equal blocks in a row only"
    )
    draw.add_argument("--weights", action=switch, default=True, help="list weights and constants")
    draw.add_argument("--attributes", action=switch, default=True, help="list attributes of nodes")
    draw.add_argument(
        "--rankdir",
        default="TB",
        choices=["TB", "LR", "BT", "RL"],
        help="the direction, TB is down",
    )
    draw.set_defaults(run=_draw)


def _draw(args: argparse.Namespace) -> int:
    from ortable.ir.pictures.draw import draw

    existing(args.model)
    output = Path(args.output)
    if not output.name:
        raise OptionError(f"{args.output!r} is no file to write")
    if not output.suffix:
        output = output.with_suffix(".svg")
    draw(
        args.model,
        output,
        module=args.module,
        depth=args.depth,
        fold=args.fold,
        weights=args.weights,
        attributes=args.attributes,
        rankdir=args.rankdir,
    )
    print(f"wrote {output}")
    return 0

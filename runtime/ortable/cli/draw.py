"""The command `ortable draw`: draw an ONNX model into a file, or open it in a viewer."""

from __future__ import annotations

import argparse
import importlib
import tempfile
from pathlib import Path
from typing import Any

from ortable.errors import OptionError

from .arguments import check_existing

_NO_VIEWER = (
    "no viewer is installed: `pip install ai-edge-model-explorer` or `pip install netron`, or give "
    "a file to write, as in `ortable draw model.onnx -o model.svg`"
)
_ONLY_MODEL_EXPLORER = (
    "Netron opens the whole file, without overlays: --module and --overlay need Model Explorer "
    "(`pip install ai-edge-model-explorer`) or a file to write"
)


def add_draw(commands: Any) -> None:
    """Add `draw` to the subparsers of argparse."""
    draw = commands.add_parser("draw", help="draw an ONNX model, or open it in a viewer")
    draw.add_argument("model", help="path of the model")
    draw.add_argument(
        "-o",
        "--output",
        help="model.json for Model Explorer; model.svg, .png, .pdf by graphviz; .dot; "
        "default: open Model Explorer, or Netron",
    )
    draw.add_argument(
        "--module", metavar="NAME", help="only this module: its path, encoder.layer.0, or its class"
    )
    draw.add_argument(
        "--depth", type=int, metavar="N", help="levels of modules to expand; default: what fits"
    )
    switch = argparse.BooleanOptionalAction
    draw.add_argument(
        "--fold", action=switch, default=True, help="draw only the first of equal successive blocks"
    )
    draw.add_argument("--weights", action=switch, default=True, help="show weights and constants")
    draw.add_argument("--attributes", action=switch, default=True, help="show attributes of nodes")
    draw.add_argument(
        "--rankdir",
        default="TB",
        choices=["TB", "LR", "BT", "RL"],
        help="the direction, TB is down",
    )
    draw.add_argument(
        "--overlay",
        action="append",
        default=[],
        metavar="WHAT",
        help="colors for Model Explorer: dtype, rewrite, or the JSON of `ortable profile`; "
        "can be given several times",
    )
    draw.set_defaults(run=_run_draw)


def _run_draw(args: argparse.Namespace) -> int:
    check_existing(args.model)
    if args.output is None:
        return _open_viewer(args)
    output = Path(args.output)
    if not output.name:
        raise OptionError(f"{args.output!r} is no file to write")
    if not output.suffix:
        output = output.with_suffix(".svg")
    _write_picture(args, output)
    print(f"wrote {output}")
    return 0


def _write_picture(args: argparse.Namespace, output: Path) -> None:
    from ortable.ir.pictures.draw import draw

    draw(
        args.model,
        output,
        module=args.module,
        depth=args.depth,
        fold=args.fold,
        weights=args.weights,
        attributes=args.attributes,
        rankdir=args.rankdir,
        overlays=args.overlay,
    )


def _open_viewer(args: argparse.Namespace) -> int:
    """Open the model in Model Explorer, else in Netron; return when the user stops the viewer."""
    if (explorer := _import_if_installed("model_explorer")) is not None:
        with tempfile.TemporaryDirectory() as folder:
            graph_path = Path(folder) / f"{Path(args.model).stem}.json"
            _write_picture(args, graph_path)  # also writes overlays, as model.dtype.json
            overlays = [
                {"name": path.name.split(".")[-2], "node_data_path": str(path)}
                for path in sorted(graph_path.parent.iterdir())
                if path != graph_path
            ]
            explorer.visualize(str(graph_path), node_data=overlays)
    elif (netron := _import_if_installed("netron")) is not None:
        if args.module or args.overlay:
            raise OptionError(_ONLY_MODEL_EXPLORER)
        netron.start(args.model)
        netron.wait()
    else:
        raise OptionError(_NO_VIEWER)
    return 0


def _import_if_installed(name: str) -> Any:
    try:
        return importlib.import_module(name)
    except ImportError:
        return None

"""Draw a model as DOT text, as an image of graphviz, on matplotlib axes, or for Model Explorer.

`ortable.draw`, `ortable.debug.plot`, the programs of the exporter and the command line use it.
"""

from __future__ import annotations

import io
import os
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from onnx import GraphProto, ModelProto

from ortable.errors import OptionError, OrtableError
from ortable.ir.proto.atomic_files import write_file
from ortable.ir.proto.model_validation import load_model

from .dot import format_dot
from .explorer import Overlay, explorer_files
from .read import read_scene
from .scene import Scene
from .view import View, count_visible, extract_module, fold_repeats, gather_ends, view_of

if TYPE_CHECKING:
    from matplotlib.axes import Axes

    Direction = Literal["TB", "LR", "BT", "RL"]

MAX_BOXES = 1000  # graphviz takes seconds for up to this many boxes, and minutes for more
_INSTALL_HINT = (
    "install the extra with `pip install 'ortable[plot]'` and the `dot` program with your "
    "system's package `graphviz` (`apt install graphviz`, `brew install graphviz`, "
    "`conda install graphviz`). "
    "A file .json or .dot, and `ortable.debug.plot.to_dot`, need neither."
)
_NO_HTML = (
    "ortable cannot draw an .html file. Write a .json file and open it in Model Explorer: "
    "`pip install ai-edge-model-explorer`, then `model-explorer model.json`."
)


@dataclass(frozen=True)
class DrawStyle:
    """Options of a picture; see the arguments of `draw`."""

    module: str | None = None
    depth: int | None = None
    fold: bool = True
    weights: bool = True
    attributes: bool = True
    rankdir: Direction = "TB"

    def __post_init__(self) -> None:
        if self.depth is not None and (not isinstance(self.depth, int) or self.depth < 0):
            raise OptionError(f"depth must be None or an int of at least 0, not {self.depth!r}")
        if self.rankdir not in ("TB", "LR", "BT", "RL"):
            raise OptionError(f"rankdir must be 'TB', 'LR', 'BT' or 'RL', not {self.rankdir!r}")


def draw(
    model: Any,
    path: str | os.PathLike[str] | None = None,
    *,
    module: str | None = None,
    depth: int | None = None,
    fold: bool = True,
    weights: bool = True,
    attributes: bool = True,
    rankdir: Direction = "TB",
    overlays: Sequence[Overlay] = (),
) -> Axes | None:
    """Draw a model into a file, or on matplotlib axes.

    The modules of the torch model are nested boxes with names and classes, which contain their
    nodes. Weights are rows of the nodes that read them, and edges show dtype and shape. Repeated
    blocks are drawn once.

    A ``.json`` file contains the whole graph for Model Explorer: modules as layers, large weights
    as nodes, and each node with its attributes and metadata.

    Args:
        model: a ModelProto, a GraphProto, a program of `ortable.export`, a LargeModel, or the path
            of a model.
        path: the file to write. The suffix selects the format: ``.json`` is a graph for Model
            Explorer; ``.svg``, ``.png`` and ``.pdf`` are images made by graphviz; ``.dot`` is the
            input of graphviz. None draws on matplotlib axes.
        module: draw only this module, given by its path (``"encoder.layer.0"``) or class.
        depth: number of open levels of modules, 0 for none. None opens as many levels as fit in 24
            boxes. `depth`, `fold` and `rankdir` have no effect on a ``.json`` file, because Model
            Explorer opens modules interactively.
        fold: draw the first of a run of equal blocks, and one box for the others.
        weights: show weights and constants.
        attributes: show attributes.
        rankdir: direction of the graph, as in graphviz; ``"TB"`` is from top to bottom.
        overlays: files of node data to write next to a ``.json`` file. ``"dtype"`` colors nodes by
            the dtype of their first result, and ``"rewrite"`` by the rewrite that made them. A
            result of `ortable.profile` for the same model, or the path of its JSON, colors them by
            time. For ``model.json`` the files are ``model.dtype.json``, ``model.rewrite.json`` and
            ``model.time.json``.

    Returns:
        The axes if `path` is None, else None.

    Raises:
        InputError: the file is not an ONNX model, or the file of an overlay is not a profile.
        OptionError: there is no such module, the depth is below 0, the picture would have more than
            1000 boxes, an overlay is unknown or for another model, or `path` is an ``.html`` file.
        OrtableError: a required package is absent: graphviz, its program `dot` (neither is needed
            for ``.json`` and ``.dot``), or matplotlib.
        TypeError: `model` has another type.
    """
    style = DrawStyle(module, depth, fold, weights, attributes, rankdir)
    if path is None:
        return _show_axes(render_model(model, "png", style), None, None)
    target = Path(path)
    if not target.parent.is_dir():
        raise OptionError(f"the folder '{target.parent}' of the picture '{target}' does not exist")
    format = target.suffix[1:].lower() or "svg"
    if overlays and format != "json":
        raise OptionError(f"overlays require a .json file, not '{target}'")
    if format != "json":
        write_file(target, render_model(model, format, style))
        return None
    files = explorer_files(
        _build_scene(model, style), overlays, weights=weights, attributes=attributes
    )
    for suffix, content in files.items():
        write_file(target.with_suffix(suffix) if suffix else target, content)
    return None


def render_model(model: Any, format: str, look: DrawStyle | None = None) -> bytes:
    """Return the content of a file: ``json``, ``dot``, or a format of graphviz such as ``svg``."""
    look = look or DrawStyle()
    if format in ("html", "htm"):
        raise OptionError(_NO_HTML)
    scene = _build_scene(model, look)
    if format == "json":
        return explorer_files(scene, weights=look.weights, attributes=look.attributes)[""]
    if look.fold:
        fold_repeats(scene)
    gather_ends(scene.root)
    view = view_of(scene, look.depth)
    if format not in ("dot", "gv"):
        _check_size(scene, view, look)
    text = format_dot(view, rankdir=look.rankdir, weights=look.weights, attributes=look.attributes)
    return text.encode() if format in ("dot", "gv") else _run_graphviz(text, format)


def _model_of(model: Any) -> ModelProto | GraphProto:
    if isinstance(model, str | os.PathLike):
        return load_model(model)
    if isinstance(model, ModelProto | GraphProto):
        return model
    model_or_large = getattr(model, "model", model)  # a program has `model`
    proto = getattr(model_or_large, "proto", model_or_large)  # a LargeModel has `proto`
    if isinstance(proto, ModelProto):
        return proto
    raise TypeError(f"cannot draw an object of type {type(model).__name__}; give a ModelProto.")


def _build_scene(model: Any, style: DrawStyle) -> Scene:
    scene = read_scene(_model_of(model))
    return scene if style.module is None else extract_module(scene, style.module)


def _check_size(scene: Scene, view: View, style: DrawStyle) -> None:
    """Raise OptionError if a view has more than `MAX_BOXES` boxes; suggest a smaller depth."""
    boxes = view.count_boxes()
    if boxes <= MAX_BOXES:
        return
    max_depth = max(
        (
            depth
            for depth in range(style.depth or 0)
            if count_visible(scene.root, depth) <= MAX_BOXES
        ),
        default=None,
    )
    depth_option = "" if max_depth is None else f"depth={max_depth}, "
    raise OptionError(
        f"the picture would have {boxes} boxes, more than {MAX_BOXES}: give {depth_option}"
        "module= for a part of the model, or write a .json for Model Explorer, which opens modules "
        "on demand"
    )


def to_dot(model: Any, *, rankdir: Direction = "TB", **look: Any) -> str:
    """Return the DOT text of a model (ModelProto, GraphProto, program or path).

    `rankdir` is the direction of graphviz (`TB`, `LR`); the other arguments are those of `draw`.
    """
    return render_model(model, "dot", DrawStyle(rankdir=rankdir, **look)).decode()


def draw_onnx(model: Any, format: str = "svg", *, rankdir: Direction = "TB", **look: Any) -> bytes:
    """Return a picture of a model in a format of graphviz (`svg`, `png`, `pdf`), or `json`.

    The other arguments are those of `draw`.

    Raises:
        OrtableError: the graphviz package or the `dot` program is absent, or `dot` failed.
    """
    return render_model(model, format, DrawStyle(rankdir=rankdir, **look))


def _run_graphviz(text: str, format: str) -> bytes:
    try:
        import graphviz
    except ImportError as exc:
        raise OrtableError(
            f"Drawing requires the Python package 'graphviz': {_INSTALL_HINT}"
        ) from exc
    try:
        image: bytes = graphviz.Source(text).pipe(format=format)
        return image
    except graphviz.ExecutableNotFound as exc:
        raise OrtableError(
            f"Drawing requires the program 'dot', which is not in PATH: {_INSTALL_HINT}"
        ) from exc
    except (graphviz.CalledProcessError, ValueError) as exc:
        raise OrtableError(f"graphviz could not draw format {format!r}: {exc}") from exc


def plot_dot(
    model: ModelProto | GraphProto | str | os.PathLike[str],
    ax: Axes | None = None,
    *,
    rankdir: Direction = "TB",
    figsize: tuple[float, float] | None = None,
) -> Axes:
    """Draw the graph of a model on matplotlib axes and return the axes.

    Args:
        model: a ModelProto, a GraphProto, or the path of a model.
        ax: the axes to draw on; None makes a new figure.
        rankdir: direction of the graph, as in graphviz; ``"TB"`` is from top to bottom.
        figsize: width and height of a new figure in inches.

    Raises:
        OrtableError: matplotlib, the graphviz package or the `dot` program is absent.
        TypeError: `model` has another type.
    """
    return _show_axes(draw_onnx(model, "png", rankdir=rankdir), ax, figsize)


def _show_axes(image: bytes, ax: Axes | None, figsize: tuple[float, float] | None) -> Axes:
    try:
        import matplotlib.image as mpimg
        import matplotlib.pyplot as plt
    except ImportError as exc:
        raise OrtableError(f"plot_dot requires matplotlib: {_INSTALL_HINT}") from exc
    if ax is None:
        _, ax = plt.subplots(figsize=figsize)
    ax.imshow(mpimg.imread(io.BytesIO(image), format="png"))
    ax.set_axis_off()
    return ax

"""Draw a model: dot text, an image by graphviz, matplotlib axes, a graph of Model Explorer.

Users call it (`ortable.draw`, `ortable.debug.plot`), the exporter's OnnxProgram, and the shell."""

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
from ortable.ir.proto.model_validation import load_graph

from .dot import dot_of
from .explorer import Overlay, explorer_files
from .read import scene_of
from .scene import Scene
from .view import View, count_visible, fold_repeats, gather_ends, part_of, view_of

if TYPE_CHECKING:
    from matplotlib.axes import Axes

    Direction = Literal["TB", "LR", "BT", "RL"]

MAX_BOXES = 1000  # boxes that graphviz lays out in seconds; beyond it, minutes
_REMEDY = (
    "install the extra with `pip install 'ortable[plot]'` and the `dot` program with your "
    "system's package `graphviz` (`apt install graphviz`, `brew install graphviz`, "
    "`conda install graphviz`). "
    "A file .json or .dot, and `ortable.debug.plot.to_dot`, need neither."
)
_NO_PAGE = (
    "ortable draws no .html. Write a .json and open it in Model Explorer: "
    "`pip install ai-edge-model-explorer`, then `model-explorer model.json`."
)


@dataclass(frozen=True)
class DrawStyle:
    """What a picture shows, and how: the arguments of `draw`."""

    module: str | None = None
    depth: int | None = None
    fold: bool = True
    weights: bool = True
    attributes: bool = True
    rankdir: Direction = "TB"

    def __post_init__(self) -> None:
        if self.depth is not None and (not isinstance(self.depth, int) or self.depth < 0):
            raise OptionError(f"depth is None or a number from 0 on, not {self.depth!r}")
        if self.rankdir not in ("TB", "LR", "BT", "RL"):
            raise OptionError(f"rankdir is 'TB', 'LR', 'BT' or 'RL', not {self.rankdir!r}")


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
    """Draws a model into a file, or on matplotlib axes.

    The modules of the torch model are boxes in one another, with their names and classes; nodes lie
    in their modules, weights are rows of the nodes that read them, edges carry dtype and shape.
    Blocks that repeat are drawn once.

    A ``.json`` has the whole graph, to be opened in Model Explorer: modules as layers, large
    weights as nodes, and for each node its attributes and what the model's metadata says of it.

    Args:
        model: a ModelProto, a GraphProto, a program of `ortable.export`, a LargeModel, or the path
            of a model.
        path: the file to write. Its ending says what: ``.json`` is a graph of Model Explorer;
            ``.svg``, ``.png`` and ``.pdf`` are drawn by graphviz; ``.dot`` is its text. None draws
            on matplotlib axes.
        module: draw this module only, by its path (``"encoder.layer.0"``) or its class.
        depth: how many levels of modules are open, 0 is none; by default as many as a picture of
            24 boxes has room for. Model Explorer opens modules itself: `depth`, `fold` and
            `rankdir` change nothing in a ``.json``.
        fold: draw the first of equal blocks in a row, and one box that counts the others.
        weights: show weights and constants.
        attributes: show attributes.
        rankdir: the direction of the graph, as graphviz names it: ``"TB"`` goes down.
        overlays: node data to write beside a ``.json``. ``"dtype"`` colors nodes by the dtype of
            their first result, ``"rewrite"`` by the rewrite that made them, and a result of
            `ortable.profile` of the same model, or the path of its JSON, by their time. The files
            of ``model.json`` are ``model.dtype.json``, ``model.rewrite.json``, ``model.time.json``.

    Returns:
        None, or the axes where `path` is None.

    Raises:
        InputError: the file is no ONNX model, or an overlay is a file that is no profile.
        OptionError: there is no such module, the depth is below 0, the picture would have more
            than 1000 boxes, an overlay is unknown or of another model, or `path` is an ``.html``.
        OrtableError: what draws is absent: the graphviz package, its `dot` program (neither is
            needed for ``.json`` and ``.dot``), or matplotlib.
        TypeError: `model` is something else.
    """
    look = DrawStyle(module, depth, fold, weights, attributes, rankdir)
    if path is None:
        return _show_axes(render_model(model, "png", look), None, None)
    target = Path(path)
    if not target.parent.is_dir():
        raise OptionError(f"there is no folder '{target.parent}' for the picture '{target}'")
    format = target.suffix[1:].lower() or "svg"
    if overlays and format != "json":
        raise OptionError(f"overlays are for a .json, not for '{target}'")
    if format != "json":
        write_file(target, render_model(model, format, look))
        return None
    files = explorer_files(
        _build_scene(model, look), overlays, weights=weights, attributes=attributes
    )
    for ending, content in files.items():
        write_file(target.with_suffix(ending) if ending else target, content)
    return None


def render_model(model: Any, format: str, look: DrawStyle | None = None) -> bytes:
    """The content of a file of a format: ``json``, ``dot``, or one of graphviz (``svg``, ``png``,
    ``pdf``...)."""
    look = look or DrawStyle()
    if format in ("html", "htm"):
        raise OptionError(_NO_PAGE)
    scene = _build_scene(model, look)
    if format == "json":
        return explorer_files(scene, weights=look.weights, attributes=look.attributes)[""]
    if look.fold:
        fold_repeats(scene)
    gather_ends(scene.root)
    view = view_of(scene, look.depth)
    if format not in ("dot", "gv"):
        _check_size(scene, view, look)
    text = dot_of(view, rankdir=look.rankdir, weights=look.weights, attributes=look.attributes)
    return text.encode() if format in ("dot", "gv") else _by_graphviz(text, format)


def _model_of(model: Any) -> ModelProto | GraphProto:
    if isinstance(model, str | os.PathLike):
        return load_graph(model)
    if isinstance(model, ModelProto | GraphProto):
        return model
    inner = getattr(model, "model", model)  # of a program
    proto = getattr(inner, "proto", inner)  # of a large model
    if isinstance(proto, ModelProto):
        return proto
    raise TypeError(f"cannot draw an object of type {type(model).__name__}; give a ModelProto.")


def _build_scene(model: Any, look: DrawStyle) -> Scene:
    scene = scene_of(_model_of(model))
    return scene if look.module is None else part_of(scene, look.module)


def _check_size(scene: Scene, view: View, look: DrawStyle) -> None:
    """Check that a picture is readable and graphviz can lay it out.

    Raises:
        OptionError: it has too many boxes.
    """
    boxes = view.count_boxes()
    if boxes <= MAX_BOXES:
        return
    fits = max(
        (d for d in range(look.depth or 0) if count_visible(scene.root, d) <= MAX_BOXES),
        default=None,
    )
    remedy = "" if fits is None else f"depth={fits}, "
    raise OptionError(
        f"the picture would have {boxes} boxes, more than {MAX_BOXES}: give {remedy}"
        "module= for a part of the model, or write a .json for Model Explorer, which opens modules "
        "on demand"
    )


def to_dot(model: Any, *, rankdir: Direction = "TB", **look: Any) -> str:
    """DOT text of a model (ModelProto, GraphProto, program or path).

    `rankdir` is graphviz' direction (`TB`, `LR`); the other arguments are those of `draw`.
    """
    return render_model(model, "dot", DrawStyle(rankdir=rankdir, **look)).decode()


def draw_onnx(model: Any, format: str = "svg", *, rankdir: Direction = "TB", **look: Any) -> bytes:
    """Picture of a model, in a format of graphviz (`svg`, `png`, `pdf`), or `json`; the other
    arguments are those of `draw`.

    :raises OrtableError: the graphviz package or the `dot` program is absent, or `dot` failed
    """
    return render_model(model, format, DrawStyle(rankdir=rankdir, **look))


def _by_graphviz(text: str, format: str) -> bytes:
    try:
        import graphviz
    except ImportError as exc:
        raise OrtableError(f"Drawing needs the Python package 'graphviz': {_REMEDY}") from exc
    try:
        image: bytes = graphviz.Source(text).pipe(format=format)
        return image
    except graphviz.ExecutableNotFound as exc:
        raise OrtableError(
            f"Drawing needs the program 'dot', not found in PATH: {_REMEDY}"
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
    """Draws the graph of a model on matplotlib axes, and returns them.

    Args:
        model: a ModelProto, a GraphProto, or the path of a model.
        ax: the axes to draw on; those of a new figure unless given.
        rankdir: the direction of the graph, as graphviz names it: ``"TB"`` goes down.
        figsize: width and height of a new figure, in inches.

    Raises:
        OrtableError: matplotlib, the graphviz package or the `dot` program is absent.
        TypeError: `model` is something else.
    """
    return _show_axes(draw_onnx(model, "png", rankdir=rankdir), ax, figsize)


def _show_axes(image: bytes, ax: Axes | None, figsize: tuple[float, float] | None) -> Axes:
    try:
        import matplotlib.image as mpimg
        import matplotlib.pyplot as plt
    except ImportError as exc:
        raise OrtableError(f"plot_dot needs matplotlib: {_REMEDY}") from exc
    if ax is None:
        _, ax = plt.subplots(figsize=figsize)
    ax.imshow(mpimg.imread(io.BytesIO(image), format="png"))
    ax.set_axis_off()
    return ax

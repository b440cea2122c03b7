"""Draws ONNX graphs: DOT text without any dependency, pictures through the graphviz package.
`plot_dot` returns matplotlib axes; the extra `[plot]` and the `dot` program are needed for
pictures. In comes a model or the path of one; called by users (`ortable.debug.plot`), by the
exporter's OnnxProgram and by the shell."""

from __future__ import annotations

import io
import os
from typing import TYPE_CHECKING, Any, Literal

from onnx import GraphProto, ModelProto, load

from ortable import dtypes
from ortable.errors import OrtableError

if TYPE_CHECKING:
    from matplotlib.axes import Axes

__all__ = ["draw_onnx", "plot_dot", "to_dot"]

_REMEDY = (
    "install the extra with `pip install 'ortable[plot]'` and the `dot` program with your "
    "system's package `graphviz` (`apt install graphviz`, `brew install graphviz`, "
    "`conda install graphviz`). "
    "`ortable.debug.plot.to_dot` returns the DOT text without either."
)


def _quote(text: str) -> str:
    return '"' + text.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n") + '"'


def _graph_of(model: Any) -> GraphProto:
    if isinstance(model, str | os.PathLike):
        model = load(os.fspath(model), load_external_data=False)
    if isinstance(model, ModelProto):
        return model.graph
    if isinstance(model, GraphProto):
        return model
    raise TypeError(f"cannot draw an object of type {type(model).__name__}; give a ModelProto.")


def _value_label(name: str, value: Any) -> str:
    tensor = value.type.tensor_type
    if not tensor.elem_type:
        return name
    dims = [
        "?" if not (d.dim_value or d.dim_param) else str(d.dim_value or d.dim_param)
        for d in tensor.shape.dim
    ]
    return f"{name}\n{dtypes.name(tensor.elem_type)}[{', '.join(dims)}]"


def to_dot(model: Any, *, rankdir: str = "TB") -> str:
    """DOT text of the main graph of a model (ModelProto, GraphProto or a path).

    Inputs, initializers and outputs are boxes with type and shape, nodes are ellipses, edges
    carry the names of results.  `rankdir` is graphviz' direction (`TB`, `LR`).
    """
    graph = _graph_of(model)
    lines = ["digraph onnx {", f"  rankdir={rankdir};", '  node [fontname="Helvetica"];']
    source: dict[str, str] = {}
    for value in graph.input:
        source[value.name] = f"i_{len(source)}"
        label = _quote(_value_label(value.name, value))
        lines.append(
            f"  {source[value.name]} [shape=box, style=filled, fillcolor=lightblue, label={label}];"
        )
    for tensor in graph.initializer:
        source[tensor.name] = f"c_{len(source)}"
        text = f"{tensor.name}\n{dtypes.name(tensor.data_type)}{list(tensor.dims)}"
        lines.append(
            f"  {source[tensor.name]} [shape=box, style=filled, fillcolor=lightgrey, "
            f"label={_quote(text)}];"
        )
    for number, node in enumerate(graph.node):
        lines.append(f"  n_{number} [label={_quote(node.op_type)}];")
        lines += [
            f"  {source[name]} -> n_{number} [label={_quote(name)}];"
            for name in node.input
            if name in source
        ]
        source.update((name, f"n_{number}") for name in node.output if name)
    for number, value in enumerate(graph.output):
        label = _quote(_value_label(value.name, value))
        lines.append(
            f"  o_{number} [shape=box, style=filled, fillcolor=lightgreen, label={label}];"
        )
        if value.name in source:
            lines.append(f"  {source[value.name]} -> o_{number};")
    return "\n".join([*lines, "}"])


def draw_onnx(model: Any, format: str = "svg", *, rankdir: str = "TB") -> bytes:
    """Picture of the main graph, in a format of graphviz (`svg`, `png`, `pdf`).

    :raises OrtableError: the graphviz package or the `dot` program is absent, or `dot` failed
    """
    dot = to_dot(model, rankdir=rankdir)
    try:
        import graphviz
    except ImportError as exc:
        raise OrtableError(f"Drawing needs the Python package 'graphviz': {_REMEDY}") from exc
    try:
        return graphviz.Source(dot).pipe(format=format)
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
    rankdir: Literal["TB", "LR", "BT", "RL"] = "TB",
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
    image = draw_onnx(model, "png", rankdir=rankdir)
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

"""Pictures of ONNX graphs, for users: DOT text, SVG or PNG, matplotlib axes, a page of HTML. They
are drawn in `ortable.ir.pictures`, which the exporter draws its programs with, too."""

from __future__ import annotations

from ortable.ir.pictures.draw import draw, draw_onnx, plot_dot, to_dot

__all__ = ["draw", "draw_onnx", "plot_dot", "to_dot"]

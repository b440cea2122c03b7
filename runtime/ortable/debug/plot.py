"""Pictures of ONNX graphs, for users: DOT text, SVG or PNG, matplotlib axes. They are drawn in
`ortable.ir.proto.drawing`, which the exporter draws its programs with, too."""

from __future__ import annotations

from ortable.ir.proto.drawing import draw_onnx, plot_dot, to_dot

__all__ = ["draw_onnx", "plot_dot", "to_dot"]

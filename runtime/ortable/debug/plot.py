"""Draw ONNX graphs: DOT text, SVG or PNG, matplotlib axes, an HTML page.

The implementation is `ortable.ir.pictures`, which the exporter uses too.
"""

from __future__ import annotations

from ortable.ir.pictures.draw import draw, draw_onnx, plot_dot, to_dot

__all__ = ["draw", "draw_onnx", "plot_dot", "to_dot"]

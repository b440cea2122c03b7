"""Draw ONNX graphs as DOT text, SVG, PNG, matplotlib axes, or an HTML page.

The implementation is in `ortable.ir.pictures`, since the exporter uses it too.
"""

from __future__ import annotations

from ortable.ir.pictures.draw import draw, draw_onnx, plot_dot, to_dot

__all__ = ["draw", "draw_onnx", "plot_dot", "to_dot"]

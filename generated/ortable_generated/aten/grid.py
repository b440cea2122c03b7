# Generated from specs/aten/grid.yaml by codegen. Do not edit: change the spec, then run `make codegen`.
from __future__ import annotations

from typing import TYPE_CHECKING

from ortable.errors import UnsupportedCase
from ortable.lowerings.grid import grid_sampler
from ortable.lowerings.resize import grid_steps
from ortable.prelude.facts import dtype_of, is_float, product
from ortable.prelude.metadata import dtype_or_none, given_shape
from ortable.prelude.shapes import expanded, other_axes
from ortable.prelude.values import const, permuted, reshape_to, unsqueezed

if TYPE_CHECKING:
    from ortable.ir import Graph, ResultSpec
    from ortable.prelude.metadata import Rules
    from ortable.prelude.facts import Bool, Int, Result, SymInts


def aten_affine_grid_generator(graph: Graph, res: ResultSpec, theta: Result, size: SymInts, align_corners: Bool) -> Result:
    """aten::affine_grid_generator(Tensor theta, SymInt[] size, bool align_corners) -> Tensor"""
    n = len(size) - 2
    dtype = dtype_of(graph, theta)
    space = list(size[2:])
    if not is_float(graph, theta):
        graph.case = 1
        raise UnsupportedCase('aten::affine_grid_generator: an affine grid of whole numbers')
    graph.case = 2
    axes = [unsqueezed(graph, grid_steps(graph, space[n - 1 - i], align_corners, dtype), other_axes(n, [n - 1 - i])) for i in range(n)]
    lines = [expanded(graph, unsqueezed(graph, axis, [n]), space + [1]) for axis in axes]
    ones = expanded(graph, const(graph, 1, dtype), space + [1])
    points = reshape_to(graph, graph.make_node('Concat', [*lines, ones], axis=n), [product(space), n + 1])
    result = graph.make_node('MatMul', [points, permuted(graph, theta, [0, 2, 1])])
    return reshape_to(graph, result, [size[0]] + space + [n])


def aten_grid_sampler(graph: Graph, res: ResultSpec, input: Result, grid: Result, interpolation_mode: Int, padding_mode: Int, align_corners: Bool) -> Result:
    """aten::grid_sampler(Tensor input, Tensor grid, int interpolation_mode, int padding_mode, bool align_corners) -> Tensor"""
    return grid_sampler(graph, res, input=input, grid=grid, interpolation_mode=interpolation_mode, padding_mode=padding_mode, align_corners=align_corners)


def aten_grid_sampler_2d(graph: Graph, res: ResultSpec, input: Result, grid: Result, interpolation_mode: Int, padding_mode: Int, align_corners: Bool) -> Result:
    """aten::grid_sampler_2d(Tensor input, Tensor grid, int interpolation_mode, int padding_mode, bool align_corners) -> Tensor"""
    return grid_sampler(graph, res, input=input, grid=grid, interpolation_mode=interpolation_mode, padding_mode=padding_mode, align_corners=align_corners)


def aten_grid_sampler_3d(graph: Graph, res: ResultSpec, input: Result, grid: Result, interpolation_mode: Int, padding_mode: Int, align_corners: Bool) -> Result:
    """aten::grid_sampler_3d(Tensor input, Tensor grid, int interpolation_mode, int padding_mode, bool align_corners) -> Tensor"""
    return grid_sampler(graph, res, input=input, grid=grid, interpolation_mode=interpolation_mode, padding_mode=padding_mode, align_corners=align_corners)


def rule_aten_affine_grid_generator(graph: Graph, theta: Result, size: SymInts, align_corners: Bool) -> Rules:
    return ((dtype_or_none(graph, theta), given_shape([size[0]] + list(size[2:]) + [len(size) - 2])),)


def rule_aten_grid_sampler(graph: Graph, input: Result, grid: Result, interpolation_mode: Int, padding_mode: Int, align_corners: Bool) -> Rules:
    return ((dtype_or_none(graph, input), None),)


def rule_aten_grid_sampler_2d(graph: Graph, input: Result, grid: Result, interpolation_mode: Int, padding_mode: Int, align_corners: Bool) -> Rules:
    return ((dtype_or_none(graph, input), None),)


def rule_aten_grid_sampler_3d(graph: Graph, input: Result, grid: Result, interpolation_mode: Int, padding_mode: Int, align_corners: Bool) -> Rules:
    return ((dtype_or_none(graph, input), None),)

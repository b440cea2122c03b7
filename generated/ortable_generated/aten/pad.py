# Generated from specs/aten/pad.yaml by codegen. Do not edit: change the spec, then run `make codegen`.
from __future__ import annotations

from typing import TYPE_CHECKING

from ortable.lowerings.complex.parts import each_part
from ortable.lowerings.padding import gathered_pad
from ortable.prelude.facts import dtype_of, rank_of
from ortable.prelude.metadata import dtype_or_none
from ortable.prelude.shapes import torch_pads
from ortable.prelude.values import as_vec, const

if TYPE_CHECKING:
    from ortable.ir import Graph, ResultSpec
    from ortable.prelude.metadata import Rules
    from ortable.prelude.facts import Float, Result, Scalar, Str, SymInts


def aten__pad_circular(graph: Graph, res: ResultSpec, self: Result, pad: SymInts) -> Result:
    """aten::_pad_circular(Tensor self, SymInt[] pad) -> Tensor"""
    return gathered_pad(graph, self, pad, 'circular')


def aten_constant_pad_nd(graph: Graph, res: ResultSpec, self: Result, pad: SymInts, value: Scalar = 0) -> Result:
    """aten::constant_pad_nd(Tensor self, SymInt[] pad, Scalar value=0) -> Tensor"""
    fill = 0 if value == 0 else value
    if len(pad) == 0:
        graph.case = 1
        return self
    graph.case = 2
    return graph.make_node('Pad', [self, as_vec(graph, torch_pads(rank_of(graph, self), pad)), const(graph, fill, dtype_of(graph, self))], res.outputs)


def aten_pad(graph: Graph, res: ResultSpec, self: Result, pad: SymInts, mode: Str = 'constant', value: Float | None = None) -> Result:
    '''aten::pad(Tensor self, SymInt[] pad, str mode="constant", float? value=None) -> Tensor'''
    pads = torch_pads(rank_of(graph, self), pad)
    fill = 0 if value is None else value
    if len(pad) == 0:
        graph.case = 1
        return self
    if mode == 'constant':
        graph.case = 2
        return graph.make_node('Pad', [self, as_vec(graph, pads), const(graph, fill, dtype_of(graph, self))], res.outputs)
    if mode == 'reflect' and all([each >= 0 for each in pad]):
        graph.case = 3
        return graph.make_node('Pad', [self, as_vec(graph, pads)], res.outputs, mode='reflect')
    if mode == 'replicate' and all([each >= 0 for each in pad]):
        graph.case = 4
        return graph.make_node('Pad', [self, as_vec(graph, pads)], res.outputs, mode='edge')
    # ONNX Runtime crops before it mirrors, and refuses to crop a whole axis and to pad it again
    graph.case = 5
    return gathered_pad(graph, self, pad, mode)


def aten_reflection_pad1d(graph: Graph, res: ResultSpec, self: Result, padding: SymInts) -> Result:
    """aten::reflection_pad1d(Tensor self, SymInt[2] padding) -> Tensor"""
    return aten_pad(graph, res, self=self, pad=padding, mode='reflect', value=None)


def aten_reflection_pad2d(graph: Graph, res: ResultSpec, self: Result, padding: SymInts) -> Result:
    """aten::reflection_pad2d(Tensor self, SymInt[4] padding) -> Tensor"""
    return aten_pad(graph, res, self=self, pad=padding, mode='reflect', value=None)


def aten_reflection_pad3d(graph: Graph, res: ResultSpec, self: Result, padding: SymInts) -> Result:
    """aten::reflection_pad3d(Tensor self, SymInt[6] padding) -> Tensor"""
    return aten_pad(graph, res, self=self, pad=padding, mode='reflect', value=None)


def aten_replication_pad1d(graph: Graph, res: ResultSpec, self: Result, padding: SymInts) -> Result:
    """aten::replication_pad1d(Tensor self, SymInt[2] padding) -> Tensor"""
    return aten_pad(graph, res, self=self, pad=padding, mode='replicate', value=None)


def aten_replication_pad2d(graph: Graph, res: ResultSpec, self: Result, padding: SymInts) -> Result:
    """aten::replication_pad2d(Tensor self, SymInt[4] padding) -> Tensor"""
    return aten_pad(graph, res, self=self, pad=padding, mode='replicate', value=None)


def aten_replication_pad3d(graph: Graph, res: ResultSpec, self: Result, padding: SymInts) -> Result:
    """aten::replication_pad3d(Tensor self, SymInt[6] padding) -> Tensor"""
    return aten_pad(graph, res, self=self, pad=padding, mode='replicate', value=None)


def complex_aten__pad_circular(graph: Graph, res: ResultSpec, self: Result, pad: SymInts) -> Result:
    """aten::_pad_circular(Tensor self, SymInt[] pad) -> Tensor"""
    return each_part(graph, res, aten__pad_circular, {'self': self}, pad=pad)


def complex_aten_constant_pad_nd(graph: Graph, res: ResultSpec, self: Result, pad: SymInts, value: Scalar = 0) -> Result:
    """aten::constant_pad_nd(Tensor self, SymInt[] pad, Scalar value=0) -> Tensor"""
    return each_part(graph, res, aten_constant_pad_nd, {'self': self, 'value': value}, pad=pad)


def complex_aten_pad(graph: Graph, res: ResultSpec, self: Result, pad: SymInts, mode: Str = 'constant', value: Float | None = None) -> Result:
    '''aten::pad(Tensor self, SymInt[] pad, str mode="constant", float? value=None) -> Tensor'''
    return each_part(graph, res, aten_pad, {'self': self, 'value': value}, pad=pad, mode=mode)


def complex_aten_reflection_pad1d(graph: Graph, res: ResultSpec, self: Result, padding: SymInts) -> Result:
    """aten::reflection_pad1d(Tensor self, SymInt[2] padding) -> Tensor"""
    return complex_aten_pad(graph, res, self=self, pad=padding, mode='reflect', value=None)


def complex_aten_reflection_pad2d(graph: Graph, res: ResultSpec, self: Result, padding: SymInts) -> Result:
    """aten::reflection_pad2d(Tensor self, SymInt[4] padding) -> Tensor"""
    return complex_aten_pad(graph, res, self=self, pad=padding, mode='reflect', value=None)


def complex_aten_reflection_pad3d(graph: Graph, res: ResultSpec, self: Result, padding: SymInts) -> Result:
    """aten::reflection_pad3d(Tensor self, SymInt[6] padding) -> Tensor"""
    return complex_aten_pad(graph, res, self=self, pad=padding, mode='reflect', value=None)


def complex_aten_replication_pad1d(graph: Graph, res: ResultSpec, self: Result, padding: SymInts) -> Result:
    """aten::replication_pad1d(Tensor self, SymInt[2] padding) -> Tensor"""
    return complex_aten_pad(graph, res, self=self, pad=padding, mode='replicate', value=None)


def complex_aten_replication_pad2d(graph: Graph, res: ResultSpec, self: Result, padding: SymInts) -> Result:
    """aten::replication_pad2d(Tensor self, SymInt[4] padding) -> Tensor"""
    return complex_aten_pad(graph, res, self=self, pad=padding, mode='replicate', value=None)


def complex_aten_replication_pad3d(graph: Graph, res: ResultSpec, self: Result, padding: SymInts) -> Result:
    """aten::replication_pad3d(Tensor self, SymInt[6] padding) -> Tensor"""
    return complex_aten_pad(graph, res, self=self, pad=padding, mode='replicate', value=None)


def rule_aten__pad_circular(graph: Graph, self: Result, pad: SymInts) -> Rules:
    return ((dtype_or_none(graph, self), None),)


def rule_aten_constant_pad_nd(graph: Graph, self: Result, pad: SymInts, value: Scalar = 0) -> Rules:
    return ((dtype_or_none(graph, self), None),)


def rule_aten_pad(graph: Graph, self: Result, pad: SymInts, mode: Str = 'constant', value: Float | None = None) -> Rules:
    return ((dtype_or_none(graph, self), None),)


def rule_aten_reflection_pad1d(graph: Graph, self: Result, padding: SymInts) -> Rules:
    return rule_aten_pad(graph, self=self, pad=padding, mode='reflect', value=None)


def rule_aten_reflection_pad2d(graph: Graph, self: Result, padding: SymInts) -> Rules:
    return rule_aten_pad(graph, self=self, pad=padding, mode='reflect', value=None)


def rule_aten_reflection_pad3d(graph: Graph, self: Result, padding: SymInts) -> Rules:
    return rule_aten_pad(graph, self=self, pad=padding, mode='reflect', value=None)


def rule_aten_replication_pad1d(graph: Graph, self: Result, padding: SymInts) -> Rules:
    return rule_aten_pad(graph, self=self, pad=padding, mode='replicate', value=None)


def rule_aten_replication_pad2d(graph: Graph, self: Result, padding: SymInts) -> Rules:
    return rule_aten_pad(graph, self=self, pad=padding, mode='replicate', value=None)


def rule_aten_replication_pad3d(graph: Graph, self: Result, padding: SymInts) -> Rules:
    return rule_aten_pad(graph, self=self, pad=padding, mode='replicate', value=None)

# Generated from specs/rewrites/arithmetic.yaml by codegen. Do not edit: change the spec, then run `make codegen`.
from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ortable.passes.rewrite.helpers.numbers import is_plus_zero, number_of
from ortable.passes.rewrite.helpers.shapes import known_rank
from ortable.passes.rewrite.rule import Match
from ortable.prelude.facts import dtype_max, dtype_min, dtype_of, is_int
from ortable.prelude.values import const

if TYPE_CHECKING:
    from ortable.ir import Graph, ResultSpec
    from ortable.ir.node import Node
    from ortable.prelude.facts import Result
    from ortable.passes.rewrite.matcher import Matcher


def match_add_add_integers(m: Matcher, root: Node) -> Match | None:
    """first = Add(x, a); return Add(first, b)"""
    graph = m.graph
    if len(root.inputs) != 2 or root.attrs:
        return None
    for first, b in m.orders(root):
        n1 = m.producer(first, 'Add')
        if n1 is None or len(n1.inputs) != 2 or n1.attrs:
            continue
        for x, a in m.orders(n1):
            if not is_int(graph, x):
                m.refuse('is_int(x)')
                continue
            if not known_rank(graph, a) == 0:
                m.refuse('known_rank(a) == 0')
                continue
            if not known_rank(graph, b) == 0:
                m.refuse('known_rank(b) == 0')
                continue
            both = number_of(graph, a) + number_of(graph, b)
            dtype = dtype_of(graph, x)
            if not dtype_min(dtype) <= both <= dtype_max(dtype):
                m.refuse('dtype_min(dtype) <= both <= dtype_max(dtype)')
                continue
            return Match((root, n1), (root.outputs[0],), (x, both, dtype))
    return None


def make_add_add_integers(graph: Graph, res: ResultSpec, x: Result, both: Any, dtype: Any) -> Any:
    return graph.make_node('Add', [x, const(graph, both, dtype)], res.outputs)


def match_add_zero(m: Matcher, root: Node) -> Match | None:
    """return Add(x, 0)"""
    graph = m.graph
    if len(root.inputs) != 2 or root.attrs:
        return None
    for x, r1 in m.orders(root):
        if not m.number(r1, 0):
            continue
        if not is_int(graph, x):
            m.refuse('is_int(x)')
            continue
        return Match((root,), (root.outputs[0],), (x,))
    return None


def make_add_zero(graph: Graph, res: ResultSpec, x: Result) -> Any:
    return x


def match_div_one(m: Matcher, root: Node) -> Match | None:
    """return Div(x, 1)"""
    if len(root.inputs) != 2 or root.attrs:
        return None
    x, r1 = root.inputs
    if not m.number(r1, 1):
        return None
    return Match((root,), (root.outputs[0],), (x,))


def make_div_one(graph: Graph, res: ResultSpec, x: Result) -> Any:
    return x


def match_max_max(m: Matcher, root: Node) -> Match | None:
    """return Max(Max(x, a), b)"""
    graph = m.graph
    if len(root.inputs) != 2 or root.attrs:
        return None
    for r1, b in m.orders(root):
        n1 = m.producer(r1, 'Max')
        if n1 is None or len(n1.inputs) != 2 or n1.attrs:
            continue
        for x, a in m.orders(n1):
            if not known_rank(graph, a) == 0:
                m.refuse('known_rank(a) == 0')
                continue
            if not known_rank(graph, b) == 0:
                m.refuse('known_rank(b) == 0')
                continue
            one = number_of(graph, a)
            two = number_of(graph, b)
            if not (one < two or one > two or (one == two and is_plus_zero(graph, a) == is_plus_zero(graph, b))):
                m.refuse('one < two or one > two or (one == two and is_plus_zero(a) == is_plus_zero(b))')
                continue
            return Match((root, n1), (root.outputs[0],), (x, one, two))
    return None


def make_max_max(graph: Graph, res: ResultSpec, x: Result, one: Any, two: Any) -> Any:
    return graph.make_node('Max', [x, const(graph, max(one, two), dtype_of(graph, x))], res.outputs)


def match_min_min(m: Matcher, root: Node) -> Match | None:
    """return Min(Min(x, a), b)"""
    graph = m.graph
    if len(root.inputs) != 2 or root.attrs:
        return None
    for r1, b in m.orders(root):
        n1 = m.producer(r1, 'Min')
        if n1 is None or len(n1.inputs) != 2 or n1.attrs:
            continue
        for x, a in m.orders(n1):
            if not known_rank(graph, a) == 0:
                m.refuse('known_rank(a) == 0')
                continue
            if not known_rank(graph, b) == 0:
                m.refuse('known_rank(b) == 0')
                continue
            one = number_of(graph, a)
            two = number_of(graph, b)
            if not (one < two or one > two or (one == two and is_plus_zero(graph, a) == is_plus_zero(graph, b))):
                m.refuse('one < two or one > two or (one == two and is_plus_zero(a) == is_plus_zero(b))')
                continue
            return Match((root, n1), (root.outputs[0],), (x, one, two))
    return None


def make_min_min(graph: Graph, res: ResultSpec, x: Result, one: Any, two: Any) -> Any:
    return graph.make_node('Min', [x, const(graph, min(one, two), dtype_of(graph, x))], res.outputs)


def match_mul_one(m: Matcher, root: Node) -> Match | None:
    """return Mul(x, 1)"""
    if len(root.inputs) != 2 or root.attrs:
        return None
    for x, r1 in m.orders(root):
        if not m.number(r1, 1):
            continue
        return Match((root,), (root.outputs[0],), (x,))
    return None


def make_mul_one(graph: Graph, res: ResultSpec, x: Result) -> Any:
    return x


def match_neg_neg(m: Matcher, root: Node) -> Match | None:
    """negative = Neg(x); return Neg(negative)"""
    if len(root.inputs) != 1 or root.attrs:
        return None
    negative = root.inputs[0]
    n1 = m.producer(negative, 'Neg')
    if n1 is None or len(n1.inputs) != 1 or n1.attrs:
        return None
    x = n1.inputs[0]
    return Match((root, n1), (root.outputs[0],), (x,), (n1,))


def make_neg_neg(graph: Graph, res: ResultSpec, x: Result) -> Any:
    return x


def match_pow_one(m: Matcher, root: Node) -> Match | None:
    """return Pow(x, 1)"""
    if len(root.inputs) != 2 or root.attrs:
        return None
    x, r1 = root.inputs
    if not m.number(r1, 1):
        return None
    return Match((root,), (root.outputs[0],), (x,))


def make_pow_one(graph: Graph, res: ResultSpec, x: Result) -> Any:
    return x


def match_sub_zero(m: Matcher, root: Node) -> Match | None:
    """return Sub(x, zero)"""
    graph = m.graph
    if len(root.inputs) != 2 or root.attrs:
        return None
    x, zero = root.inputs
    if not is_plus_zero(graph, zero):
        m.refuse('is_plus_zero(zero)')
        return None
    return Match((root,), (root.outputs[0],), (x,))


def make_sub_zero(graph: Graph, res: ResultSpec, x: Result) -> Any:
    return x


def match_sum_of_one(m: Matcher, root: Node) -> Match | None:
    """return Sum(x)"""
    if len(root.inputs) != 1 or root.attrs:
        return None
    x = root.inputs[0]
    return Match((root,), (root.outputs[0],), (x,))


def make_sum_of_one(graph: Graph, res: ResultSpec, x: Result) -> Any:
    return x

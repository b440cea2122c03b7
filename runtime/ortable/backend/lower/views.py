"""Find the chain of torch view operators from a base tensor to a result that is a view of it.

torch applies these operators after the run, which costs little and preserves aliasing and strides.
"""

from __future__ import annotations

import operator
from collections.abc import Callable
from typing import Any

import torch
from torch.fx import Node
from torch.fx.node import map_arg

from ortable import dims
from ortable.backend.roles import ViewStep
from ortable.compat.torch import OpOverload
from ortable_generated.aten import traits

aten = torch.ops.aten
DETACH = aten.detach.default


def is_view(node: Node) -> bool:
    """Whether the result of `node` shares the memory of its first argument.

    An item of a multi-output view (`split`) is a view too.
    """
    if node.op != "call_function" or not node.args or not isinstance(node.args[0], Node):
        return False
    if node.target is operator.getitem:
        return is_view(node.args[0]) and isinstance(node.args[0].meta.get("val"), list | tuple)
    target = node.target
    if not isinstance(target, OpOverload):
        return False
    if target.name() in traits.UNSAFE_VIEW:
        # its schema declares new storage, so it counts as a view only where it is the only reader
        source = node.args[0]
        return source.op == "call_function" and len(source.users) == 1 and not is_view(source)
    return bool(target.is_view)


def trace_views(
    node: Node, is_known: Callable[[dims.Dim], bool]
) -> tuple[Node, tuple[ViewStep, ...]] | None:
    """Return the base that `node` is a view of, and the view operators from the base to `node`.

    `t(x)` gives `(x, (permute(1, 0),))`, and a tensor that is not a view gives `(node, ())`. The
    result is None if an argument of an operator is not an int, or is one that `is_known` rejects.
    """
    steps: list[ViewStep] = []
    while is_view(node):
        step = _make_step(node, is_known)
        if step is None:
            return None
        steps.insert(0, step)
        node = node.args[0]  # type: ignore[assignment]
    return node, _simplify_steps(steps)


def _make_step(node: Node, is_known: Callable[[dims.Dim], bool]) -> ViewStep | None:
    permutation = _find_permutation(node)
    if permutation is not None:
        return ViewStep(aten.permute.default, (permutation,), {})
    is_symbolic = False
    is_unknown = False

    def value_of(arg: Node) -> Any:
        nonlocal is_symbolic, is_unknown
        value = arg.meta.get("val")
        if not isinstance(value, int | torch.SymInt):
            is_unknown = True
            return None
        dim = dims.from_torch(value)
        if not isinstance(dim, int):
            is_symbolic = True
            is_unknown = is_unknown or not is_known(dim)
        return dim

    args = map_arg(node.args[1:], value_of)
    kwargs = map_arg(node.kwargs, value_of)
    return None if is_unknown else ViewStep(node.target, tuple(args), dict(kwargs), is_symbolic)


def _find_permutation(node: Node) -> tuple[int, ...] | None:
    value = node.meta.get("val")
    if not isinstance(value, torch.Tensor):
        return None
    rank = value.dim()
    arguments: Any = node.args
    if node.target is aten.permute.default:
        return tuple(axis % rank for axis in arguments[1])
    if node.target is aten.t.default:
        return tuple(reversed(range(rank)))
    if node.target is aten.transpose.int and rank:
        first, second = (axis % rank for axis in arguments[1:3])
        axes = list(range(rank))
        axes[first], axes[second] = axes[second], axes[first]
        return tuple(axes)
    return None


def _simplify_steps(steps: list[ViewStep]) -> tuple[ViewStep, ...]:
    """Merge consecutive permutations, and drop those without effect, aliases, repeated detaches."""
    result: list[ViewStep] = []
    for step in steps:
        if step.op is aten.alias.default:
            continue
        if step.op is DETACH and result and result[-1].op is DETACH:
            continue
        if step.op is aten.permute.default and result and result[-1].op is aten.permute.default:
            permutation = result.pop().args[0]
            step = ViewStep(step.op, (tuple(permutation[axis] for axis in step.args[0]),), {})
        if step.op is aten.permute.default and step.args[0] == tuple(range(len(step.args[0]))):
            continue
        result.append(step)
    return tuple(result)

"""Compare exported functions with eager, under several rule sets."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import onnx
import torch
from torch.utils import _pytree as pytree

import ortable
from ortable.testing.runs import ModelRunner, check_same_values
from tests.modules import Function


def export_program(
    function: Callable[..., Any], args: Sequence[torch.Tensor], dynamic: bool
) -> torch.export.ExportedProgram:
    """Export a function with all sizes dynamic or all static."""
    shapes = (tuple(dict.fromkeys(range(a.ndim), torch.export.Dim.AUTO) for a in args),)
    return torch.export.export(
        Function(function), tuple(args), dynamic_shapes=shapes if dynamic else None
    )


def check(
    function: Callable[..., Any],
    *args: torch.Tensor,
    more: Sequence[tuple[torch.Tensor, ...]] = (),
    tolerance: float = 0.0,
    signs: bool = True,
    opset: int = 18,
) -> None:
    """Compare eager with exported models; `more` holds calls of the dynamic model."""
    for dynamic in (False, True):
        program = export_program(function, args, dynamic)
        for options in ({}, {"rewrites": "all"}, {"target": "onnxruntime"}):
            model = ortable.to_onnx(program, target_opset=opset, **options)
            onnx.checker.check_model(model, full_check=True)
            runner = ModelRunner(model)
            names = [value.name for value in model.graph.input]
            for call in (args, *(more if dynamic else ())):
                eager = pytree.tree_leaves(function(*call))
                ours = runner(dict(zip(names, call, strict=True)))
                check_same_values(eager, ours, tolerance, signs, f", {options}, dynamic={dynamic}")

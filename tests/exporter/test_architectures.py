"""Common architectures with static and dynamic sizes, compared with eager.

The commit chooses which variant of an architecture runs; the sweeps run the other.
"""

from __future__ import annotations

import functools
import warnings
from typing import Any

import onnx
import pytest
import torch

import ortable
from benchmarks.models.architectures import ARCHITECTURES, build_architecture

from .helpers import assert_same


@functools.lru_cache(maxsize=1)
def module_of(name: str) -> torch.nn.Module:
    """Return the module, cached for the consecutive tests of one architecture."""
    return build_architecture(name)


def export_architecture(name: str, dynamic: bool) -> torch.export.ExportedProgram:
    architecture = ARCHITECTURES[name]
    args, kwargs = architecture.call()
    dims: Any = architecture.dynamic_shapes() if dynamic else None
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # Modules assign attributes while they are traced.
        return torch.export.export(module_of(name), args, kwargs, dynamic_shapes=dims, strict=False)


def symbolic_dimensions(model: onnx.ModelProto) -> set[str]:
    return {
        dim.dim_param
        for value in model.graph.input
        for dim in value.type.tensor_type.shape.dim
        if dim.dim_param
    }


@pytest.mark.alternates(parts=4)
@pytest.mark.parametrize("dynamic", [False, True], ids=["static", "dynamic"])
@pytest.mark.parametrize("name", ARCHITECTURES)
def test_an_architecture_computes_what_eager_does(name: str, dynamic: bool) -> None:
    architecture, module = ARCHITECTURES[name], module_of(name)
    model = ortable.to_onnx(export_architecture(name, dynamic))
    onnx.checker.check_model(model, full_check=True)
    assert bool(symbolic_dimensions(model)) == dynamic
    calls = [architecture.call()]
    if dynamic:
        calls.append(architecture.call(**architecture.second))
        assert torch.utils._pytree.tree_map(shape_of, calls[0]) != torch.utils._pytree.tree_map(
            shape_of, calls[1]
        )
    for args, kwargs in calls:
        assert_same(model, module, args, kwargs, architecture.tolerance)


def shape_of(value: Any) -> Any:
    return tuple(value.shape) if isinstance(value, torch.Tensor) else value

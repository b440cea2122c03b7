"""Common architectures with static and dynamic sizes, compared with eager.

The commit chooses which variant of an architecture runs, and at which opset; the sweeps run the
other variants.
"""

from __future__ import annotations

import functools
import warnings
import zlib
from typing import Any

import onnx
import pytest
import torch

import ortable
from benchmarks.models.architectures import ARCHITECTURES, build_architecture
from tests.rotation import rotation_seed

from .helpers import assert_same

pytestmark = pytest.mark.alternates(parts=3)

OPSETS = (18, 13, 15, 17)
# the first opset that has every operator of these architectures: sums at given places
FIRST_OPSETS = {"mixtral": 16, "dlrm": 16}


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


def choose_opset(name: str, dynamic: bool) -> int:
    """Return one of OPSETS, another one for neighbours and after a change."""
    opset = OPSETS[(rotation_seed() + zlib.crc32(f"{name} {dynamic}".encode())) % len(OPSETS)]
    return opset if opset >= FIRST_OPSETS.get(name, 0) else OPSETS[0]


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
    opset = choose_opset(name, dynamic)
    model = ortable.to_onnx(export_architecture(name, dynamic), target_opset=opset)
    assert model.opset_import[0].version == opset
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

"""Operators whose kernel is a decomposition stay whole for static sizes only."""

from __future__ import annotations

from functools import partial

import pytest
import torch
from torch.nn import functional

from tests import child

SHAPES = {1: (2, 3, 5), 2: (2, 3, 5, 6), 3: (2, 3, 4, 5, 6)}
MODES = [
    *((mode, dims) for mode in ("nearest", "nearest-exact") for dims in SHAPES),
    ("linear", 1), ("bilinear", 2), ("bicubic", 2), ("trilinear", 3),
]  # fmt: skip
FUNCTIONS = {
    **{
        f"{mode} {dims}": (partial(functional.interpolate, scale_factor=1.7, mode=mode), dims)
        for mode, dims in MODES
    },
    "hardshrink": (functional.hardshrink, 1),
    "softshrink": (functional.softshrink, 1),
}


@pytest.mark.alternates("dynamic")
@pytest.mark.parametrize("dynamic", [False, True])
@pytest.mark.parametrize("name", FUNCTIONS)
def test_values_and_gradients_are_those_of_eager(name, dynamic, fresh_dynamo):
    function, dims = FUNCTIONS[name]
    compiled = torch.compile(function, backend="ortable", dynamic=dynamic)
    x = torch.randn(SHAPES[dims])
    results = []
    for fn in (compiled, function):
        leaf = x.clone().requires_grad_()
        result = fn(leaf)
        result.square().sum().backward()
        results.append((result, leaf.grad))
    torch.testing.assert_close(*results)


@pytest.mark.parametrize("name", FUNCTIONS)
def test_known_sizes_leave_an_operator_whole(name, fresh_dynamo):
    function, dims = FUNCTIONS[name]
    storage = {}
    compiled = torch.compile(
        function, backend="ortable", dynamic=False, options={"storage": storage}
    )
    with torch.no_grad():
        compiled(torch.randn(SHAPES[dims]))
    (operator,) = {placement.operator for placement in storage["instance"][0]["placement"]}
    assert any(word in operator for word in ("upsample", "shrink"))


_COMPOSITE_SCRIPT = """
import torch

with torch.no_grad():
    torch.compile(torch.nn.ReLU(), backend="ortable")(torch.ones(2))
assert torch.ops.aten._upsample_nearest_exact2d.default in torch.export.default_decompositions()
"""


def test_torch_still_knows_its_composite_operators_after_a_compilation() -> None:
    """torch caches its composite operators; torch.onnx.export failed when these were missing."""
    process = child.python("-c", _COMPOSITE_SCRIPT)
    assert process.returncode == 0, process.stderr[-3000:]

"""Export of common architectures with dynamic shapes observed from two calls."""

from __future__ import annotations

import warnings
from typing import Any

import pytest
import torch
from torch.utils import _pytree as pytree

import ortable
from benchmarks.models.architectures import ARCHITECTURES, build_architecture

from .helpers import assert_same

pytestmark = pytest.mark.alternates(parts=3)


def get_dims(model: Any) -> list[list[str | int]]:
    shapes = (value.type.tensor_type.shape for value in model.graph.input)
    return [[dim.dim_param or dim.dim_value for dim in shape.dim] for shape in shapes]


@pytest.mark.alternates("name", parts=10)
@pytest.mark.parametrize("name", ARCHITECTURES)
def test_two_calls_say_what_is_dynamic(name: str) -> None:
    architecture, module = ARCHITECTURES[name], build_architecture(name)
    calls = [architecture.call(), architecture.call(**architecture.second)]
    with ortable.observe(module) as observation, torch.no_grad():
        for args, kwargs in calls:
            module(*args, **kwargs)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # about conditions on sizes and failures on empty tensors
        program = observation.export()
    first, second = ([leaf.shape for leaf in pytree.tree_leaves(call)] for call in calls)
    dynamic = [
        [first_size != second_size for first_size, second_size in zip(*shapes, strict=True)]
        for shapes in zip(first, second, strict=True)
    ]
    assert [[isinstance(dim, str) for dim in shape] for shape in get_dims(program.model)] == dynamic
    for args, kwargs in calls:
        assert_same(program.model_proto, module, args, kwargs, architecture.tolerance)
    proof = observation.proof
    assert proof is not None
    assert [trial.sizes for trial in proof.trials if trial.outcome == "right"][:2] == [
        "call 1",
        "call 2",
    ]
    assert not [trial for trial in proof.failures if not trial.empty], proof
    for dimension in observation.dimensions:
        if not dimension.is_derived:
            trials = [t for t in proof.trials if t.sizes.startswith(f"{dimension.name}=")]
            assert "right" in [trial.outcome for trial in trials], proof

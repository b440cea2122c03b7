"""Every rule of an ONNX operator answers for as many outputs as the node has: one, two, all of
them; with nothing known of the inputs."""

from __future__ import annotations

from typing import Any

import onnx.defs
import pytest

from ortable import dtypes
from ortable.errors import BuilderError
from ortable.inference.shape import ValueInfo
from ortable_generated.onnx.dispatch import INFER

# ONNX knows the outputs of its own operators; those of com.microsoft that have more than one:
SEVERAL = {
    "com.microsoft::Attention": 2, "com.microsoft::CausalConvWithState": 2,
    "com.microsoft::GroupQueryAttention": 3, "com.microsoft::LinearAttention": 2,
    "com.microsoft::MultiHeadAttention": 3, "com.microsoft::SkipLayerNormalization": 4,
    "com.microsoft::SkipSimplifiedLayerNormalization": 4,
}  # fmt: skip

# Attributes that an operator cannot do without.
ATTRIBUTES: dict[str, dict[str, Any]] = {
    "AveragePool": {"kernel_shape": (2,)},
    "BitCast": {"to": dtypes.int32},
    "Cast": {"to": dtypes.int32},
    "Concat": {"axis": 0},
    "DepthToSpace": {"blocksize": 2},
    "Einsum": {"equation": "i,i->"},
    "LpPool": {"kernel_shape": (2,)},
    "MaxPool": {"kernel_shape": (2,)},
    "MaxRoiPool": {"pooled_shape": (2, 2)},
    "MaxUnpool": {"kernel_shape": (2,)},
    "RandomNormal": {"shape": (2,)},
    "RandomUniform": {"shape": (2,)},
    "SpaceToDepth": {"blocksize": 2},
    "TfIdfVectorizer": {"ngram_indexes": (0,)},
    "com.microsoft::MatMulNBits": {"N": 8, "K": 32, "block_size": 32},
    "com.microsoft::LinearAttention": {"q_num_heads": 2, "kv_num_heads": 2},
}

# Operators whose rule asks for a body, an attribute that is a graph: tests/builder has those.
BODIES = {"Scan": "num_scan_inputs"}

# Versions of an operator before ours had more outputs.
FEWER_NOW = {"BatchNormalization": 3}


def _most_outputs(key: str) -> int:
    if "::" in key:
        return SEVERAL.get(key, 1)
    if key in FEWER_NOW:
        return FEWER_NOW[key]
    versions = [
        s for s in onnx.defs.get_all_schemas_with_history() if s.name == key and not s.domain
    ]
    return max((s.max_output for s in versions), default=1)


@pytest.mark.parametrize("key", sorted(INFER))
def test_a_rule_answers_for_each_number_of_outputs(key: str) -> None:
    inputs = [ValueInfo(f"x{place}", dtypes.float32) for place in range(8)]
    for count in range(1, min(_most_outputs(key), 4) + 1):
        if key in BODIES:
            with pytest.raises(KeyError, match=BODIES[key]):
                INFER[key](inputs, {}, count, 18)
            continue
        found = INFER[key](inputs, ATTRIBUTES.get(key, {}), count, 18)
        assert len(found) == count
        for dtype, shape, _ in found:
            assert dtype is None or isinstance(dtype, int)
            assert shape is None or isinstance(shape, tuple)


@pytest.mark.parametrize("key", sorted(ATTRIBUTES))
def test_a_rule_names_the_attribute_that_it_cannot_do_without(key: str) -> None:
    inputs = [ValueInfo(f"x{place}", dtypes.float32) for place in range(8)]
    with pytest.raises(BuilderError, match=next(iter(ATTRIBUTES[key]))):
        INFER[key](inputs, {}, 1, 18)


def test_every_operator_that_is_named_here_has_a_rule() -> None:
    assert {*SEVERAL, *ATTRIBUTES, *BODIES, *FEWER_NOW} <= set(INFER)

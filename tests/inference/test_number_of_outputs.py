"""Every inference rule supports each number of outputs, without any input information."""

from __future__ import annotations

from typing import Any

import onnx.defs
import pytest

from ortable import dtypes
from ortable.errors import BuilderError
from ortable.inference.shape import ValueInfo
from ortable_generated.onnx.dispatch import INFER

# Operators of com.microsoft with several outputs; onnx.defs has the numbers of its own operators.
OUTPUT_COUNTS = {
    "com.microsoft::Attention": 2, "com.microsoft::CausalConvWithState": 2,
    "com.microsoft::GroupQueryAttention": 3, "com.microsoft::LinearAttention": 2,
    "com.microsoft::MultiHeadAttention": 3, "com.microsoft::SkipLayerNormalization": 4,
    "com.microsoft::SkipSimplifiedLayerNormalization": 4,
}  # fmt: skip

# Required attributes of operators.
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

# Operators whose rule needs a body, which is a graph; tests/builder tests those.
BODY_ATTRIBUTES = {"Scan": "num_scan_inputs"}

# Older versions of these operators have more outputs than the supported ones.
CURRENT_OUTPUT_COUNTS = {"BatchNormalization": 3}


def _max_outputs(key: str) -> int:
    if "::" in key:
        return OUTPUT_COUNTS.get(key, 1)
    if key in CURRENT_OUTPUT_COUNTS:
        return CURRENT_OUTPUT_COUNTS[key]
    versions = [
        s for s in onnx.defs.get_all_schemas_with_history() if s.name == key and not s.domain
    ]
    return max((s.max_output for s in versions), default=1)


@pytest.mark.parametrize("key", sorted(INFER))
def test_a_rule_answers_for_each_number_of_outputs(key: str) -> None:
    inputs = [ValueInfo(f"x{index}", dtypes.float32) for index in range(8)]
    for count in range(1, min(_max_outputs(key), 4) + 1):
        if key in BODY_ATTRIBUTES:
            with pytest.raises(KeyError, match=BODY_ATTRIBUTES[key]):
                INFER[key](inputs, {}, count, 18)
            continue
        results = INFER[key](inputs, ATTRIBUTES.get(key, {}), count, 18)
        assert len(results) == count
        for dtype, shape, _ in results:
            assert dtype is None or isinstance(dtype, int)
            assert shape is None or isinstance(shape, tuple)


@pytest.mark.parametrize("key", sorted(ATTRIBUTES))
def test_a_rule_names_the_attribute_that_it_cannot_do_without(key: str) -> None:
    inputs = [ValueInfo(f"x{index}", dtypes.float32) for index in range(8)]
    with pytest.raises(BuilderError, match=next(iter(ATTRIBUTES[key]))):
        INFER[key](inputs, {}, 1, 18)


def test_every_operator_that_is_named_here_has_a_rule() -> None:
    assert {*OUTPUT_COUNTS, *ATTRIBUTES, *BODY_ATTRIBUTES, *CURRENT_OUTPUT_COUNTS} <= set(INFER)

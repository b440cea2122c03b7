"""Every rule of an ONNX operator answers for as many outputs as the node has: one, two, all of
them; with nothing known of the inputs."""

from __future__ import annotations

import onnx.defs
import pytest

from ortable import dtypes
from ortable.errors import BuilderError
from ortable.rules import ValueInfo
from ortable_generated.onnx.dispatch import INFER

SEVERAL = {
    "com.microsoft::Attention": 2, "com.microsoft::GroupQueryAttention": 3,
    "com.microsoft::MultiHeadAttention": 3, "com.microsoft::SkipLayerNormalization": 4,
    "com.microsoft::RotaryEmbedding": 1, "com.microsoft::QAttention": 2,
}  # fmt: skip


def _most_outputs(key: str) -> int:
    if "::" in key:
        return SEVERAL.get(key, 4)
    versions = [
        s for s in onnx.defs.get_all_schemas_with_history() if s.name == key and not s.domain
    ]
    return max((s.max_output for s in versions), default=1)


@pytest.mark.parametrize("key", sorted(INFER))
def test_a_rule_answers_for_each_number_of_outputs(key: str) -> None:
    inputs = [ValueInfo(f"x{place}", dtypes.float32) for place in range(8)]
    for count in range(1, min(_most_outputs(key), 4) + 1):
        try:
            found = INFER[key](inputs, {}, count, 18)
        except (BuilderError, KeyError):
            continue  # an attribute that the operator cannot do without
        assert len(found) <= count or count == 1
        for dtype, shape, _ in found:
            assert dtype is None or isinstance(dtype, int)
            assert shape is None or isinstance(shape, tuple)

"""Queries over operator schemas: which version is in force where, what it takes, and where the
ceiling is."""

from __future__ import annotations

import onnxruntime
from onnx import TensorProto, helper

from ortablegen.schemas import onnx as onnx_schemas
from ortablegen.schemas.onnx import (
    CEILING,
    key_of,
    operators,
    schema_at,
    versions_between,
)


def _loads(opset: int) -> bool:
    value = [helper.make_tensor_value_info(n, TensorProto.FLOAT, [1]) for n in "xy"]
    graph = helper.make_graph(
        [helper.make_node("Identity", ["x"], ["y"])], "g", value[:1], value[1:]
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", opset)], ir_version=10)
    options = onnxruntime.SessionOptions()
    options.log_severity_level = 4
    try:
        onnxruntime.InferenceSession(
            model.SerializeToString(), options, providers=["CPUExecutionProvider"]
        )
    except Exception:  # each failure of the runtime has its own class
        return False
    return True


def test_ceiling_is_the_newest_opset_that_the_runtime_loads() -> None:
    assert _loads(CEILING)
    assert not _loads(CEILING + 1)


def test_schema_in_force_is_the_last_one_up_to_the_opset() -> None:
    assert [s.since for s in versions_between("Cast")] == [13, 19, 21, 23, 24, 25]
    assert [s.since for s in versions_between("Cast", "", 19, 22)] == [19, 21]
    found = schema_at("Cast", "", 20)
    assert found is not None and found.since == 19
    assert schema_at("Gelu", "", 19) is None
    assert schema_at("Nonsense") is None
    assert versions_between("LinearAttention") == ()


def test_deprecated_versions_are_no_versions() -> None:
    assert schema_at("GroupNormalization", "", 20) is None
    assert [s.since for s in versions_between("GroupNormalization")] == [21]
    assert "Upsample" not in operators()


def test_arity_and_attributes() -> None:
    gemm = schema_at("Gemm")
    assert gemm is not None
    assert gemm.accepts_inputs(2) and gemm.accepts_inputs(3) and not gemm.accepts_inputs(4)
    assert gemm.accepts_outputs(1) and not gemm.accepts_outputs(2)
    assert [a.name for a in gemm.attributes] == ["alpha", "beta", "transA", "transB"]
    alpha = gemm.attribute("alpha")
    assert alpha is not None and (alpha.type, alpha.required, alpha.default) == (
        "FLOAT",
        False,
        1.0,
    )
    assert gemm.attribute("aplha") is None
    assert gemm.input_index("C") == 2 and gemm.input_index("D") is None
    assert "tensor(float)" in gemm.allowed("T") and gemm.allowed("tensor(int64)") == (
        "tensor(int64)",
    )
    assert gemm.signature() == "Gemm(A: T, B: T, C?: T) -> (Y: T)"
    concat = schema_at("Concat")
    assert concat is not None and concat.accepts_inputs(100) and concat.inputs[0].variadic


def test_schemas_of_the_runtime_are_known() -> None:
    fused = schema_at("FusedConv", onnx_schemas.MICROSOFT)
    assert fused is not None and fused.key == "com.microsoft::FusedConv"
    group = fused.attribute("group")
    assert group is not None and group.default == 1
    assert schema_at("SimplifiedLayerNormalization") is not None


def test_a_key_names_the_domain_unless_it_is_the_standard_one() -> None:
    assert key_of("Gemm") == "Gemm"
    assert key_of("Gelu", "com.microsoft") == "com.microsoft::Gelu"

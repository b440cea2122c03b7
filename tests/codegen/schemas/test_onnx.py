"""ONNX operator schemas: their versions and signatures, the record, and the newest opset."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import onnx
import onnxruntime
import pytest
from onnx import TensorProto, helper

from ortablegen.schemas import onnx as onnx_schemas
from ortablegen.schemas.onnx import (
    CEILING,
    PATH,
    Formal,
    OnnxSchema,
    installed_history,
    key_of,
    operators,
    recorded_schemas,
    recorded_versions,
    schema_at,
    versions_between,
    write_record,
)


def _find_lost(before: OnnxSchema, after: OnnxSchema) -> list[str]:
    """Return what nodes may use with schema ``before`` and not with ``after``.

    The list is empty if ``after`` only adds optional inputs, outputs, attributes and types.
    """
    diff = []
    for role, old, new in (
        ("input", before.inputs, after.inputs),
        ("output", before.outputs, after.outputs),
    ):
        diff += [f"{role} {a.name}" for a, b in _align(old, new) if b is None or a.name != b.name]
        diff += [
            f"{role} {a.name}: {type_name}"
            for a, b in _align(old, new)
            if b is not None
            for type_name in sorted(set(before.allowed(a.type)) - set(after.allowed(b.type)))
        ]
    if after.min_inputs > before.min_inputs or after.min_outputs > before.min_outputs:
        diff.append("inputs or outputs that were optional")
    newer = {attribute.name: attribute for attribute in after.attributes}
    older = {attribute.name: attribute for attribute in before.attributes}
    diff += [f"attribute {name}" for name, spec in older.items() if newer.get(name) != spec]
    diff += [f"no attribute {n}" for n, spec in newer.items() if spec.required and n not in older]
    return diff


def _align(old: tuple[Formal, ...], new: tuple[Formal, ...]) -> list[tuple[Formal, Formal | None]]:
    return [(formal, new[index] if index < len(new) else None) for index, formal in enumerate(old)]


def _loads(opset: int) -> bool:
    values = [helper.make_tensor_value_info(n, TensorProto.FLOAT, [1]) for n in "xy"]
    graph = helper.make_graph(
        [helper.make_node("Identity", ["x"], ["y"])], "g", values[:1], values[1:]
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


def test_ceiling_is_the_newest_opset_that_the_oldest_supported_runtime_loads() -> None:
    assert _loads(CEILING)
    if _minor(onnxruntime.__version__) == _minor(recorded_versions()["onnxruntime"]):
        assert not _loads(CEILING + 1)


def test_schema_in_force_is_the_last_one_up_to_the_opset() -> None:
    assert [s.since for s in versions_between("Cast")] == [13, 19, 21, 23, 24, 25]
    assert [s.since for s in versions_between("Cast", "", 19, 22)] == [19, 21]
    schema = schema_at("Cast", "", 20)
    assert schema is not None and schema.since == 19
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


def _minor(version: str) -> list[str]:
    return version.split(".")[:2]


def test_the_record_is_what_is_installed_or_older() -> None:
    """Packages of the recorded versions have equal schemas, newer ones compatible schemas."""
    installed, versions = installed_history(), recorded_versions()
    is_recorded = {
        name: _minor(package.__version__) == _minor(versions[name])
        for name, package in (("onnx", onnx), ("onnxruntime", onnxruntime))
    }
    problems = []
    for key, schemas in recorded_schemas().items():
        package = "onnx" if onnx.defs.has(*key) else "onnxruntime"
        for schema in schemas:
            current = next((s for s in installed.get(key, ()) if s.since == schema.since), None)
            if current is None:
                problems.append(f"{key_of(*key)}-{schema.since} no longer exists")
            elif current != schema:
                diff = ["it differs"] if is_recorded[package] else _find_lost(schema, current)
                problems += [f"{key_of(*key)}-{schema.since}: {change}" for change in diff]
    assert problems == [], "run `python -m ortablegen kernels` with the oldest supported versions"


def test_the_record_is_read_as_it_is_written(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    schemas = [schema for group in recorded_schemas().values() for schema in group]
    versions = recorded_versions()
    monkeypatch.setattr("ortablegen.schemas.onnx.PATH", tmp_path / "written.jsonl")
    write_record(schemas, versions)
    assert (tmp_path / "written.jsonl").read_text() == PATH.read_text()
    assert [schema for group in recorded_schemas().values() for schema in group] == schemas
    recorded_schemas.cache_clear()


def test_what_a_newer_schema_takes_away_is_named() -> None:
    gemm = schema_at("Gemm")
    assert gemm is not None
    newer = replace(
        gemm,
        inputs=(*gemm.inputs, Formal("D", "T", optional=True)),
        max_inputs=4,
        type_params=tuple((name, (*types, "tensor(bool)")) for name, types in gemm.type_params),
    )
    assert _find_lost(gemm, newer) == []
    assert _find_lost(newer, gemm) == ["input D", *(f"input {n}: tensor(bool)" for n in "ABC"),
                                "output Y: tensor(bool)"]  # fmt: skip
    assert _find_lost(gemm, replace(gemm, attributes=gemm.attributes[1:])) == ["attribute alpha"]
    assert _find_lost(gemm, replace(gemm, min_inputs=3)) == ["inputs or outputs that were optional"]


def test_an_operator_of_a_newer_runtime_is_known_to_specs_of_users(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def find_schema(op: str, domain: str) -> OnnxSchema | None:
        schema_at.cache_clear()
        return schema_at(op, domain)

    gelu = find_schema("Gelu", onnx_schemas.MICROSOFT)
    assert gelu is not None
    newer = {("Newer", onnx_schemas.MICROSOFT): (replace(gelu, op="Newer"),)}
    monkeypatch.setattr(onnx_schemas, "installed_history", lambda: newer)
    assert find_schema("Newer", onnx_schemas.MICROSOFT) == replace(gelu, op="Newer")
    assert find_schema("Newest", onnx_schemas.MICROSOFT) is None
    assert "Newer" not in operators(onnx_schemas.MICROSOFT)
    schema_at.cache_clear()

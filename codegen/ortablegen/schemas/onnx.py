"""ONNX operator schemas, asked for by opset: as `onnx_record.py` has them, whatever is installed.
Read from the installed packages are operators that it lacks, and the record itself: onnx.defs for
the standard domains, ONNX Runtime's own registry for com.microsoft and for the operators it adds to
the standard domain."""

from __future__ import annotations

from functools import cache
from typing import Any

import onnx

from ortable import dtypes

from .onnx_model import Formal, OnnxAttribute, OnnxSchema, key_of
from .onnx_record import recorded, write_record

__all__ = ["Formal", "OnnxAttribute", "OnnxSchema", "key_of"]

FLOOR = 18
# The newest default-domain opset that the oldest supported ONNX Runtime loads; a test loads a model
# of this opset and, there, one newer.
CEILING = 26
MICROSOFT = "com.microsoft"
# Every version of com.microsoft is 1, whatever the release.
DOMAIN_RANGE: dict[str, tuple[int, int]] = {
    "": (FLOOR, CEILING),
    MICROSOFT: (1, 1),
    "ai.onnx.ml": (1, 5),
}
# ONNX writes two types in C's words, the others as ortable does
_ELEMENT = {n: t for t, n in dtypes.NAMES.items() if n not in ("float32", "float64", "undefined")}
_ELEMENT |= {"float": dtypes.float32, "double": dtypes.float64}


def known_domains() -> tuple[str, ...]:
    """The domains that specs may use."""
    return tuple(DOMAIN_RANGE)


@cache
def all_operators() -> frozenset[str]:
    """Names of the operators of every domain that specs may use."""
    return frozenset(name for domain in known_domains() for name in operators(domain))


@cache
def operators(domain: str = "") -> tuple[str, ...]:
    """Names of the operators of a domain that some opset between floor and ceiling knows,
    sorted."""
    floor, ceiling = DOMAIN_RANGE[domain]
    return tuple(
        sorted(
            op for (op, d) in recorded() if d == domain and versions_between(op, d, floor, ceiling)
        )
    )


@cache
def schema_at(op: str, domain: str = "", opset: int | None = None) -> OnnxSchema | None:
    """The schema in force at ``opset`` (default: the newest that ONNX Runtime runs); None: unknown
    there, or deprecated."""
    newest = DOMAIN_RANGE[domain][1] if opset is None else opset
    versions = [s for s in _known(op, domain) if s.since <= newest]
    return versions[-1] if versions and not versions[-1].deprecated else None


@cache
def versions_between(
    op: str, domain: str = "", floor: int | None = None, ceiling: int | None = None
) -> tuple[OnnxSchema, ...]:
    """Every schema in force at some opset from ``floor`` to ``ceiling``, oldest first, one per
    since_version.

    Defaults are the range that ortable supports. Empty for an operator that no opset of the range
    knows.
    """
    low, high = DOMAIN_RANGE[domain]
    floor = low if floor is None else floor
    ceiling = high if ceiling is None else ceiling
    first = schema_at(op, domain, floor)
    later = [s for s in _known(op, domain) if floor < s.since <= ceiling and not s.deprecated]
    return ((first,) if first else ()) + tuple(later)


def _known(op: str, domain: str) -> tuple[OnnxSchema, ...]:
    """All versions of an operator, oldest first; those of the installed packages for one that is
    not recorded, such as a newer ONNX Runtime's."""
    found = recorded().get((op, domain))
    return found if found is not None else installed_history().get((op, domain), ())


def record_installed() -> None:
    """Record the schemas of the installed packages: the version in force at the floor, and those up
    to the ceiling, of every operator that some opset between them knows."""
    import onnxruntime

    kept = []
    for (_, domain), versions in installed_history().items():
        floor, ceiling = DOMAIN_RANGE[domain]
        older = [schema for schema in versions if schema.since <= floor][-1:]
        newer = [schema for schema in versions if floor < schema.since <= ceiling]
        if any(not schema.deprecated for schema in older + newer):
            kept += older + newer
    write_record(kept, {"onnx": onnx.__version__, "onnxruntime": onnxruntime.__version__})
    for each in (operators, schema_at, versions_between):
        each.cache_clear()


@cache
def installed_history() -> dict[tuple[str, str], tuple[OnnxSchema, ...]]:
    """(op, domain) -> all versions that the installed packages know, oldest first."""
    found: dict[tuple[str, str], dict[int, OnnxSchema]] = {}
    for raw in _runtime_schemas():
        if raw.domain in DOMAIN_RANGE:
            found.setdefault((raw.name, raw.domain), {})[raw.since_version] = _from_runtime(raw)
    for raw in onnx.defs.get_all_schemas_with_history():
        if raw.domain in DOMAIN_RANGE:
            # onnx's word counts where both know a version
            found.setdefault((raw.name, raw.domain), {})[raw.since_version] = _from_onnx(raw)
    return {key: tuple(v[n] for n in sorted(v)) for key, v in found.items()}


def _runtime_schemas() -> list[Any]:
    from onnxruntime.capi import onnxruntime_pybind11_state as state

    return list(state.get_all_operator_schema())


def _from_onnx(raw: Any) -> OnnxSchema:
    def formal(f: Any) -> Formal:
        return Formal(
            f.name,
            f.type_str,
            f.option.name == "Optional",
            f.option.name == "Variadic",
            f.is_homogeneous,
        )

    attributes = tuple(
        OnnxAttribute(name, a.type.name, a.required, _default(a.default_value))
        for name, a in sorted(raw.attributes.items())
    )
    has_function = raw.has_function or raw.has_context_dependent_function
    return _schema(raw, formal, attributes, has_function)


def _from_runtime(raw: Any) -> OnnxSchema:
    def formal(f: Any) -> Formal:
        return Formal(
            f.name,
            f.typeStr,
            f.option.name == "Optional",
            f.option.name == "Variadic",
            f.isHomogeneous,
        )

    attributes = tuple(
        OnnxAttribute(
            name,
            a.type.name,
            a.required,
            _default(onnx.AttributeProto.FromString(a._default_value)),
        )
        for name, a in sorted(raw.attributes.items())
    )
    return _schema(raw, formal, attributes, False)


def _schema(
    raw: Any, formal: Any, attributes: tuple[OnnxAttribute, ...], has_function: bool
) -> OnnxSchema:
    return OnnxSchema(
        op=raw.name,
        domain=raw.domain,
        since=raw.since_version,
        inputs=tuple(formal(f) for f in raw.inputs),
        outputs=tuple(formal(f) for f in raw.outputs),
        attributes=attributes,
        type_params=tuple(
            (t.type_param_str, tuple(t.allowed_type_strs)) for t in raw.type_constraints
        ),
        min_inputs=raw.min_input,
        max_inputs=raw.max_input,
        min_outputs=raw.min_output,
        max_outputs=raw.max_output,
        deprecated=raw.deprecated,
        has_function=has_function,
    )


def _default(proto: onnx.AttributeProto) -> Any:
    if proto.type == onnx.AttributeProto.UNDEFINED:
        return None
    value = onnx.helper.get_attribute_value(proto)
    if isinstance(value, bytes):
        return value.decode()
    if proto.type in (onnx.AttributeProto.INTS, onnx.AttributeProto.FLOATS):
        return list(value)
    if proto.type == onnx.AttributeProto.STRINGS:
        return [each.decode() for each in value]
    return value


def element_type(text: str) -> int | None:
    """``tensor(float)`` -> 1; None for sequences, optionals, maps and unknown types."""
    inner = text.removeprefix("tensor(").removesuffix(")")
    return _ELEMENT.get(inner) if text.startswith("tensor(") else None

"""ONNX operator schemas as plain frozen data, asked for by opset: onnx.defs for the standard
domains, ONNX Runtime's own registry for com.microsoft and for the operators it adds to the
standard domain."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from typing import Any

import onnx

from ortable import dtypes

FLOOR = 18
# The newest default-domain opset that the installed ONNX Runtime loads; a test loads a model of
# this opset and one newer.
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


@dataclass(frozen=True)
class Formal:
    """One formal input or output. ``type`` is a type parameter (``T``) or a type
    (``tensor(int64)``)."""

    name: str
    type: str
    optional: bool = False
    variadic: bool = False
    homogeneous: bool = True


@dataclass(frozen=True)
class OnnxAttribute:
    """One attribute. ``type`` is the AttributeProto name (``INTS``); ``default`` a Python value,
    None when there is none."""

    name: str
    type: str
    required: bool = False
    default: Any = None


@dataclass(frozen=True)
class OnnxSchema:
    """One version of an operator: in force from opset ``since`` on, until the next version.

    ``type_params`` maps a type parameter to the types it allows (``tensor(float)``,
    ``seq(tensor(float))``).
    """

    op: str
    domain: str
    since: int
    inputs: tuple[Formal, ...]
    outputs: tuple[Formal, ...]
    attributes: tuple[OnnxAttribute, ...]
    type_params: tuple[tuple[str, tuple[str, ...]], ...]
    min_inputs: int
    max_inputs: int
    min_outputs: int
    max_outputs: int
    deprecated: bool = False
    has_function: bool = False

    @property
    def key(self) -> str:
        """``Gemm`` in the standard domain, ``com.microsoft::BiasGelu`` elsewhere."""
        return key_of(self.op, self.domain)

    def attribute(self, name: str) -> OnnxAttribute | None:
        """The attribute of that name, or None."""
        return next((a for a in self.attributes if a.name == name), None)

    def input_index(self, name: str) -> int | None:
        """Position of the formal input of that name, or None."""
        return next((i for i, f in enumerate(self.inputs) if f.name == name), None)

    def allowed(self, type_name: str) -> tuple[str, ...]:
        """The types that a formal of this type may have: those of the parameter, or the type
        itself."""
        return dict(self.type_params).get(type_name, (type_name,))

    def accepts_inputs(self, count: int) -> bool:
        """True when a node may have ``count`` inputs (trailing optional inputs left out)."""
        return self.min_inputs <= count <= self.max_inputs

    def accepts_outputs(self, count: int) -> bool:
        """True when a node may have ``count`` outputs."""
        return self.min_outputs <= count <= self.max_outputs

    def signature(self) -> str:
        """``Gemm(A: T, B: T, C?: T) -> (Y: T)``: one line for people."""
        return f"{self.op}({_formals(self.inputs)}) -> ({_formals(self.outputs)})"


def key_of(op: str, domain: str = "") -> str:
    """The key of an operator in tables: ``Gemm``, ``com.microsoft::BiasGelu``."""
    return f"{domain}::{op}" if domain else op


def known_domains() -> tuple[str, ...]:
    """The domains that specs may use."""
    return tuple(DOMAIN_RANGE)


@cache
def operators(domain: str = "") -> tuple[str, ...]:
    """Names of the operators of a domain that some opset between floor and ceiling knows,
    sorted."""
    floor, ceiling = DOMAIN_RANGE[domain]
    return tuple(
        sorted(
            op for (op, d) in _history() if d == domain and versions_between(op, d, floor, ceiling)
        )
    )


@cache
def schema_at(op: str, domain: str = "", opset: int | None = None) -> OnnxSchema | None:
    """The schema in force at ``opset`` (default: the newest that ONNX Runtime runs); None: unknown
    there, or deprecated."""
    newest = DOMAIN_RANGE[domain][1] if opset is None else opset
    versions = [s for s in _history().get((op, domain), ()) if s.since <= newest]
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
    later = [
        s
        for s in _history().get((op, domain), ())
        if floor < s.since <= ceiling and not s.deprecated
    ]
    return ((first,) if first else ()) + tuple(later)


def _formals(formals: tuple[Formal, ...]) -> str:
    marks = {(True, False): "?", (False, True): "*"}
    return ", ".join(
        f"{f.name}{marks.get((f.optional, f.variadic), '')}: {f.type}" for f in formals
    )


@cache
def _history() -> dict[tuple[str, str], tuple[OnnxSchema, ...]]:
    """(op, domain) -> all versions, oldest first."""
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
    return (
        list(value)
        if proto.type in (onnx.AttributeProto.INTS, onnx.AttributeProto.FLOATS)
        else value
    )


def element_type(text: str) -> int | None:
    """``tensor(float)`` -> 1; None for sequences, optionals, maps and unknown types."""
    inner = text.removeprefix("tensor(").removesuffix(")")
    return _ELEMENT.get(inner) if text.startswith("tensor(") else None

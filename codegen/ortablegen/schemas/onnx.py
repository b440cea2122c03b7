"""Look up ONNX operator schemas by opset in the record `onnx_schemas.jsonl`.

`python -m ortablegen kernels`, run with the oldest supported onnx and ONNX Runtime, writes the
record, so that codegen and `load_specs` do not depend on the installed versions;
`tests/codegen/schemas` checks that newer versions accept the same calls. The schema of an operator
that the record lacks comes from the installed packages: from onnx.defs, and from ONNX Runtime's
registry for com.microsoft and for operators that ONNX Runtime adds to the standard domain.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import onnx

from ortable import dtypes

PATH = Path(__file__).with_name("onnx_schemas.jsonl")
FLOOR = 18
# The newest default-domain opset that the oldest supported ONNX Runtime loads. A test checks that
# the runtime loads a model of this opset and rejects one of the next opset.
CEILING = 26
MICROSOFT = "com.microsoft"
# Every release of com.microsoft has opset version 1.
DOMAIN_RANGE: dict[str, tuple[int, int]] = {
    "": (FLOOR, CEILING),
    MICROSOFT: (1, 1),
    "ai.onnx.ml": (1, 5),
}
# name in ONNX's type texts -> element type; only float32 and float64 have other names in ortable
_ELEMENT_TYPES = {
    n: t for t, n in dtypes.NAMES.items() if n not in ("float32", "float64", "undefined")
}
_ELEMENT_TYPES |= {"float": dtypes.float32, "double": dtypes.float64}
History = Mapping[tuple[str, str], "tuple[OnnxSchema, ...]"]


@dataclass(frozen=True)
class Formal:
    """A formal input or output; ``type`` is a type (``tensor(int64)``) or a type parameter (``T``).

    The arguments of a ``variadic`` formal have one type if it is ``homogeneous``.
    """

    name: str
    type: str
    optional: bool = False
    variadic: bool = False
    homogeneous: bool = True


@dataclass(frozen=True)
class OnnxAttribute:
    """An attribute; ``type`` is the AttributeProto name (``INTS``), ``default`` a value or None."""

    name: str
    type: str
    required: bool = False
    default: Any = None


@dataclass(frozen=True)
class OnnxSchema:
    """One version of an operator, in force from opset ``since`` until the next version.

    ``type_params`` are pairs of a type parameter and the types that it allows: ``("T",
    ("tensor(float)", "seq(tensor(float))"))``. ``has_function``: onnx defines the operator as
    a function of other operators.
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
        """Return the attribute ``name``, or None."""
        return next((a for a in self.attributes if a.name == name), None)

    def input_index(self, name: str) -> int | None:
        """Return the position of the formal input ``name``, or None."""
        return next((i for i, f in enumerate(self.inputs) if f.name == name), None)

    def allowed(self, type_name: str) -> tuple[str, ...]:
        """Return the types that a type parameter allows; for any other text, that text itself."""
        return dict(self.type_params).get(type_name, (type_name,))

    def elements(self, type_name: str) -> frozenset[int]:
        """Return the element types of the tensors that ``type_name`` allows."""
        return frozenset(
            element for element in map(element_type, self.allowed(type_name)) if element
        )

    def input_at(self, place: int) -> Formal | None:
        """Return the formal input at a position, or None; a variadic last input repeats."""
        return _formal_at(self.inputs, place)

    def output_at(self, place: int) -> Formal | None:
        """Return the formal output at a position, or None; a variadic last output repeats."""
        return _formal_at(self.outputs, place)

    def accepts_inputs(self, count: int) -> bool:
        """Whether a node may have ``count`` inputs; it may leave out trailing optional inputs."""
        return self.min_inputs <= count <= self.max_inputs

    def accepts_outputs(self, count: int) -> bool:
        """Whether a node may have ``count`` outputs."""
        return self.min_outputs <= count <= self.max_outputs

    def signature(self) -> str:
        """Format the signature for messages: ``Gemm(A: T, B: T, C?: T) -> (Y: T)``."""
        return f"{self.op}({_format_formals(self.inputs)}) -> ({_format_formals(self.outputs)})"


def key_of(op: str, domain: str = "") -> str:
    """Return the key of an operator in tables: ``Gemm``, ``com.microsoft::BiasGelu``."""
    return f"{domain}::{op}" if domain else op


def _formal_at(formals: tuple[Formal, ...], position: int) -> Formal | None:
    if position < len(formals):
        return formals[position]
    return formals[-1] if formals and formals[-1].variadic else None


def _format_formals(formals: tuple[Formal, ...]) -> str:
    marks = {(True, False): "?", (False, True): "*"}
    return ", ".join(
        f"{f.name}{marks.get((f.optional, f.variadic), '')}: {f.type}" for f in formals
    )


# -- look-up by opset


@cache
def all_operators() -> frozenset[str]:
    """Return the names of the operators of every domain that specs may use."""
    return frozenset(name for domain in DOMAIN_RANGE for name in operators(domain))


@cache
def operators(domain: str = "") -> tuple[str, ...]:
    """Return the sorted names of the recorded operators of a domain's supported opsets."""
    floor, ceiling = DOMAIN_RANGE[domain]
    return tuple(
        sorted(
            op
            for (op, d) in recorded_schemas()
            if d == domain and versions_between(op, d, floor, ceiling)
        )
    )


@cache
def schema_at(op: str, domain: str = "", opset: int | None = None) -> OnnxSchema | None:
    """Return the schema in force at ``opset`` (default: newest), None if unknown or deprecated."""
    last_opset = DOMAIN_RANGE[domain][1] if opset is None else opset
    versions = [s for s in _find_versions(op, domain) if s.since <= last_opset]
    return versions[-1] if versions and not versions[-1].deprecated else None


@cache
def versions_between(
    op: str, domain: str = "", floor: int | None = None, ceiling: int | None = None
) -> tuple[OnnxSchema, ...]:
    """Return every schema in force at some opset from ``floor`` to ``ceiling``, oldest first.

    Deprecated versions are left out. The default range is the one that ortable supports. The result
    is empty for an operator that no opset of the range has.
    """
    low, high = DOMAIN_RANGE[domain]
    floor = low if floor is None else floor
    ceiling = high if ceiling is None else ceiling
    floor_schema = schema_at(op, domain, floor)
    later = [
        s for s in _find_versions(op, domain) if floor < s.since <= ceiling and not s.deprecated
    ]
    return ((floor_schema,) if floor_schema else ()) + tuple(later)


def _find_versions(op: str, domain: str) -> tuple[OnnxSchema, ...]:
    """Return all recorded versions of an operator, or else all installed ones, oldest first."""
    versions = recorded_schemas().get((op, domain))
    return versions if versions is not None else installed_history().get((op, domain), ())


def record_installed() -> None:
    """Record every schema version of the installed packages that a supported opset uses."""
    import onnxruntime

    schemas = []
    for (_, domain), versions in installed_history().items():
        floor, ceiling = DOMAIN_RANGE[domain]
        floor_versions = [schema for schema in versions if schema.since <= floor][-1:]
        later_versions = [schema for schema in versions if floor < schema.since <= ceiling]
        if any(not schema.deprecated for schema in floor_versions + later_versions):
            schemas += floor_versions + later_versions
    write_record(schemas, {"onnx": onnx.__version__, "onnxruntime": onnxruntime.__version__})
    for function in (operators, schema_at, versions_between):
        function.cache_clear()


@cache
def installed_history() -> dict[tuple[str, str], tuple[OnnxSchema, ...]]:
    """Return (op, domain) -> all versions in the installed packages, oldest first."""
    from onnxruntime.capi import onnxruntime_pybind11_state as state

    raw_schemas = [(raw, True) for raw in state.get_all_operator_schema()]
    # onnx's schema replaces ONNX Runtime's where both have a version
    raw_schemas += [(raw, False) for raw in onnx.defs.get_all_schemas_with_history()]
    by_key: dict[tuple[str, str], dict[int, OnnxSchema]] = {}
    for raw, of_runtime in raw_schemas:
        if raw.domain in DOMAIN_RANGE:
            versions = by_key.setdefault((raw.name, raw.domain), {})
            versions[raw.since_version] = _convert_schema(raw, of_runtime)
    return {key: tuple(v[n] for n in sorted(v)) for key, v in by_key.items()}


def _convert_schema(raw: Any, of_runtime: bool) -> OnnxSchema:
    """Convert a schema object of onnx or ONNX Runtime, whose field names differ."""

    def convert_formal(f: Any) -> Formal:
        type_name, is_homogeneous = (
            (f.typeStr, f.isHomogeneous) if of_runtime else (f.type_str, f.is_homogeneous)
        )
        return Formal(
            f.name,
            type_name,
            f.option.name == "Optional",
            f.option.name == "Variadic",
            is_homogeneous,
        )

    def convert_attribute(name: str, a: Any) -> OnnxAttribute:
        parse_attribute = onnx.AttributeProto.FromString
        default = parse_attribute(a._default_value) if of_runtime else a.default_value
        return OnnxAttribute(name, a.type.name, a.required, _convert_default(default))

    return OnnxSchema(
        op=raw.name,
        domain=raw.domain,
        since=raw.since_version,
        inputs=tuple(map(convert_formal, raw.inputs)),
        outputs=tuple(map(convert_formal, raw.outputs)),
        attributes=tuple(convert_attribute(*pair) for pair in sorted(raw.attributes.items())),
        type_params=tuple(
            (t.type_param_str, tuple(t.allowed_type_strs)) for t in raw.type_constraints
        ),
        min_inputs=raw.min_input,
        max_inputs=raw.max_input,
        min_outputs=raw.min_output,
        max_outputs=raw.max_output,
        deprecated=raw.deprecated,
        has_function=not of_runtime and (raw.has_function or raw.has_context_dependent_function),
    )


def _convert_default(proto: onnx.AttributeProto) -> Any:
    if proto.type == onnx.AttributeProto.UNDEFINED:
        return None
    value = onnx.helper.get_attribute_value(proto)
    if isinstance(value, bytes):
        return value.decode()
    if proto.type in (onnx.AttributeProto.INTS, onnx.AttributeProto.FLOATS):
        return list(value)
    if proto.type == onnx.AttributeProto.STRINGS:
        return [text.decode() for text in value]
    return value


def element_type(text: str) -> int | None:
    """Return the element type of a text such as ``tensor(float)``; None if it is no tensor type."""
    inner = text.removeprefix("tensor(").removesuffix(")")
    return _ELEMENT_TYPES.get(inner) if text.startswith("tensor(") else None


# -- the record


@cache
def recorded_schemas() -> History:
    """Return (op, domain) -> the recorded versions, oldest first."""
    lines = PATH.read_text(encoding="utf-8").splitlines() if PATH.exists() else []
    by_key: dict[tuple[str, str], tuple[OnnxSchema, ...]] = {}
    for line in lines[1:]:
        schema = _from_row(json.loads(line))
        key = (schema.op, schema.domain)
        by_key[key] = (*by_key.get(key, ()), schema)
    return by_key


def recorded_versions() -> dict[str, str]:
    """Return the recorded package versions: ``{"onnx": "1.23.2", ...}``."""
    with PATH.open(encoding="utf-8") as file:
        versions: dict[str, str] = json.loads(file.readline())
    return versions


def write_record(schemas: Iterable[OnnxSchema], versions: Mapping[str, str]) -> None:
    """Write the record; ``versions`` maps the packages with these schemas to their versions."""
    rows = sorted(schemas, key=lambda schema: (schema.domain, schema.op, schema.since))
    lines = [json.dumps(dict(sorted(versions.items())))]
    lines += [json.dumps(_to_row(schema)) for schema in rows]
    PATH.write_text("\n".join(lines) + "\n", encoding="utf-8")
    recorded_schemas.cache_clear()


def _to_row(schema: OnnxSchema) -> dict[str, Any]:
    row: dict[str, Any] = {"op": schema.op, "domain": schema.domain, "since": schema.since}
    row["inputs"] = [_format_formal(formal) for formal in schema.inputs]
    row["outputs"] = [_format_formal(formal) for formal in schema.outputs]
    row["counts"] = [
        schema.min_inputs, schema.max_inputs, schema.min_outputs, schema.max_outputs
    ]  # fmt: skip
    row["types"] = {name: "|".join(map(_shorten_type, types)) for name, types in schema.type_params}
    row["attributes"] = {
        a.name: [a.type, "required"] if a.required else [a.type, "default", a.default]
        for a in schema.attributes
    }
    flags = {"deprecated": schema.deprecated, "function": schema.has_function}
    return row | {name: True for name, flag in flags.items() if flag}


def _from_row(row: Mapping[str, Any]) -> OnnxSchema:
    min_inputs, max_inputs, min_outputs, max_outputs = row["counts"]
    return OnnxSchema(
        row["op"],
        row["domain"],
        row["since"],
        tuple(map(_parse_formal, row["inputs"])),
        tuple(map(_parse_formal, row["outputs"])),
        tuple(
            OnnxAttribute(name, type_name, flag == "required", default[0] if default else None)
            for name, (type_name, flag, *default) in row["attributes"].items()
        ),
        tuple(
            (name, tuple(map(_expand_type, text.split("|")))) for name, text in row["types"].items()
        ),
        min_inputs,
        max_inputs,
        min_outputs,
        max_outputs,
        row.get("deprecated", False),
        row.get("function", False),
    )


def _format_formal(formal: Formal) -> list[str]:
    marks = "?" * formal.optional + "*" * formal.variadic + "!" * (not formal.homogeneous)
    return [formal.name + marks, formal.type]


def _parse_formal(pair: list[str]) -> Formal:
    name = pair[0].rstrip("?*!")
    marks = pair[0][len(name) :]
    return Formal(name, pair[1], "?" in marks, "*" in marks, "!" not in marks)


def _shorten_type(type_name: str) -> str:
    """Shorten ``tensor(float)`` to ``float``; return ``seq(tensor(float))`` unchanged."""
    inner = type_name.removeprefix("tensor(").removesuffix(")")
    return inner if type_name == f"tensor({inner})" and "(" not in inner else type_name


def _expand_type(text: str) -> str:
    return text if "(" in text else f"tensor({text})"

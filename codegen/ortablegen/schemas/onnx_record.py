"""`onnx_schemas.jsonl` beside this file: the schemas of the ONNX operators that specs may use, read
from the oldest supported onnx and ONNX Runtime. Codegen and `load_specs` read it instead of what is
installed, so that they say the same under each version; newer versions must still take what it
says, which `tests/codegen/schemas` compares. `python -m ortablegen kernels` writes it. An operator
that only the installed ONNX Runtime has is asked for there."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from functools import cache
from pathlib import Path
from typing import Any

from .onnx_model import Formal, OnnxAttribute, OnnxSchema

PATH = Path(__file__).with_name("onnx_schemas.jsonl")
History = Mapping[tuple[str, str], tuple[OnnxSchema, ...]]


@cache
def recorded() -> History:
    """(op, domain) -> the recorded versions, oldest first."""
    lines = PATH.read_text(encoding="utf-8").splitlines() if PATH.exists() else []
    found: dict[tuple[str, str], tuple[OnnxSchema, ...]] = {}
    for line in lines[1:]:
        schema = _read(json.loads(line))
        key = (schema.op, schema.domain)
        found[key] = (*found.get(key, ()), schema)
    return found


def recorded_versions() -> dict[str, str]:
    """The versions that were read: ``{"onnx": "1.23.2", "onnxruntime": "1.31.1"}``."""
    with PATH.open(encoding="utf-8") as file:
        found: dict[str, str] = json.loads(file.readline())
    return found


def write_record(schemas: Iterable[OnnxSchema], versions: Mapping[str, str]) -> None:
    """Write the record; ``versions`` are those of the installed packages."""
    rows = sorted(schemas, key=lambda schema: (schema.domain, schema.op, schema.since))
    lines = [json.dumps(dict(sorted(versions.items())))]
    lines += [json.dumps(_written(schema)) for schema in rows]
    PATH.write_text("\n".join(lines) + "\n", encoding="utf-8")
    recorded.cache_clear()


def _written(schema: OnnxSchema) -> dict[str, Any]:
    """A schema as a line holds it; what is usual is left out."""
    row: dict[str, Any] = {"op": schema.op, "domain": schema.domain, "since": schema.since}
    row["inputs"] = [_formal_written(each) for each in schema.inputs]
    row["outputs"] = [_formal_written(each) for each in schema.outputs]
    row["counts"] = [
        schema.min_inputs, schema.max_inputs, schema.min_outputs, schema.max_outputs
    ]  # fmt: skip
    row["types"] = {name: "|".join(map(_short, types)) for name, types in schema.type_params}
    row["attributes"] = {
        a.name: [a.type, "required"] if a.required else [a.type, "default", a.default]
        for a in schema.attributes
    }
    flags = {"deprecated": schema.deprecated, "function": schema.has_function}
    return row | {name: True for name, flag in flags.items() if flag}


def _read(row: Mapping[str, Any]) -> OnnxSchema:
    fewest_in, most_in, fewest_out, most_out = row["counts"]
    return OnnxSchema(
        row["op"],
        row["domain"],
        row["since"],
        tuple(map(_formal_read, row["inputs"])),
        tuple(map(_formal_read, row["outputs"])),
        tuple(
            OnnxAttribute(name, kind, how == "required", default[0] if default else None)
            for name, (kind, how, *default) in row["attributes"].items()
        ),
        tuple((name, tuple(map(_long, text.split("|")))) for name, text in row["types"].items()),
        fewest_in,
        most_in,
        fewest_out,
        most_out,
        row.get("deprecated", False),
        row.get("function", False),
    )


def _formal_written(formal: Formal) -> list[str]:
    marks = "?" * formal.optional + "*" * formal.variadic + "!" * (not formal.homogeneous)
    return [formal.name + marks, formal.type]


def _formal_read(pair: list[str]) -> Formal:
    name = pair[0].rstrip("?*!")
    marks = pair[0][len(name) :]
    return Formal(name, pair[1], "?" in marks, "*" in marks, "!" not in marks)


def _short(type_name: str) -> str:
    """``tensor(float)`` as ``float``; other types as they are, which have brackets."""
    inner = type_name.removeprefix("tensor(").removesuffix(")")
    return inner if type_name == f"tensor({inner})" and "(" not in inner else type_name


def _long(text: str) -> str:
    return text if "(" in text else f"tensor({text})"


def lost(before: OnnxSchema, after: OnnxSchema) -> list[str]:
    """What a node that ``before`` allows may use and ``after`` has no more; nothing where the newer
    schema only adds optional inputs, outputs, attributes and types."""
    said = []
    for what, old, new in (
        ("input", before.inputs, after.inputs),
        ("output", before.outputs, after.outputs),
    ):
        said += [f"{what} {a.name}" for a, b in _beside(old, new) if b is None or a.name != b.name]
        said += [
            f"{what} {a.name}: {kind}"
            for a, b in _beside(old, new)
            if b is not None
            for kind in sorted(set(before.allowed(a.type)) - set(after.allowed(b.type)))
        ]
    if after.min_inputs > before.min_inputs or after.min_outputs > before.min_outputs:
        said.append("inputs or outputs that were optional")
    newer = {attribute.name: attribute for attribute in after.attributes}
    older = {attribute.name: attribute for attribute in before.attributes}
    said += [f"attribute {name}" for name, each in older.items() if newer.get(name) != each]
    said += [f"no attribute {n}" for n, each in newer.items() if each.required and n not in older]
    return said


def _beside(old: tuple[Formal, ...], new: tuple[Formal, ...]) -> list[tuple[Formal, Formal | None]]:
    return [(each, new[at] if at < len(new) else None) for at, each in enumerate(old)]

"""Read and write specs/runtime/torch_schemas.txt, the operator schemas of every supported torch.

With this record codegen does not depend on the installed version. `python -m ortablegen
record-schemas` adds or replaces the schemas of the installed version, `python -m ortablegen check`
compares them with the record.

The line ``versions:`` lists the recorded versions; other lines are comments or schemas. A prefix in
brackets restricts a schema to some of the versions:

    versions: 2.13 2.14
    aten::relu(Tensor self) -> Tensor
    [2.13] aten::qr(Tensor self, bool some=True) -> (Tensor Q, Tensor R)
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import Any

from .ranges import Version, format_version, parse_version
from .registry import NAMESPACES, Record, canonical_text, import_problem, installed_torch
from .torch import key_of_schema

PLACE = Path("specs") / "runtime" / "torch_schemas.txt"
# Modules whose import registers operators. A build of torch may lack some of them.
MODULES = (
    "torch._inductor.inductor_prims",
    "torch._prims",
    "torch.ao.quantization.fx._decomposed",
    "torch.distributed",
    "torch.onnx.ops",
)
_HEADER = """\
# The operators of torch that write into nothing, and the random ones that fill a tensor in place,
# with the schemas that the versions below have. Read by `python -m ortablegen record-schemas` from
# the installed torch, one version at a time; not written by hand.
# A line that begins with versions holds in these alone.
"""
_VERSIONS = "versions:"


def read_record(path: Path) -> Record:
    """Read the record in the file ``path``; return an empty record if there is no file."""
    return parse_record(path.read_text(encoding="utf-8")) if path.exists() else Record((), {})


@cache
def parse_record(text: str) -> Record:
    """Parse a record; schemas of versions that its ``versions:`` line lacks are dropped."""
    versions: tuple[Version, ...] = ()
    texts: dict[str, dict[Version, str]] = {}
    for line in text.splitlines():
        if line.startswith(_VERSIONS):
            versions = tuple(sorted(map(parse_version, line.removeprefix(_VERSIONS).split())))
        elif line and not line.startswith("#"):
            prefix, schema = line[1:].split("] ", 1) if line.startswith("[") else ("", line)
            schema_versions = (
                set(map(parse_version, prefix.split())) & set(versions) if prefix else versions
            )
            by_version = texts.setdefault(schema.partition("(")[0], {})
            by_version.update((version, schema) for version in schema_versions)
    return Record(versions, {key: by_version for key, by_version in texts.items() if by_version})


def render_record(record: Record) -> str:
    """Return the text of the record's file."""
    lines = [_HEADER + " ".join([_VERSIONS, *map(format_version, record.versions)]), ""]
    for key in sorted(record.texts):
        by_version = record.texts[key]
        by_text: dict[str, list[Version]] = {}
        for version in sorted(by_version):
            by_text.setdefault(by_version[version], []).append(version)
        for text, schema_versions in by_text.items():
            prefix = f"[{' '.join(map(format_version, schema_versions))}] "
            lines.append((prefix if len(schema_versions) < len(record.versions) else "") + text)
    return "\n".join(lines) + "\n"


# -- the installed torch


def installed_schemas() -> dict[str, str]:
    """Return overload -> schema text for the operators of the installed torch to record."""
    import torch

    for module in MODULES:
        import_problem(module)
    schemas = {}
    for schema in torch._C._jit_get_all_schemas():
        namespace = schema.name.partition("::")[0]
        if namespace in NAMESPACES and (not schema.is_mutable or _fills_randomly(schema)):
            schemas[key_of_schema(schema)] = canonical_text(str(schema))
    return schemas


def _fills_randomly(schema: Any) -> bool:
    """Whether the operator fills its first argument with random numbers, as ``normal_`` does."""
    import torch

    namespace, _, name = schema.name.partition("::")
    if namespace != "aten" or not name.endswith("_") or name.startswith("_"):
        return False
    packet = getattr(torch.ops.aten, name, None)
    overload = getattr(packet, schema.overload_name or "default", None)
    return overload is not None and torch.Tag.nondeterministic_seeded in overload.tags


def record_installed(path: Path) -> str:
    """Put the installed torch's schemas into the file ``path``; return a summary line."""
    before, version = read_record(path), installed_torch()
    after = before.with_version(version, installed_schemas())
    path.write_text(render_record(after), encoding="utf-8")
    difference_count = len(_list_differences(before.of(version), after.of(version)))
    count = len(after.of(version))
    return f"{path.name}: torch {format_version(version)}, {count} schemas, {difference_count} new"


def compare_installed(record: Record) -> list[str]:
    """Return a line for each overload whose installed schema differs from the record.

    Namespaces of which the installed torch registers no operator are not compared.
    """
    recorded, installed = record.of(installed_torch()), installed_schemas()
    namespaces = {key.partition("::")[0] for key in installed}
    recorded = {key: text for key, text in recorded.items() if key.partition("::")[0] in namespaces}
    return _list_differences(recorded, installed)


def _list_differences(before: Mapping[str, str], after: Mapping[str, str]) -> list[str]:
    lines = []
    for key in sorted({*before, *after}):
        if before.get(key) != after.get(key):
            lines.append(f"{key}: recorded {before.get(key, 'not')}; is {after.get(key, 'gone')}")
    return lines

"""Which types ONNX Runtime's CUDA provider has kernels for: reads them from an installed
onnxruntime-gpu into specs/runtime/kernels_cuda.yaml (a verb, for a machine with a GPU; checked in),
and emits ``ortable_generated/kernels_cuda.py``, where the CPU's kernels stand behind them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from ortable import dtypes
from ortablegen.schemas.onnx import OnnxSchema, operators, versions_between
from ortablegen.source.templates import environment
from ortablegen.source.yaml_source import load_plain

from .kernels import (
    DOMAINS,
    Kernel,
    by_parameter,
    entry_of,
    flow,
    kernel_matches,
    kernels_of_row,
    merge_kernels,
    schema_of,
)

__all__ = ["emit_cuda_kernels", "read_cuda_kernels"]

_PROVIDER = "CUDAExecutionProvider"
_HALVES = (dtypes.float16, dtypes.bfloat16)

_HEADER = """\
# Read from an installed onnxruntime-gpu by `python -m ortablegen kernels-cuda`, on a machine with a
# GPU; not written by hand. One line per operator and schema version that has kernels on CUDA; a
# kernel runs a node when each type parameter it names has one of the types listed. Others run on
# the CPU, behind a copy, if that has a kernel."""


def read_cuda_kernels(found: Sequence[Any]) -> str:
    """The YAML text of the table.

    Args:
        found: kernels as ONNX Runtime lists them, those of other providers among them. It starts
            every provider of its build for the list, so that those need their libraries.
    """
    raw: dict[tuple[str, str], list[Any]] = {}
    for each in found:
        if each.provider == _PROVIDER and each.domain in DOMAINS:
            raw.setdefault((each.op_name, each.domain), []).append(each)
    lines = [_HEADER]
    for domain in DOMAINS:
        for op in operators(domain):
            for schema in versions_between(op, domain):
                kernels = _kernels(schema, raw.get((op, domain), []))
                if kernels:
                    lines.append(_line(schema, kernels))
    return "\n".join(lines) + "\n"


def _kernels(schema: OnnxSchema, found: Sequence[Any]) -> list[Kernel]:
    return merge_kernels(
        by_parameter(schema, each.type_constraints)
        for each in found
        if kernel_matches(each.version_range[0], each.version_range[1], schema.since)
    )


def _line(schema: OnnxSchema, kernels: Sequence[Kernel]) -> str:
    domain = f", domain: {schema.domain}" if schema.domain else ""
    listed = ", ".join(map(flow, kernels))
    return f"- {{op: {schema.op}{domain}, since: {schema.since}, kernels: [{listed}]}}"


def emit_cuda_kernels(cuda: Path, cpu: Path, rounded: Path) -> dict[str, str]:
    """``ortable_generated/kernels_cuda.py`` from the checked-in tables of both providers, and from
    the list of kernels whose half floats are worse than torch's.

    Where CUDA has kernels of an operator, the CPU's serve for types other than half floats only:
    those are cast, and stay on the device.
    """
    rows = {_key(row): row for row in load_plain(cuda) or ()}
    worse = {row["op"]: _numbers(row["types"]) for row in load_plain(rounded) or ()}
    table: dict[str, list[str]] = {}
    merged: set[Any] = set()
    for row in load_plain(cpu) or ():
        schema = schema_of(row)
        if schema is None:
            continue
        own = rows.get(_key(row))
        merged.add(_key(row))
        if own is None:
            kernels = kernels_of_row(schema, row)
        else:
            behind = _without(kernels_of_row(schema, row), _HALVES)
            kernels = [*_own(schema, own, worse), *behind]
        table.setdefault(schema.key, []).append(entry_of(schema, row, kernels))
    for key, row in rows.items():
        schema = schema_of(row)
        if key not in merged and schema is not None:
            kernels = _own(schema, row, worse)
            table.setdefault(schema.key, []).append(entry_of(schema, row, kernels))
    text = (
        environment()
        .get_template("kernels_cuda.jinja")
        .render(table=sorted(table.items()), name=cuda.name)
    )
    return {"ortable_generated/kernels_cuda.py": text}


def _key(row: Mapping[str, Any]) -> tuple[str, str, int]:
    return row["op"], row.get("domain", ""), row["since"]


def _own(
    schema: OnnxSchema, row: Mapping[str, Any], worse: Mapping[str, Sequence[int]]
) -> list[Kernel]:
    return _without(kernels_of_row(None, row), worse.get(schema.key, ()))


def _without(kernels: Sequence[Kernel], types: Sequence[int]) -> list[Kernel]:
    """The kernels without some types; one of which a parameter has no others is none."""
    left = [
        {name: tuple(t for t in held if t not in types) for name, held in kernel.items()}
        for kernel in kernels
    ]
    return [kernel for kernel in left if all(kernel.values())]


def _numbers(names: Sequence[str]) -> tuple[int, ...]:
    numbers = {name: number for number, name in dtypes.NAMES.items()}
    return tuple(numbers[name] for name in names)

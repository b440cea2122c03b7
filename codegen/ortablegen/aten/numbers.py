"""``number:`` and ``condition:`` entries: Python functions on numbers, lowered to 0-d nodes."""

from __future__ import annotations

import itertools
import re
from collections.abc import Iterable
from pathlib import Path

from ortablegen.language.check import CodeChecker
from ortablegen.language.emit import Needs, block_lines
from ortablegen.language.entries import EntryReader
from ortablegen.language.kinds import RESULT, Kind
from ortablegen.language.narrowing import Env, Value
from ortablegen.language.parse import parse_block
from ortablegen.schemas.onnx import DOMAIN_RANGE
from ortablegen.source.diagnostics import Diagnostics
from ortablegen.source.yaml_source import YMap, YScalar

from .model import NumberEntry

# "number": all such parameters share a dtype; "float": cast to float64; "bool": boolean
PARAMETER_KINDS = ("bool", "float", "number")
_SIGNATURE = re.compile(r"([A-Za-z_]\w*(?:\.[A-Za-z_]\w*)+)\((\w+ \w+(?:, \w+ \w+)*)(, \.\.\.)?\)")
_EXAMPLE = "math.sqrt(float x)"


def read_number(node: YMap, reader: EntryReader) -> NumberEntry | None:
    """Read an entry; return None after an error."""
    kind, signature = node.pairs[0]
    match = _SIGNATURE.fullmatch(signature.text) if isinstance(signature, YScalar) else None
    lower = node.get("lower")
    if match is None:
        message = f"{kind.text} must be a function with its parameters"
        return reader.error(signature.span, message, fix=f"{kind.text}: {_EXAMPLE}")
    if not isinstance(lower, YScalar):
        text = f"a {kind.text} entry needs 'lower', a block"
        return reader.error(signature.span, text, fix="lower: return Sqrt(x)")
    parameters = tuple(
        (parameter.split()[0], parameter.split()[1]) for parameter in match[2].split(", ")
    )
    for parameter_kind, _ in parameters:
        if parameter_kind not in PARAMETER_KINDS:
            return reader.report_unknown(
                signature, "parameter kind", parameter_kind, PARAMETER_KINDS
            )
    if match[3] and [parameter_kind for parameter_kind, _ in parameters] != ["number", "number"]:
        text = "a function with '...' must have two parameters of kind number"
        return reader.error(signature.span, text, fix="builtins.max(number x, number y, ...)")
    code = parse_block(lower, reader.diagnostics)
    if code is None:
        return None
    folds = match[3] is not None
    return NumberEntry(kind.text, match[1], parameters, code, reader.file, signature.span, folds)


def check_numbers(entries: Iterable[NumberEntry], diagnostics: Diagnostics) -> None:
    """Report errors of entries, functions with two entries, and entries that are not sorted."""
    entries = list(entries)
    diagnostics.check_unique((entry.key, entry.span) for entry in entries)
    for entry in entries:
        _check_number(entry, diagnostics)
    # an entry with rows is sorted by its first row
    first_rows = [entry for entry in entries if entry.span.row is None or not entry.span.row.number]
    for _, group in itertools.groupby(first_rows, key=lambda entry: entry.file):
        diagnostics.check_sorted((f"{e.kind} {e.name}", e.span) for e in group)


def _check_number(entry: NumberEntry, diagnostics: Diagnostics) -> None:
    env: Env = {name: Value(Kind(RESULT)) for _, name in entry.parameters}
    checker = CodeChecker(
        entry.lower,
        dict(env),
        diagnostics,
        DOMAIN_RANGE[""],
        container_name="block",
        signature_owner="function",
    )
    checker.check_block(("Tensor",))
    for name in env:
        if name not in checker.read:
            diagnostics.error(entry.span, f"argument '{name}' of {entry.name} is never read")


def converter_lines(entry: NumberEntry, needs: Needs) -> list[str]:
    """Emit the converter: its parameters are the graph and a 0-d result per number."""
    needs.hidden = frozenset(name for _, name in entry.parameters)
    parameters = ", ".join(f"{name}: Result" for _, name in entry.parameters)
    signature = ", ".join(f"{kind} {name}" for kind, name in entry.parameters)
    signature += ", ..." if entry.folds else ""
    lines = [
        f"def {entry.function_name}(graph: Graph, {parameters}) -> Result:",
        f'    """{entry.name}({signature})"""',
    ]
    for kind, name in entry.parameters:
        if kind == "float":
            needs.add("ortable.prelude.values", "cast")
            needs.add("ortable.dtypes", "float64")
            lines.append(f"    {name} = cast(graph, {name}, float64)")
    body = block_lines(entry.lower.body, needs, False, named=False)
    return [*lines, *("    " + line for line in body)]


def dispatch_rows(entries: Iterable[NumberEntry], kind: str) -> list[tuple[str, str, str, str]]:
    """Return rows of a dispatch table: short name, family, function, letters of parameter kinds."""
    return sorted(
        (entry.short_name, Path(entry.file).stem, entry.function_name, entry.kind_letters)
        for entry in entries
        if entry.kind == kind
    )

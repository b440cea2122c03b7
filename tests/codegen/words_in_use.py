"""Find the entries of the specs that call each word (function) of the spec language."""

from __future__ import annotations

import ast
import re
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from ortablegen.aten.rows import expand_tables
from ortablegen.language.vocabulary import RUNTIME
from ortablegen.source.diagnostics import Diagnostics
from ortablegen.source.yaml_source import YMap, YNode, YSeq, load

ROOT = Path(__file__).parents[2]
# Keys of an entry that hold prose, samples or names instead of code
_KEYS_WITHOUT_CODE = frozenset(
    {
        "op", "alias", "of", "callable", "method", "hop", "rewrite", "note", "why", "unused",
        "python", "refuse", "run_in", "samples", "requires", "traits",
    }
)  # fmt: skip
_CALL = re.compile(r"\b([a-z_]\w*)\s*\(")
Uses = dict[str, set[tuple[str, int]]]


def uses(*folders: str) -> Uses:
    """Map each called word to its callers: (file, index of the entry)."""
    callers: Uses = defaultdict(set)
    for folder in folders:
        for path in sorted((ROOT / "specs" / folder).glob("*.yaml")):
            for index, entry in enumerate(_load_entries(path)):
                for text in _iterate_code(entry):
                    for word in _CALL.findall(text):
                        callers[word].add((f"{folder}/{path.name}", index))
    return callers


def _load_entries(path: Path) -> list[Any]:
    """Load the entries of a file as plain values, with ``for:`` tables expanded."""
    diagnostics = Diagnostics()
    return [_plain(node) for node in expand_tables(load(path, path.name, diagnostics), diagnostics)]


def _plain(node: YNode) -> Any:
    if isinstance(node, YMap):
        return {key.text: _plain(value) for key, value in node.items()}
    return [_plain(item) for item in node] if isinstance(node, YSeq) else node.text


def is_shared(entries: set[tuple[str, int]]) -> bool:
    """Whether the callers make a word a core word: at least three entries in two files."""
    return len(entries) >= 3 and len({file for file, _ in entries}) >= 2


def resolve_dependencies(words: set[str], folder: str) -> set[str]:
    """Return ``words`` and the functions of a folder that they call, directly or indirectly."""
    calls: dict[str, set[str]] = {}
    for path in (RUNTIME / folder).rglob("*.py"):
        for node in ast.parse(path.read_text()).body:
            if isinstance(node, ast.FunctionDef):
                names = {child.id for child in ast.walk(node) if isinstance(child, ast.Name)}
                calls.setdefault(node.name, set()).update(names)
    needed, worklist = set(words), list(words)
    while worklist:
        called = calls.get(worklist.pop(), set()) - needed
        needed |= called
        worklist.extend(called)
    return needed


def _iterate_code(value: Any) -> Iterator[str]:
    if isinstance(value, dict):
        for key, item in value.items():
            if key == "let":  # its keys are names of variables
                yield from item.values()
            elif key not in _KEYS_WITHOUT_CODE:
                yield from _iterate_code(item)
    elif isinstance(value, list):
        for item in value:
            yield from _iterate_code(item)
    else:
        yield value

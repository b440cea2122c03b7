"""Where specs use words: which entry of which file calls which word. Read by the tests of the
vocabulary; what comes in are the YAML files, what goes out is a table of calls."""

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
# Keys of an entry that hold prose, samples or names, no code
_NO_CODE = frozenset(
    {
        "op", "alias", "of", "callable", "method", "hop", "rewrite", "note", "why", "unused",
        "python", "refuse", "run_in", "samples", "requires", "traits",
    }
)  # fmt: skip
_CALL = re.compile(r"\b([a-z_]\w*)\s*\(")
Uses = dict[str, set[tuple[str, int]]]


def uses(*folders: str) -> Uses:
    """For each word that is called, the entries that call it: (file, number of the entry)."""
    found: Uses = defaultdict(set)
    for folder in folders:
        for path in sorted((ROOT / "specs" / folder).glob("*.yaml")):
            for number, entry in enumerate(_entries(path)):
                for text in _code(entry):
                    for word in _CALL.findall(text):
                        found[word].add((f"{folder}/{path.name}", number))
    return found


def _entries(path: Path) -> list[Any]:
    """The entries of a file as plain values, those with ``for:`` once for each row."""
    diagnostics = Diagnostics()
    return [_plain(node) for node in expand_tables(load(path, path.name, diagnostics), diagnostics)]


def _plain(node: YNode) -> Any:
    if isinstance(node, YMap):
        return {key.text: _plain(value) for key, value in node.items()}
    return [_plain(each) for each in node] if isinstance(node, YSeq) else node.text


def is_shared(entries: set[tuple[str, int]]) -> bool:
    """Three entries in two files make a word a core word."""
    return len(entries) >= 3 and len({file for file, _ in entries}) >= 2


def needed_by(words: set[str], folder: str) -> set[str]:
    """``words`` and the functions of a folder that their code calls, and so on."""
    calls: dict[str, set[str]] = {}
    for path in (RUNTIME / folder).rglob("*.py"):
        for node in ast.parse(path.read_text()).body:
            if isinstance(node, ast.FunctionDef):
                names = {each.id for each in ast.walk(node) if isinstance(each, ast.Name)}
                calls.setdefault(node.name, set()).update(names)
    found, left = set(words), list(words)
    while left:
        new = calls.get(left.pop(), set()) - found
        found |= new
        left.extend(new)
    return found


def _code(value: Any) -> Iterator[str]:
    if isinstance(value, dict):
        for key, each in value.items():
            if key == "let":  # its keys are names, whatever they are called
                yield from each.values()
            elif key not in _NO_CODE:
                yield from _code(each)
    elif isinstance(value, list):
        for each in value:
            yield from _code(each)
    else:
        yield value

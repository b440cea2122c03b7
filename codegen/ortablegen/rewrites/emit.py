"""Rewrites as Python text: one matcher for each alternative of a pattern, one maker for each
rewrite, one row of a table for each matcher."""

from __future__ import annotations

from pathlib import Path

from ortablegen.language import kinds, vocabulary
from ortablegen.language.emit import Needs, block_lines

from .matcher import MatcherText
from .model import Rewrite
from .names import Names, names_of, opset_range
from .pattern import Made, Pattern, read_patterns

_PACKAGE = "ortable_generated/rewrites"
_FIRST = "# Generated from {} by codegen. Do not edit: change the spec, then run `make codegen`."
_INIT = f'''{_FIRST.format("specs/rewrites")}
"""Matchers and makers of graph rewrites; ``dispatch`` holds the table."""
'''


def emit_rewrites(rewrites: tuple[Rewrite, ...]) -> dict[str, str]:
    """``ortable_generated/rewrites/*.py`` as relative path -> text."""
    files = {f"{_PACKAGE}/__init__.py": _INIT}
    displays = sorted({rewrite.file for rewrite in rewrites})
    for display in displays:
        chosen = tuple(rewrite for rewrite in rewrites if rewrite.file == display)
        files[f"{_PACKAGE}/{Path(display).stem}.py"] = rewrites_text(chosen, display)
    stems = [Path(display).stem for display in displays]
    files[f"{_PACKAGE}/dispatch.py"] = _dispatch(stems)
    return files


def rewrites_text(rewrites: tuple[Rewrite, ...], display: str) -> str:
    """One generated module: matchers, makers and rows of the rewrites of one file."""
    needs = Needs(words=vocabulary.rewrite_words())
    needs.add("ortable.passes.rewrite.rule", "Match")
    needs.add("ortable.passes.rewrite.rule", "Rule")
    defaults: dict[str, str] = {}
    functions: list[str] = []
    rows: list[str] = []
    annotations: set[str] = set()
    for rewrite in sorted(rewrites, key=lambda each: each.name):
        patterns = read_patterns(rewrite.pattern, rewrite.traits["commutative"])
        names = names_of(rewrite, patterns)
        needs.hidden = frozenset(names.kinds)
        for number, pattern in enumerate(patterns):
            function = f"match_{rewrite.name}" + (f"_{number + 1}" if len(patterns) > 1 else "")
            matcher = MatcherText(rewrite, pattern, names, needs, defaults)
            functions.append("\n".join(matcher.lines(function)))
            rows.append(_row(rewrite, pattern, matcher.order(), function))
        functions.append("\n".join(_maker(rewrite, names, needs, annotations)))
    sections = [_header(display, needs, annotations)]
    sections += ["\n".join(f"{name} = {text}" for name, text in sorted(defaults.items()))]
    sections += functions
    sections += [f"RULES: tuple[Rule, ...] = ({''.join(rows)}\n)" if rows else "RULES = ()"]
    return "\n\n\n".join(section for section in sections if section) + "\n"


def _header(display: str, needs: Needs, annotations: set[str]) -> str:
    lines = [
        _FIRST.format(display),
        "from __future__ import annotations",
        "",
        "from typing import TYPE_CHECKING, Any",
        "",
        *needs.lines(),
        "",
        "if TYPE_CHECKING:",
        "    from ortable.ir import Graph, ResultSpec",
        "    from ortable.ir.node import Node",
    ]
    if annotations:
        lines.append(f"    from ortable.prelude.facts import {', '.join(sorted(annotations))}")
    lines.append("    from ortable.passes.rewrite.matcher import Matcher")
    return "\n".join(lines)


def _dispatch(stems: list[str]) -> str:
    lines = [
        _FIRST.format("specs/rewrites"),
        "from __future__ import annotations",
        "",
        "from ortable.passes.rewrite.rule import Rule",
        "",
        *([f"from . import {', '.join(stems)}", ""] if stems else []),
        "RULES: tuple[Rule, ...] = (",
        *[f"    *{stem}.RULES," for stem in stems],
        ")",
    ]
    return "\n".join(lines) + "\n"


def _maker(rewrite: Rewrite, names: Names, needs: Needs, annotations: set[str]) -> list[str]:
    parameters = []
    for name in names.values:
        kind = names.kinds[name]
        if kind.base in (kinds.RESULT, kinds.RESULTS):
            annotations.add(kind.base)
            parameters.append(f"{name}: {kind.base}{' | None' if kind.optional else ''}")
        else:
            parameters.append(f"{name}: Any")
    signature = ", ".join(["graph: Graph", "res: ResultSpec", *parameters])
    lines = [f"def make_{rewrite.name}({signature}) -> Any:"]
    needs.kept = frozenset(names.kept)
    lines += ["    " + line for line in block_lines(rewrite.replace.body, needs, False)]
    needs.kept = frozenset()
    return lines


def _row(rewrite: Rewrite, pattern: Pattern, order: list[int], function: str) -> str:
    """A row of the table; ``order``: identities of the pattern's nodes, as ``Match.nodes`` has
    them."""
    root = pattern.roots()[0]
    made = pattern.made_names()
    shared = [order.index(id(made[name].node)) for name in rewrite.shared if name in made]
    low, high = opset_range(rewrite)
    fields = [
        ("name", rewrite.name),
        ("file", rewrite.file),
        ("stage", rewrite.stage),
        ("root", root.key),
        ("child", child_of(pattern, rewrite.traits["common"])),
        ("size", len(pattern.nodes)),
    ]
    lines = [f"        {key}={value!r}," for key, value in fields]
    lines += [f"        match={function},", f"        make=make_{rewrite.name},"]
    optional: list[tuple[str, object, object]] = [
        ("shared", tuple(sorted(set(shared))), ()),
        ("target", rewrite.target or "", ""),
        ("opsets", (low, high), (0, 1000)),
        ("off", rewrite.off, ""),
        ("why", rewrite.why, ""),
    ]
    lines += [f"        {key}={value!r}," for key, value, usual in optional if value != usual]
    return "\n    Rule(\n" + "\n".join(lines) + "\n    ),"


def child_of(pattern: Pattern, common: frozenset[str]) -> str:
    """An operator that makes an input of the anchor, a rare one if there is a choice: a rule is
    found faster by it."""
    found = [a.node.key for a in pattern.roots()[0].arguments if isinstance(a, Made)]
    return min(found, key=lambda key: (key in common, found.index(key)), default="")

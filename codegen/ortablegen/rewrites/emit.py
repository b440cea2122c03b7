"""Rewrites as Python text: one matcher for each alternative of a pattern, one maker for each
rewrite, one row of a table for each matcher."""

from __future__ import annotations

from pathlib import Path

from ortablegen.language import kinds, vocabulary
from ortablegen.language.emit import Needs, block_lines

from .matcher import MatcherText, has_conditions
from .model import Rewrite
from .names import Names, names_of, opset_range
from .pattern import Made, Number, Numbers, Pattern, PatternNode, read_patterns

CONSTANT = "="  # in a path, in place of an operator: a number
_PACKAGE = "ortable_generated/rewrites"
_FIRST = "# Generated from {} by codegen. Do not edit: change the spec, then run `make codegen`."
_INIT = f'''{_FIRST.format("specs/rewrites")}
"""Matchers and makers of graph rewrites; ``dispatch`` holds the table."""
'''


def emit_rewrites(rewrites: tuple[Rewrite, ...]) -> dict[str, str]:
    """``ortable_generated/rewrites/*.py`` as relative path -> text."""
    files = {f"{_PACKAGE}/__init__.py": _INIT}
    displays = sorted({rewrite.file for rewrite in rewrites})
    rows: list[str] = []
    for display in displays:
        chosen = tuple(rewrite for rewrite in rewrites if rewrite.file == display)
        stem = Path(display).stem
        text, found = _family(chosen, display, f'"{_PACKAGE.replace("/", ".")}.{stem}"')
        files[f"{_PACKAGE}/{stem}.py"] = text
        rows += found
    files[f"{_PACKAGE}/dispatch.py"] = _dispatch(rows)
    return files


def rewrites_text(rewrites: tuple[Rewrite, ...], display: str) -> str:
    """A user's file as one module: matchers, makers and rows."""
    text, rows = _family(rewrites, display, "globals()")
    return text + "\n\nfrom ortable.passes.rewrite.rule import Rule, rows_of\n\n" + _table(rows)


def _family(rewrites: tuple[Rewrite, ...], display: str, home: str) -> tuple[str, list[str]]:
    """Matchers and makers of the rewrites of one file as a module, and their rows; ``home`` is
    what says in a row where they are."""
    needs = Needs(words=vocabulary.rewrite_words())
    needs.add("ortable.passes.rewrite.rule", "Match")
    defaults: dict[str, str] = {}
    functions: list[str] = []
    rows: list[str] = []
    annotations: set[str] = set()
    for rewrite in sorted(rewrites, key=lambda each: each.name):
        patterns = read_patterns(rewrite.pattern, rewrite.traits["commutative"])
        names = names_of(rewrite, patterns)
        needs.hidden = frozenset(names.kinds)
        shares = len(patterns) > 1 and has_conditions(rewrite)
        if shares:
            matcher = MatcherText(rewrite, patterns[0], names, needs, defaults)
            functions.append("\n".join(matcher.acceptance()))
        pattern_rows: list[str] = []
        for number, pattern in enumerate(patterns):
            function = f"match_{rewrite.name}" + (f"_{number + 1}" if len(patterns) > 1 else "")
            matcher = MatcherText(rewrite, pattern, names, needs, defaults)
            matcher.shares_conditions = shares
            functions.append("\n".join(matcher.lines(function)))
            pattern_rows.append(_pattern_row(rewrite, pattern, matcher.order(), function))
        rows.append(_rows(rewrite, home, pattern_rows))
        functions.append("\n".join(_maker(rewrite, names, needs, annotations)))
    sections = [_header(display, needs, annotations)]
    sections += ["\n".join(f"{name} = {text}" for name, text in sorted(defaults.items()))]
    sections += functions
    return "\n\n\n".join(section for section in sections if section) + "\n", rows


def _table(rows: list[str]) -> str:
    return f"RULES: tuple[Rule, ...] = ({''.join(rows)}\n)\n" if rows else "RULES = ()\n"


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


def _dispatch(rows: list[str]) -> str:
    """The table of all rows; it imports none of the families, a rule does when it is tried."""
    lines = [
        _FIRST.format("specs/rewrites"),
        "from __future__ import annotations",
        "",
        "from ortable.passes.rewrite.rule import Rule, rows_of",
        "",
        "",
    ]
    return "\n".join(lines) + _table(rows)


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


def _rows(rewrite: Rewrite, home: str, patterns: list[str]) -> str:
    """The rows of a rewrite: what all its patterns have in common once, then each pattern."""
    fields: list[tuple[str, object, object]] = [
        ("name", rewrite.name, None),
        ("file", rewrite.file, None),
        ("stage", rewrite.stage, None),
        ("maker", f"make_{rewrite.name}", None),
        ("target", rewrite.target or "", ""),
        ("opsets", opset_range(rewrite), (0, 1000)),
        ("off", rewrite.off, ""),
        ("why", rewrite.why, ""),
    ]
    lines = [f"        {key}={value!r}," for key, value, usual in fields if value != usual]
    lines.insert(3, f"        home={home},")
    return "\n".join(["\n    *rows_of(", *patterns, *lines, "    ),"])


def _pattern_row(rewrite: Rewrite, pattern: Pattern, order: list[int], function: str) -> str:
    """What is a pattern's own: root, path, size, matcher, places of shared results; ``order``:
    identities of the pattern's nodes, as ``Match.nodes`` has them."""
    made = pattern.made_names()
    shared = [order.index(id(made[name].node)) for name in rewrite.shared if name in made]
    root = pattern.roots()[0]
    path = path_of(root, rewrite.traits["common"])
    row = (root.key, path, len(pattern.nodes), function, tuple(sorted(set(shared))))
    return f"        {row!r},"


def path_of(node: PatternNode, common: frozenset[str]) -> tuple[tuple[int, str], ...]:
    """From a node of a pattern to one that it is computed from, the longest way and among equally
    long ones that with fewer frequent operators: a rule is found by it. Each step is the place of
    an input, -1 where both orders fit, and the operator that makes it, or CONSTANT."""
    found: list[tuple[tuple[int, str], ...]] = [()]
    for place, argument in enumerate(node.arguments):
        if isinstance(argument, Made):
            step = (-1 if node.commutes else place, argument.node.key)
            found.append((step, *path_of(argument.node, common)))
        elif isinstance(argument, Number | Numbers):
            found.append(((-1 if node.commutes else place, CONSTANT),))
    return min(found, key=lambda path: (-len(path), sum(key in common for _, key in path)))

"""Rewrites as Python text: one matcher for the alternatives of a pattern that end in the same
operator, one maker for each rewrite, one row of a table for each matcher."""

from __future__ import annotations

import ast
from pathlib import Path

from ortablegen.language import kinds, vocabulary
from ortablegen.language.emit import Needs, block_lines

from .automaton import Automaton
from .matcher import MatcherText
from .model import Rewrite
from .names import Names, names_of, opset_range
from .pattern import Made, Number, Numbers, Pattern, PatternNode, read_patterns

CONSTANT = "="  # in a path, in place of an operator: a number
_PACKAGE = "ortable_generated/rewrites"
_FIRST = "# Generated from {} by codegen. Do not edit: change the spec, then run `make codegen`."
_RULE_IMPORT = "from ortable.passes.rewrite.rule import Rule, make_rules"
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
        text, found = _family(chosen, display, f"_{stem}")
        files[f"{_PACKAGE}/{stem}.py"] = text
        rows += found
    files[f"{_PACKAGE}/dispatch.py"] = _dispatch(displays, rows)
    return files


def rewrites_text(rewrites: tuple[Rewrite, ...], display: str) -> str:
    """A user's file as one module: matchers, makers and rows."""
    text, rows = _family(rewrites, display, "_rows")
    imports = "\n\nfrom functools import partial\n\n" + _RULE_IMPORT
    return f"{text}{imports}\n\n{_partial('_rows', display, 'globals()')}\n{_table(rows)}"


def _family(rewrites: tuple[Rewrite, ...], display: str, maker: str) -> tuple[str, list[str]]:
    """Matchers and makers of the rewrites of one file as a module, and their rows, which the
    function ``maker`` makes."""
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
        by_root: dict[str, list[Pattern]] = {}
        for pattern in patterns:
            by_root.setdefault(pattern.roots()[0].key, []).append(pattern)
        matchers = [
            [MatcherText(rewrite, pattern, names, needs, defaults) for pattern in each]
            for each in by_root.values()
        ]
        first = matchers[0][0]
        automaton = Automaton(
            {
                _matcher_name(rewrite, number, len(matchers)): [m.all_steps() for m in each]
                for number, each in enumerate(matchers)
            },
            rewrite.name,
            first.m,
            first.own("root"),
            names.kinds,
        )
        functions += ["\n".join(lines) for lines in automaton.lines(_shown(rewrite))]
        pattern_rows = [
            _pattern_row(root, each, rewrite.traits["common"]) for root, each in by_root.items()
        ]
        rows.append(_rows(rewrite, maker, pattern_rows))
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


def _dispatch(displays: list[str], rows: list[str]) -> str:
    """The table of all rows; it imports none of the families, a rule does when it is tried."""
    home = _PACKAGE.replace("/", ".")
    stems = [Path(display).stem for display in displays]
    lines = [
        _FIRST.format("specs/rewrites"),
        "from __future__ import annotations",
        "",
        "from functools import partial",
        "",
        _RULE_IMPORT,
        "",
        *(
            _partial(f"_{stem}", display, repr(f"{home}.{stem}"))
            for stem, display in zip(stems, displays, strict=True)
        ),
        "",
    ]
    return "\n".join(lines) + _table(rows)


def _partial(name: str, display: str, home: str) -> str:
    return f"{name} = partial(make_rules, file={display!r}, home={home})"


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


def _rows(rewrite: Rewrite, maker: str, patterns: list[str]) -> str:
    """The rows of a rewrite: each of its matchers, and what they have in common."""
    fields: list[tuple[str, object, object]] = [
        ("name", rewrite.name, None),
        ("stage", rewrite.stage, None),
        ("target", rewrite.target or "", ""),
        ("opsets", opset_range(rewrite), (0, 1000)),
    ]
    first = ", ".join(f"{key}={value!r}" for key, value, usual in fields if value != usual)
    texts = [("off", rewrite.off), ("why", rewrite.why)]
    lines = [f"        {first},", *(f"        {key}={text!r}," for key, text in texts if text)]
    return "\n".join([f"\n    *{maker}(", *patterns, *lines, "    ),"])


def _matcher_name(rewrite: Rewrite, number: int, count: int) -> str:
    return f"match_{rewrite.name}" + (f"_{number + 1}" if count > 1 else "")


def _pattern_row(root: str, patterns: list[Pattern], common: frozenset[str]) -> str:
    """What is a matcher's own: root, paths, size of the largest pattern."""
    paths = dict.fromkeys(path_of(each.roots()[0], common) for each in patterns)
    return f"        {(root, tuple(paths), max(len(each.nodes) for each in patterns))!r},"


def _shown(rewrite: Rewrite) -> str:
    """The docstring of a matcher: the pattern."""
    shown = "; ".join(ast.unparse(each) for each in rewrite.pattern.body)
    shown = shown.replace("\\", "\\\\").replace('"""', "...")
    return f'"""{shown}"""' if not shown.endswith('"') else f'"""{shown} """'


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

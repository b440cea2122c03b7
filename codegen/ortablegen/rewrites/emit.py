"""Emit rewrites as Python: a matcher for each root operator, a maker, table rows.

The maker is the function that builds the replacement.
"""

from __future__ import annotations

import ast
from pathlib import Path

from ortablegen.language import kinds, vocabulary
from ortablegen.language.emit import Needs, block_lines

from .automaton import Automaton
from .matcher import MatcherEmitter
from .model import Rewrite
from .names import Names, names_of, opset_range
from .pattern import NodeOutput, Number, Numbers, Pattern, PatternNode, read_patterns

CONSTANT = "="  # the step of a path whose input is a constant, not an operator
_PACKAGE = "ortable_generated/rewrites"
_FIRST_LINE = (
    "# Generated from {} by codegen. Do not edit: change the spec, then run `make codegen`."
)
_RULE_IMPORT = "from ortable.passes.rewrite.rule import Rule, make_rules"
_INIT = f'''{_FIRST_LINE.format("specs/rewrites")}
"""Matchers and makers of graph rewrites; ``dispatch`` holds the table."""
'''


def emit_rewrites(rewrites: tuple[Rewrite, ...]) -> dict[str, str]:
    """Emit ``ortable_generated/rewrites/*.py`` as relative path -> text."""
    files = {f"{_PACKAGE}/__init__.py": _INIT}
    display_paths = sorted({rewrite.file for rewrite in rewrites})
    rows: list[str] = []
    for display_path in display_paths:
        members = tuple(rewrite for rewrite in rewrites if rewrite.file == display_path)
        stem = Path(display_path).stem
        text, family_rows = _family_text(members, display_path, f"_{stem}")
        files[f"{_PACKAGE}/{stem}.py"] = text
        rows += family_rows
    files[f"{_PACKAGE}/dispatch.py"] = _dispatch_text(display_paths, rows)
    return files


def rewrites_text(rewrites: tuple[Rewrite, ...], file_name: str) -> str:
    """Emit a user's file as one module: matchers, makers and the table of its rules."""
    text, rows = _family_text(rewrites, file_name, "_rows")
    imports = "\n\nfrom functools import partial\n\n" + _RULE_IMPORT
    return (
        f"{text}{imports}\n\n{_partial_line('_rows', file_name, 'globals()')}\n{_rules_table(rows)}"
    )


def _family_text(
    rewrites: tuple[Rewrite, ...], file_name: str, row_function: str
) -> tuple[str, list[str]]:
    """Emit a file's matchers and makers as a module, and table rows that call ``row_function``."""
    needs = Needs(helpers=vocabulary.rewrite_helpers())
    needs.add("ortable.passes.rewrite.rule", "Match")
    defaults: dict[str, str] = {}
    functions: list[str] = []
    rows: list[str] = []
    annotations: set[str] = set()
    for rewrite in sorted(rewrites, key=lambda rewrite: rewrite.name):
        patterns = read_patterns(rewrite.pattern, rewrite.traits["commutative"])
        names = names_of(rewrite, patterns)
        needs.hidden = frozenset(names.kinds)
        by_root: dict[str, list[Pattern]] = {}
        for pattern in patterns:
            by_root.setdefault(pattern.root_nodes()[0].key, []).append(pattern)
        matchers = [
            [MatcherEmitter(rewrite, pattern, names, needs, defaults) for pattern in alternatives]
            for alternatives in by_root.values()
        ]
        first_matcher = matchers[0][0]
        automaton = Automaton(
            {
                _matcher_name(rewrite, number, len(matchers)): [m.all_steps() for m in alternatives]
                for number, alternatives in enumerate(matchers)
            },
            rewrite.name,
            first_matcher.matcher_name,
            first_matcher.local_name("root"),
            names.kinds,
        )
        functions += [
            "\n".join(lines) for lines in automaton.function_lines(_pattern_docstring(rewrite))
        ]
        pattern_rows = [
            _pattern_row(root, alternatives, rewrite.traits["common"])
            for root, alternatives in by_root.items()
        ]
        rows.append(_rows_text(rewrite, row_function, pattern_rows))
        functions.append("\n".join(_maker_lines(rewrite, names, needs, annotations)))
    sections = [_module_header(file_name, needs, annotations)]
    sections += ["\n".join(f"{name} = {text}" for name, text in sorted(defaults.items()))]
    sections += functions
    return "\n\n\n".join(section for section in sections if section) + "\n", rows


def _rules_table(rows: list[str]) -> str:
    return f"RULES: tuple[Rule, ...] = ({''.join(rows)}\n)\n" if rows else "RULES = ()\n"


def _module_header(display_path: str, needs: Needs, annotations: set[str]) -> str:
    lines = [
        _FIRST_LINE.format(display_path),
        "from __future__ import annotations",
        "",
        "from typing import TYPE_CHECKING, Any",
        "",
        *needs.import_lines(),
        "",
        "if TYPE_CHECKING:",
        "    from ortable.ir import Graph, ResultSpec",
        "    from ortable.ir.node import Node",
    ]
    if annotations:
        lines.append(f"    from ortable.prelude.facts import {', '.join(sorted(annotations))}")
    lines.append("    from ortable.passes.rewrite.matcher import Matcher")
    return "\n".join(lines)


def _dispatch_text(display_paths: list[str], rows: list[str]) -> str:
    """Emit the table of all rules; the module of a rule is imported when the rule is tried."""
    home = _PACKAGE.replace("/", ".")
    stems = [Path(display_path).stem for display_path in display_paths]
    lines = [
        _FIRST_LINE.format("specs/rewrites"),
        "from __future__ import annotations",
        "",
        "from functools import partial",
        "",
        _RULE_IMPORT,
        "",
        *(
            _partial_line(f"_{stem}", display_path, repr(f"{home}.{stem}"))
            for stem, display_path in zip(stems, display_paths, strict=True)
        ),
        "",
    ]
    return "\n".join(lines) + _rules_table(rows)


def _partial_line(name: str, display_path: str, home: str) -> str:
    return f"{name} = partial(make_rules, file={display_path!r}, home={home})"


def _maker_lines(rewrite: Rewrite, names: Names, needs: Needs, annotations: set[str]) -> list[str]:
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
    needs.attr_dicts = frozenset(names.attr_dicts)
    lines += ["    " + line for line in block_lines(rewrite.replace.body, needs, False)]
    needs.attr_dicts = frozenset()
    return lines


def _rows_text(rewrite: Rewrite, row_function: str, patterns: list[str]) -> str:
    """Emit the rows of a rewrite: one per matcher, and the fields that they share."""
    fields: list[tuple[str, object, object]] = [
        ("name", rewrite.name, None),
        ("stage", rewrite.stage, None),
        ("target", rewrite.target or "", ""),
        ("opsets", opset_range(rewrite), (0, 1000)),
    ]
    first_line = ", ".join(f"{key}={value!r}" for key, value, default in fields if value != default)
    texts = [("off", rewrite.off_reason), ("why", rewrite.why)]
    lines = [f"        {first_line},", *(f"        {key}={text!r}," for key, text in texts if text)]
    return "\n".join([f"\n    *{row_function}(", *patterns, *lines, "    ),"])


def _matcher_name(rewrite: Rewrite, number: int, count: int) -> str:
    return f"match_{rewrite.name}" + (f"_{number + 1}" if count > 1 else "")


def _pattern_row(root: str, patterns: list[Pattern], common: frozenset[str]) -> str:
    """Emit the fields of one matcher: root, paths, size of the largest pattern."""
    paths = dict.fromkeys(path_of(pattern.root_nodes()[0], common) for pattern in patterns)
    return f"        {(root, tuple(paths), max(len(pattern.nodes) for pattern in patterns))!r},"


def _pattern_docstring(rewrite: Rewrite) -> str:
    """Return the docstring of a matcher: the pattern."""
    text = "; ".join(ast.unparse(statement) for statement in rewrite.pattern.body)
    text = text.replace("\\", "\\\\").replace('"""', "...")
    return f'"""{text}"""' if not text.endswith('"') else f'"""{text} """'


def path_of(node: PatternNode, common: frozenset[str]) -> tuple[tuple[int, str], ...]:
    """Return the path from a node of a pattern to its inputs by which a rule is looked up.

    The path is the longest, or of several longest paths the one with the fewest common operators. A
    step is the index of an input (-1 if both orders match) and its operator, or CONSTANT.
    """
    paths: list[tuple[tuple[int, str], ...]] = [()]
    for index, argument in enumerate(node.arguments):
        if isinstance(argument, NodeOutput):
            step = (-1 if node.tries_both_orders else index, argument.node.key)
            paths.append((step, *path_of(argument.node, common)))
        elif isinstance(argument, Number | Numbers):
            paths.append(((-1 if node.tries_both_orders else index, CONSTANT),))
    return min(paths, key=lambda path: (-len(path), sum(key in common for _, key in path)))

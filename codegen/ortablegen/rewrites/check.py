"""Checks rewrites: names, what conditions and replacements read, results, order, cases, loops."""

from __future__ import annotations

import ast
import itertools
from collections.abc import Iterable

from ortable import dtypes
from ortablegen.language import vocabulary
from ortablegen.language.narrowing import Value
from ortablegen.schemas.onnx import DOMAIN_RANGE
from ortablegen.source.diagnostics import Diagnostics, Span

from .cases import check_cases
from .check_code import RewriteChecker
from .check_pattern import check_kept, check_nodes
from .cycles import check_cycles
from .model import Rewrite
from .names import Names, kinds_of, names_of, opset_range, written_dtype
from .nodes import Capture, Pattern, PatternProblem, unreachable
from .pattern import read_patterns
from .read import CASE_KEYS

# what generated code and cases call by these names
RESERVED = {"graph", "res", "len", "list", "dict", *CASE_KEYS}


def check_rewrites(rewrites: tuple[Rewrite, ...], diagnostics: Diagnostics) -> None:
    """Report everything wrong with ``rewrites``."""
    _check_order(rewrites, diagnostics)
    before = len(diagnostics.errors)
    for rewrite in rewrites:
        _Checker(rewrite, diagnostics).check()
    if len(diagnostics.errors) == before:
        check_cycles(rewrites, diagnostics)


def _check_order(rewrites: tuple[Rewrite, ...], diagnostics: Diagnostics) -> None:
    seen: dict[str, Span] = {}
    for rewrite in rewrites:
        if rewrite.name in seen:
            notes = [f"first given at {seen[rewrite.name]}"]
            diagnostics.error(rewrite.span, f"duplicate entry for '{rewrite.name}'", notes)
        else:
            seen[rewrite.name] = rewrite.span
    for before, after in itertools.pairwise(rewrites):
        if before.file == after.file and after.name < before.name:
            diagnostics.error(
                after.span,
                f"'{after.name}' stands after '{before.name}'",
                fix="keep the entries of a file sorted",
            )
            break


class _Checker:
    """Checks one rewrite."""

    def __init__(self, rewrite: Rewrite, diagnostics: Diagnostics) -> None:
        self.rewrite = rewrite
        self.diagnostics = diagnostics
        low, high = DOMAIN_RANGE[""]
        first, last = opset_range(rewrite)
        self.opsets = max(low, first), min(high, last)

    def error(
        self, span: Span, message: str, notes: Iterable[str] = (), fix: str | None = None
    ) -> None:
        self.diagnostics.error(span, message, notes, fix)

    def check(self) -> None:
        patterns = self.patterns()
        before = len(self.diagnostics.errors)
        if self.opsets[0] > self.opsets[1]:
            self.error(self.rewrite.span, f"no opset is {self.rewrite.opset}")
        if not patterns or self.opsets[0] > self.opsets[1]:
            return
        names = names_of(self.rewrite, patterns)
        self.check_names(patterns, names)
        if len(self.diagnostics.errors) > before:
            return
        types = check_nodes(self.rewrite.pattern, patterns, self.opsets, self.diagnostics)
        check_kept(self.rewrite, patterns, self.opsets, self.diagnostics)
        self.check_code(patterns, names, types)
        if len(self.diagnostics.errors) == before:
            # a rewrite with another error was not read to its end
            self.check_read(patterns, names)
        self.check_shared(patterns)
        check_cases(self.rewrite, patterns, names, self.diagnostics)

    def patterns(self) -> tuple[Pattern, ...]:
        code = self.rewrite.pattern
        try:
            found = read_patterns(code)
            for pattern in found:
                lost = unreachable(pattern)
                if lost is not None:
                    raise PatternProblem(
                        lost.call,
                        f"{lost.key} cannot be found from {pattern.roots()[0].key}, the first"
                        " result: they share no input",
                        "let the nodes of a pattern share a result",
                    )
        except PatternProblem as problem:
            self.error(code.at(problem.node), str(problem), fix=problem.fix)
            return ()
        return found

    def check_names(self, patterns: tuple[Pattern, ...], names: Names) -> None:
        words = {*RESERVED, *vocabulary.DTYPES, *vocabulary.CONSTANTS}
        for name in names.kinds:
            if name in words or not (name[0].islower() or name[0] == "_"):
                what = "is a word of the language" if name in words else "is not in lower case"
                self.error(
                    self.where(name, patterns), f"'{name}' {what} and names no capture",
                    fix="choose a name",
                )  # fmt: skip
        for name, code in self.rewrite.let:
            if any(name in kinds_of(pattern) for pattern in patterns):
                self.error(code.span, f"'{name}' has a meaning in the pattern already")

    def where(self, name: str, patterns: tuple[Pattern, ...]) -> Span:
        """Where a name first stands in the pattern, or its ``let``."""
        for statement in self.rewrite.pattern.body:
            for node in sorted(
                (n for n in ast.walk(statement) if isinstance(n, ast.Name) and n.id == name),
                key=lambda n: (n.lineno, n.col_offset),
            ):
                return self.rewrite.pattern.at(node)
        return next((code.span for each, code in self.rewrite.let if each == name),
                    self.rewrite.span)  # fmt: skip

    # -- code -----------------------------------------------------------------------------------

    def check_code(
        self, patterns: tuple[Pattern, ...], names: Names, types: list[list[Value]]
    ) -> None:
        checker = RewriteChecker(self.rewrite, names, self.opsets, self.diagnostics)
        for pattern, before in zip(patterns, types, strict=True):
            for was, (node, value) in zip(before, checker.check(pattern), strict=False):
                self.check_type(node, was.dtypes, _cast_type(node) or value.dtypes)

    def check_type(
        self, node: ast.expr, before: frozenset[int] | None, after: frozenset[int] | None
    ) -> None:
        """The dtype of a result, where the text of the rewrite tells it."""
        if before and after and not before & after:
            self.error(
                self.rewrite.replace.at(node),
                f"a result of the pattern is {_dtype_names(before)}, what replaces it is"
                f" {_dtype_names(after)}",
                ["a rewrite never changes the dtype of a result"],
                fix="cast it: cast(y, dtype_of(res))",
            )

    # -- what is read ---------------------------------------------------------------------------

    def check_read(self, patterns: tuple[Pattern, ...], names: Names) -> None:
        lets = {name for name, _ in self.rewrite.let}
        for name in names.kinds:
            if name in names.read or name.endswith("_"):
                continue
            if name in lets:
                span = self.where(name, patterns)
                self.error(span, f"the let value '{name}' is never read", fix="drop it")
            elif not any(_has_use(name, pattern) for pattern in patterns):
                self.error(
                    self.where(name, patterns),
                    f"'{name}' is captured and never read",
                    fix=f"write _ for what does not matter, {name}_ where cases give it a value",
                )

    def check_shared(self, patterns: tuple[Pattern, ...]) -> None:
        made = {name for pattern in patterns for name in pattern.made_names()}
        for name in self.rewrite.shared:
            if name not in made:
                listed = ", ".join(sorted(made)) or "none"
                self.error(
                    self.rewrite.span,
                    f"shared names '{name}', which is no intermediate result",
                    [f"known are {listed}"],
                    fix="name the result in the pattern: product = MatMul(a, b)",
                )


def _has_use(name: str, pattern: Pattern) -> bool:
    """Whether the pattern itself needs the name: it stands there twice, or it is assigned."""
    if name in pattern.made_names() or name in pattern.aliases:
        return True
    if any(isinstance(a, Capture) and a.name == name for a in pattern.aliases.values()):
        return True
    found = [
        node
        for statement in pattern.body
        for node in ast.walk(statement)
        if isinstance(node, ast.Name) and node.id == name
    ]
    return len(found) > 1


def _cast_type(node: ast.AST | None) -> frozenset[int] | None:
    """The dtype of a Cast to one that is written out."""
    if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == "Cast":
        return next((written_dtype(w.value) for w in node.keywords if w.arg == "to"), None)
    return None


def _dtype_names(found: frozenset[int]) -> str:
    return " or ".join(sorted(dtypes.name(each) for each in found))

"""Checks the code of a rewrite for one alternative of its pattern, in which every name is known to
be there or to be None."""

from __future__ import annotations

import ast
from dataclasses import dataclass

from ortablegen.language import kinds, vocabulary
from ortablegen.language.check import CodeChecker
from ortablegen.language.kinds import Kind
from ortablegen.language.narrowing import Env, Value, narrowed
from ortablegen.language.parse import Code
from ortablegen.source.diagnostics import Diagnostics

from .model import Rewrite
from .names import Names, kinds_of
from .nodes import Pattern

_SYMBOLIC = {kinds.SYMINT: kinds.INT, kinds.SYMINTS: kinds.INTS}


@dataclass
class RewriteCode(CodeChecker):
    """Code of a rewrite: a ternary about None is decided, sizes may be symbolic."""

    def _ifexp(self, node: ast.IfExp, outputs: int | None) -> Value:
        holds = self.decided(node.test)
        if holds is None:
            return super()._ifexp(node, outputs)
        return self.value(node.body if holds else node.orelse, outputs)

    def decided(self, test: ast.expr) -> bool | None:
        """Whether ``x is None`` holds in this alternative; None when that is not known."""
        if not isinstance(test, ast.Compare) or not isinstance(test.left, ast.Name):
            return None
        against = test.comparators[0]
        operator = test.ops[0]
        known = self.env.get(test.left.id)
        if known is None or not isinstance(operator, ast.Is | ast.IsNot) or len(test.ops) != 1:
            return None
        if not isinstance(against, ast.Constant) or against.value is not None:
            return None
        if known.kind.base == kinds.NONE:
            return isinstance(operator, ast.Is)
        if known.kind.optional or known.kind.base == kinds.ANY:
            return None
        return isinstance(operator, ast.IsNot)

    def argument(
        self,
        node: ast.expr,
        value: Value,
        word: vocabulary.Word,
        parameter: vocabulary.Parameter,
    ) -> None:
        # the words of rewrites take sizes as the graph has them
        if word.module.startswith("ortable.passes.rewrite."):
            base = value.kind.base
            if _SYMBOLIC.get(base) == parameter.kind.base:
                value = Value(Kind(parameter.kind.base, value.kind.optional))
        super().argument(node, value, word, parameter)


class RewriteChecker:
    """Checks ``let``, ``when`` and ``replace`` of a rewrite for one alternative."""

    def __init__(
        self,
        rewrite: Rewrite,
        names: Names,
        opsets: tuple[int, int],
        diagnostics: Diagnostics,
    ) -> None:
        self.rewrite = rewrite
        self.names = names
        self.opsets = opsets
        self.diagnostics = diagnostics

    def checker(self, code: Code, env: Env, condition: bool) -> RewriteCode:
        return RewriteCode(
            code,
            dict(env),
            self.diagnostics,
            self.opsets,
            self.rewrite.target,
            condition,
            words=vocabulary.rewrite_words(),
            kept=frozenset(self.names.kept),
            unit="rewrite",
            giver="pattern",
        )

    def check(self, pattern: Pattern) -> list[tuple[ast.expr, Value]]:
        """The results of the replacement as expressions with their classes; empty after an
        error."""
        before = len(self.diagnostics.errors)
        env = self.environment(pattern)
        for name, code in self.rewrite.let:
            env[name] = self.checker(code, env, True).value(code.expression)
        when = self.rewrite.when
        if when is not None:
            checker = self.checker(when, env, True)
            checker.value(when.expression)
            if len(self.diagnostics.errors) == before:
                checker.test(when.expression)
            env = narrowed(env, when.expression, True)
        env["res"] = Value(Kind(kinds.RES))
        wanted = len(pattern.results)
        checker = self.checker(self.rewrite.replace, env, False)
        checker.block(("Tensor",) * wanted)
        last = self.rewrite.replace.body[-1]
        if len(self.diagnostics.errors) > before or not isinstance(last, ast.Return):
            return []
        assert last.value is not None
        value = checker.value(last.value, wanted)
        values = list(value.parts) if value.parts is not None else [value] * wanted
        shown = last.value.elts if isinstance(last.value, ast.Tuple) else [last.value] * wanted
        return list(zip(shown, values, strict=True)) if len(shown) == len(values) else []

    def environment(self, pattern: Pattern) -> Env:
        here = kinds_of(pattern)
        lets = {name for name, _ in self.rewrite.let}
        return {
            name: Value(here.get(name, Kind(kinds.NONE, True)))
            for name in self.names.kinds
            if name not in lets or name in here
        }

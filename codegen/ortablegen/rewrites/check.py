"""Checks rewrites: names, what conditions and replacements read, results, order, cases, loops."""

from __future__ import annotations

import ast
import itertools
import re
from dataclasses import dataclass

from ortable import dtypes
from ortablegen.language import kinds, vocabulary
from ortablegen.language.check import CodeChecker
from ortablegen.language.kinds import Kind
from ortablegen.language.narrowing import Env, Value, narrowed
from ortablegen.language.onnx_calls import OnnxCall, check_onnx_call
from ortablegen.language.parse import Code, is_call, names_in, onnx_call
from ortablegen.language.precision import Limits, NumberTable
from ortablegen.schemas.onnx import DOMAIN_RANGE, operators, versions_between
from ortablegen.source.diagnostics import Diagnostics, Span

from .cases import check_cases
from .cycles import check_cycles
from .model import Rewrite
from .names import Names, kinds_of, names_of, opset_range, schemas_of, written_dtype
from .pattern import (
    Absent,
    AttributeLiteral,
    Capture,
    Made,
    Pattern,
    PatternNode,
    PatternProblem,
    read_patterns,
    unreachable,
)
from .read import CASE_KEYS


def check_nodes(
    code: Code, patterns: tuple[Pattern, ...], opsets: tuple[int, int], diagnostics: Diagnostics
) -> list[list[Value]]:
    """Report what no graph can have; returns the classes of the results of every alternative."""
    return [_NodeChecker(code, opsets, diagnostics).results(pattern) for pattern in patterns]


class _NodeChecker:
    def __init__(self, code: Code, opsets: tuple[int, int], diagnostics: Diagnostics) -> None:
        self.code = code
        self.opsets = opsets
        self.diagnostics = diagnostics
        self.values: dict[int, Value] = {}
        self.literals = CodeChecker(code, {}, diagnostics, opsets)

    def results(self, pattern: Pattern) -> list[Value]:
        for node in pattern.nodes:
            self.values[id(node)] = self.node(node)
        return [self.result(made) for made in pattern.results]

    def result(self, made: Made) -> Value:
        value = self.values[id(made.node)]
        if value.parts is None:
            return value if made.place == 0 else Value(Kind(kinds.RESULT))
        return value.parts[made.place]

    def node(self, node: PatternNode) -> Value:
        inputs = []
        for place, _ in enumerate(node.call.args):
            if place >= len(node.arguments):
                is_rest = node.rest is not None
                inputs.append(Value(Kind(kinds.RESULTS if is_rest else kinds.NONE, not is_rest)))
                continue
            argument = node.arguments[place]
            if isinstance(argument, Made):
                inputs.append(self.result(argument))
            elif isinstance(argument, Absent):
                inputs.append(Value(Kind(kinds.NONE, True)))
            else:
                optional = isinstance(argument, Capture) and argument.optional
                inputs.append(Value(Kind(kinds.RESULT, optional)))
        attributes = {
            name: self.literals.value(wanted.expression)
            if isinstance(wanted, AttributeLiteral)
            else Value(Kind(kinds.ANY))
            for name, wanted in node.attributes.items()
        }
        call = OnnxCall(
            _without_kept(node.call) if node.kept is not None else node.call,
            inputs,
            attributes,
            len(node.outputs),
            self.range_of(node),
            "onnxruntime",
            node.kept is not None,
            "rewrite",
        )
        value = check_onnx_call(call, self.literals.error)
        told = _dtype_of_cast(node)
        return Value(value.kind, told) if told is not None else value

    def range_of(self, node: PatternNode) -> tuple[int, int]:
        """The opsets of the rule in which the operator exists: elsewhere nothing matches."""
        low, high = self.opsets
        if node.domain == "" and node.op in operators():
            low = max(low, versions_between(node.op)[0].since)
        return min(low, high), high


def _without_kept(call: ast.Call) -> ast.Call:
    keywords = [word for word in call.keywords if word.arg != "attrs"]
    return ast.copy_location(ast.Call(call.func, call.args, keywords), call)


def _dtype_of_cast(node: PatternNode) -> frozenset[int] | None:
    wanted = node.attributes.get("to") if node.key == "Cast" else None
    return written_dtype(wanted.expression) if isinstance(wanted, AttributeLiteral) else None


def check_kept(
    rewrite: Rewrite,
    patterns: tuple[Pattern, ...],
    opsets: tuple[int, int],
    diagnostics: Diagnostics,
) -> None:
    """What ``attrs=kept`` passes on is known to the operator that gets it, and given once."""
    code = rewrite.replace
    for call in (n for statement in code.body for n in ast.walk(statement)):
        found = onnx_call(call)
        if found is None or not isinstance(call, ast.Call) or found[1] not in operators(found[0]):
            continue
        given = {word.arg: word for word in call.keywords if word.arg is not None}
        spread = given.pop("attrs", None)
        if spread is None or not isinstance(spread.value, ast.Name):
            continue
        taken = {a.name for s in versions_between(found[1], found[0]) for a in s.attributes}
        for node in (n for p in patterns for n in p.nodes if n.kept == spread.value.id):
            held = {a.name for s in schemas_of(node, opsets) for a in s.attributes}
            for name in sorted(held - set(node.attributes)):
                if name in given:
                    diagnostics.error(
                        code.at(given[name]),
                        f"'{spread.value.id}' may hold '{name}' too",
                        fix=f"mention it in the pattern: {node.op}(..., {name}=_)",
                    )
                elif name not in taken:
                    diagnostics.error(
                        code.at(spread),
                        f"'{spread.value.id}' may hold '{name}', which {found[1]} does not have",
                        fix=f"mention it in the pattern: {node.op}(..., {name}=...)",
                    )


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
        numbers: NumberTable | None = None,
    ) -> None:
        self.rewrite = rewrite
        self.names = names
        self.opsets = opsets
        self.diagnostics = diagnostics
        self.limits = Limits(numbers, dict(rewrite.precision)) if numbers is not None else None

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
            limits=self.limits,
        )

    def check(self, pattern: Pattern) -> list[tuple[ast.expr, Value]]:
        """The results of the replacement as expressions with their classes; empty after an
        error."""
        before = len(self.diagnostics.errors)
        if self.limits is not None:
            self.limits.inherited = frozenset(node.op for node in pattern.nodes)
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
            # a captured attribute is a number that float32 has
            name: Value(kind := here.get(name, Kind(kinds.NONE, True)), held=kind.base in _FLOATS)
            for name in self.names.kinds
            if name not in lets or name in here
        }


_FLOATS = (kinds.FLOAT, kinds.FLOATS)

# what generated code and cases call by these names
RESERVED = {"graph", "res", "len", "list", "dict", *CASE_KEYS}


def check_rewrites(
    rewrites: tuple[Rewrite, ...], diagnostics: Diagnostics, numbers: NumberTable | None = None
) -> None:
    """Report everything wrong with ``rewrites``; ``numbers`` is how exactly kernels compute (None:
    replacements are not compared with it)."""
    _check_order(rewrites, diagnostics)
    before = len(diagnostics.errors)
    for rewrite in rewrites:
        _Checker(rewrite, diagnostics, numbers).check()
    if len(diagnostics.errors) == before:
        check_cycles(rewrites, diagnostics)


def _check_order(rewrites: tuple[Rewrite, ...], diagnostics: Diagnostics) -> None:
    diagnostics.check_unique((each.name, each.span) for each in rewrites)
    for _, group in itertools.groupby(rewrites, key=lambda each: each.file):
        diagnostics.check_sorted((each.name, each.span) for each in group)


class _Checker:
    """Checks one rewrite."""

    def __init__(
        self, rewrite: Rewrite, diagnostics: Diagnostics, numbers: NumberTable | None
    ) -> None:
        self.numbers = numbers
        self.rewrite = rewrite
        self.diagnostics = diagnostics
        self.error = diagnostics.error
        low, high = DOMAIN_RANGE[""]
        first, last = opset_range(rewrite)
        self.opsets = max(low, first), min(high, last)

    def check(self) -> None:
        patterns = self.patterns()
        before = len(self.diagnostics.errors)
        if self.opsets[0] > self.opsets[1]:
            first, last = DOMAIN_RANGE[""]
            notes = [f"supported are {first} to {last}"]
            self.error(self.rewrite.span, f"no supported opset is {self.rewrite.opset}", notes)
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
            found = read_patterns(code, self.rewrite.traits["commutative"])
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
            if name in words or not re.match("[a-z_]", name):
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
        found = [each for each in names_in(*self.rewrite.pattern.body) if each.id == name]
        if found:
            first = min(found, key=lambda each: (each.lineno, each.col_offset))
            return self.rewrite.pattern.at(first)
        return next((code.span for each, code in self.rewrite.let if each == name),
                    self.rewrite.span)  # fmt: skip

    # -- code -----------------------------------------------------------------------------------

    def check_code(
        self, patterns: tuple[Pattern, ...], names: Names, types: list[list[Value]]
    ) -> None:
        checker = RewriteChecker(self.rewrite, names, self.opsets, self.diagnostics, self.numbers)
        for pattern, before in zip(patterns, types, strict=True):
            for was, (node, value) in zip(before, checker.check(pattern), strict=False):
                self.check_type(node, was.dtypes, _cast_type(node) or value.dtypes)
        for name, declared in checker.limits.unused() if checker.limits is not None else ():
            self.error(declared.span, f"precision: nothing here needs '{name}'", fix="drop it")

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
                    f"allow_external_uses names '{name}', which is no intermediate result",
                    [f"known are {listed}"],
                    fix="name the result in the pattern: product = MatMul(a, b)",
                )


def _has_use(name: str, pattern: Pattern) -> bool:
    """Whether the pattern itself needs the name: it stands there twice, or it is assigned."""
    if name in pattern.made_names() or name in pattern.aliases:
        return True
    if any(isinstance(a, Capture) and a.name == name for a in pattern.aliases.values()):
        return True
    return [each.id for each in names_in(*pattern.body)].count(name) > 1


def _cast_type(node: ast.AST | None) -> frozenset[int] | None:
    """The dtype of a Cast to one that is written out."""
    if is_call(node, "Cast"):
        return next((written_dtype(w.value) for w in node.keywords if w.arg == "to"), None)
    return None


def _dtype_names(found: frozenset[int]) -> str:
    return " or ".join(sorted(dtypes.name(each) for each in found))

"""Check rewrites: names, conditions, replacements, results, order, samples, cycles."""

from __future__ import annotations

import ast
import itertools
import re
from dataclasses import dataclass

from ortable import dtypes
from ortablegen.language import kinds, vocabulary
from ortablegen.language.check import CodeChecker
from ortablegen.language.kinds import Kind
from ortablegen.language.narrowing import Env, Value, narrow_env
from ortablegen.language.onnx_calls import OnnxCall, check_onnx_call
from ortablegen.language.parse import Code, is_call, names_in, onnx_call
from ortablegen.language.precision import Limits, NumberTable
from ortablegen.schemas.onnx import DOMAIN_RANGE, operators, versions_between
from ortablegen.source.diagnostics import Diagnostics, Span

from .cycles import check_cycles
from .model import Rewrite
from .names import Names, kinds_of, literal_dtype, names_of, opset_range, schemas_of
from .pattern import (
    Absent,
    AttributeLiteral,
    Capture,
    NodeOutput,
    Pattern,
    PatternNode,
    PatternProblem,
    find_unreachable,
    read_patterns,
)
from .read import SAMPLE_KEYS
from .samples import check_samples


def check_nodes(
    code: Code, patterns: tuple[Pattern, ...], opsets: tuple[int, int], diagnostics: Diagnostics
) -> list[list[Value]]:
    """Report pattern nodes that no model can contain; return each alternative's result values."""
    return [_NodeChecker(code, opsets, diagnostics).check_pattern(pattern) for pattern in patterns]


class _NodeChecker:
    def __init__(self, code: Code, opsets: tuple[int, int], diagnostics: Diagnostics) -> None:
        self.code = code
        self.opsets = opsets
        self.diagnostics = diagnostics
        self.values: dict[int, Value] = {}
        self.literals = CodeChecker(code, {}, diagnostics, opsets)

    def check_pattern(self, pattern: Pattern) -> list[Value]:
        for node in pattern.nodes:
            self.values[id(node)] = self.check_node(node)
        return [self.output_value(output) for output in pattern.results]

    def output_value(self, output: NodeOutput) -> Value:
        value = self.values[id(output.node)]
        if value.parts is None:
            return value if output.index == 0 else Value(Kind(kinds.RESULT))
        return value.parts[output.index]

    def check_node(self, node: PatternNode) -> Value:
        inputs = []
        for index, _ in enumerate(node.call.args):
            if index >= len(node.arguments):
                is_rest = node.rest is not None
                inputs.append(Value(Kind(kinds.RESULTS if is_rest else kinds.NONE, not is_rest)))
                continue
            argument = node.arguments[index]
            if isinstance(argument, NodeOutput):
                inputs.append(self.output_value(argument))
            elif isinstance(argument, Absent):
                inputs.append(Value(Kind(kinds.NONE, True)))
            else:
                optional = isinstance(argument, Capture) and argument.optional
                inputs.append(Value(Kind(kinds.RESULT, optional)))
        attributes = {
            name: self.literals.infer_value(constraint.expression)
            if isinstance(constraint, AttributeLiteral)
            else Value(Kind(kinds.ANY))
            for name, constraint in node.attributes.items()
        }
        call = OnnxCall(
            _without_attrs(node.call) if node.attrs_name is not None else node.call,
            inputs,
            attributes,
            len(node.outputs),
            self.opsets_of(node),
            "onnxruntime",
            node.attrs_name is not None,
            "rewrite",
        )
        value = check_onnx_call(call, self.literals.error)
        cast_dtypes = _dtype_of_cast(node)
        return Value(value.kind, cast_dtypes) if cast_dtypes is not None else value

    def opsets_of(self, node: PatternNode) -> tuple[int, int]:
        """Return the opsets of the rule in which the operator exists."""
        low, high = self.opsets
        if node.domain == "" and node.op in operators():
            low = max(low, versions_between(node.op)[0].since)
        return min(low, high), high


def _without_attrs(call: ast.Call) -> ast.Call:
    keywords = [keyword for keyword in call.keywords if keyword.arg != "attrs"]
    return ast.copy_location(ast.Call(call.func, call.args, keywords), call)


def _dtype_of_cast(node: PatternNode) -> frozenset[int] | None:
    target = node.attributes.get("to") if node.key == "Cast" else None
    return literal_dtype(target.expression) if isinstance(target, AttributeLiteral) else None


def check_passed_attrs(
    rewrite: Rewrite,
    patterns: tuple[Pattern, ...],
    opsets: tuple[int, int],
    diagnostics: Diagnostics,
) -> None:
    """Check that the operator with ``attrs=kept`` accepts the attributes of the captured node."""
    code = rewrite.replace
    for call in (n for statement in code.body for n in ast.walk(statement)):
        callee = onnx_call(call)
        if (
            callee is None
            or not isinstance(call, ast.Call)
            or callee[1] not in operators(callee[0])
        ):
            continue
        keywords = {k.arg: k for k in call.keywords if k.arg is not None}
        spread = keywords.pop("attrs", None)
        if spread is None or not isinstance(spread.value, ast.Name):
            continue
        accepted = {a.name for s in versions_between(callee[1], callee[0]) for a in s.attributes}
        for node in (n for p in patterns for n in p.nodes if n.attrs_name == spread.value.id):
            source_attrs = {a.name for s in schemas_of(node, opsets) for a in s.attributes}
            for name in sorted(source_attrs - set(node.attributes)):
                if name in keywords:
                    diagnostics.error(
                        code.at(keywords[name]),
                        f"'{spread.value.id}' may also contain '{name}'",
                        fix=f"mention it in the pattern: {node.op}(..., {name}=_)",
                    )
                elif name not in accepted:
                    diagnostics.error(
                        code.at(spread),
                        f"'{spread.value.id}' may contain '{name}', which {callee[1]} lacks",
                        fix=f"mention it in the pattern: {node.op}(..., {name}=...)",
                    )


_SYMBOLIC = {kinds.SYMINT: kinds.INT, kinds.SYMINTS: kinds.INTS}


@dataclass
class RewriteCode(CodeChecker):
    """Checks code of a rewrite: ternaries on None are decided, sizes may be symbolic."""

    def _check_ifexp(self, node: ast.IfExp, outputs: int | None) -> Value:
        holds = self.decide_none_test(node.test)
        if holds is None:
            return super()._check_ifexp(node, outputs)
        return self.infer_value(node.body if holds else node.orelse, outputs)

    def decide_none_test(self, test: ast.expr) -> bool | None:
        """Decide a test for None in this alternative; return None if it cannot be decided."""
        if not isinstance(test, ast.Compare) or not isinstance(test.left, ast.Name):
            return None
        compared = test.comparators[0]
        operator = test.ops[0]
        operand = self.env.get(test.left.id)
        if operand is None or not isinstance(operator, ast.Is | ast.IsNot) or len(test.ops) != 1:
            return None
        if not isinstance(compared, ast.Constant) or compared.value is not None:
            return None
        if operand.kind.base == kinds.NONE:
            return isinstance(operator, ast.Is)
        if operand.kind.optional or operand.kind.base == kinds.ANY:
            return None
        return isinstance(operator, ast.IsNot)

    def check_argument(
        self,
        node: ast.expr,
        value: Value,
        helper: vocabulary.HelperFunction,
        parameter: vocabulary.Parameter,
    ) -> None:
        """Check that a helper's parameter accepts a value."""
        # functions of rewrites also accept symbolic sizes
        if helper.module.startswith("ortable.passes.rewrite."):
            base = value.kind.base
            if _SYMBOLIC.get(base) == parameter.kind.base:
                value = Value(Kind(parameter.kind.base, value.kind.optional))
        super().check_argument(node, value, helper, parameter)


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

    def make_checker(self, code: Code, env: Env, condition: bool) -> RewriteCode:
        """Make a checker of one piece of code."""
        return RewriteCode(
            code,
            dict(env),
            self.diagnostics,
            self.opsets,
            self.rewrite.target,
            condition,
            helpers=vocabulary.rewrite_helpers(),
            attr_dicts=frozenset(self.names.attr_dicts),
            container_name="rewrite",
            signature_owner="pattern",
            limits=self.limits,
        )

    def check(self, pattern: Pattern) -> list[tuple[ast.expr, Value]]:
        """Check the code; return result expressions with their values, none after an error."""
        error_count = len(self.diagnostics.errors)
        if self.limits is not None:
            self.limits.inherited = frozenset(node.op for node in pattern.nodes)
        env = self.make_env(pattern)
        for name, code in self.rewrite.let:
            env[name] = self.make_checker(code, env, True).infer_value(code.expression)
        when = self.rewrite.when
        if when is not None:
            checker = self.make_checker(when, env, True)
            checker.infer_value(when.expression)
            if len(self.diagnostics.errors) == error_count:
                checker.check_condition(when.expression)
            env = narrow_env(env, when.expression, True)
        env["res"] = Value(Kind(kinds.RES))
        result_count = len(pattern.results)
        checker = self.make_checker(self.rewrite.replace, env, False)
        checker.check_block(("Tensor",) * result_count)
        return_statement = self.rewrite.replace.body[-1]
        if len(self.diagnostics.errors) > error_count or not isinstance(
            return_statement, ast.Return
        ):
            return []
        assert return_statement.value is not None
        value = checker.infer_value(return_statement.value, result_count)
        values = list(value.parts) if value.parts is not None else [value] * result_count
        result_nodes = (
            return_statement.value.elts
            if isinstance(return_statement.value, ast.Tuple)
            else [return_statement.value] * result_count
        )
        return (
            list(zip(result_nodes, values, strict=True)) if len(result_nodes) == len(values) else []
        )

    def make_env(self, pattern: Pattern) -> Env:
        """Return the values of the rewrite's names in this alternative."""
        pattern_kinds = kinds_of(pattern)
        lets = {name for name, _ in self.rewrite.let}
        return {
            # a captured float attribute is a float32 number
            name: Value(
                kind := pattern_kinds.get(name, Kind(kinds.NONE, True)),
                fits_float32=kind.base in _FLOATS,
            )
            for name in self.names.kinds
            if name not in lets or name in pattern_kinds
        }


_FLOATS = (kinds.FLOAT, kinds.FLOATS)

# names that captures cannot have: they have a meaning in generated code or samples
RESERVED = {"graph", "res", "len", "list", "dict", *SAMPLE_KEYS}


def check_rewrites(
    rewrites: tuple[Rewrite, ...], diagnostics: Diagnostics, numbers: NumberTable | None = None
) -> None:
    """Report all errors of ``rewrites``.

    Args:
        rewrites: the rewrites to check.
        diagnostics: collects the errors.
        numbers: the measured accuracy of kernels; None skips this check.
    """
    _check_order(rewrites, diagnostics)
    error_count = len(diagnostics.errors)
    for rewrite in rewrites:
        _Checker(rewrite, diagnostics, numbers).check()
    if len(diagnostics.errors) == error_count:
        check_cycles(rewrites, diagnostics)


def _check_order(rewrites: tuple[Rewrite, ...], diagnostics: Diagnostics) -> None:
    diagnostics.check_unique((rewrite.name, rewrite.span) for rewrite in rewrites)
    for _, group in itertools.groupby(rewrites, key=lambda rewrite: rewrite.file):
        diagnostics.check_sorted((rewrite.name, rewrite.span) for rewrite in group)


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
        first_opset, last_opset = opset_range(rewrite)
        self.opsets = max(low, first_opset), min(high, last_opset)

    def check(self) -> None:
        patterns = self.parse_patterns()
        error_count = len(self.diagnostics.errors)
        if self.opsets[0] > self.opsets[1]:
            lowest, highest = DOMAIN_RANGE[""]
            notes = [f"supported are {lowest} to {highest}"]
            self.error(self.rewrite.span, f"no supported opset is {self.rewrite.opset}", notes)
        if not patterns or self.opsets[0] > self.opsets[1]:
            return
        names = names_of(self.rewrite, patterns)
        self.check_names(patterns, names)
        if len(self.diagnostics.errors) > error_count:
            return
        values_by_pattern = check_nodes(
            self.rewrite.pattern, patterns, self.opsets, self.diagnostics
        )
        check_passed_attrs(self.rewrite, patterns, self.opsets, self.diagnostics)
        self.check_code(patterns, names, values_by_pattern)
        if len(self.diagnostics.errors) == error_count:
            # after another error some names may not have been read
            self.check_names_read(patterns, names)
        self.check_external_uses(patterns)
        check_samples(self.rewrite, patterns, names, self.diagnostics)

    def parse_patterns(self) -> tuple[Pattern, ...]:
        code = self.rewrite.pattern
        try:
            patterns = read_patterns(code, self.rewrite.traits["commutative"])
            for pattern in patterns:
                unreached = find_unreachable(pattern)
                if unreached is not None:
                    raise PatternProblem(
                        unreached.call,
                        f"{unreached.key} cannot be reached from {pattern.root_nodes()[0].key}, the"
                        " first result: they share no input",
                        "connect the nodes of the pattern by a shared result",
                    )
        except PatternProblem as problem:
            self.error(code.at(problem.node), str(problem), fix=problem.fix)
            return ()
        return patterns

    def check_names(self, patterns: tuple[Pattern, ...], names: Names) -> None:
        reserved = {*RESERVED, *vocabulary.DTYPES, *vocabulary.CONSTANTS}
        for name in names.kinds:
            if name in reserved or not re.match("[a-z_]", name):
                problem = (
                    "is a name of the language" if name in reserved else "is not in lower case"
                )
                self.error(
                    self.find_span(name, patterns), 
                    f"'{name}' {problem}, so it cannot name a capture",
                    fix="choose a name",
                )  # fmt: skip
        for name, code in self.rewrite.let:
            if any(name in kinds_of(pattern) for pattern in patterns):
                self.error(code.span, f"the pattern already uses the name '{name}'")

    def find_span(self, name: str, patterns: tuple[Pattern, ...]) -> Span:
        """Return the first position of a name in the pattern, or of its ``let``."""
        references = [
            reference for reference in names_in(*self.rewrite.pattern.body) if reference.id == name
        ]
        if references:
            first_reference = min(references, key=lambda node: (node.lineno, node.col_offset))
            return self.rewrite.pattern.at(first_reference)
        return next((code.span for let, code in self.rewrite.let if let == name),
                    self.rewrite.span)  # fmt: skip

    # -- code -----------------------------------------------------------------------------------

    def check_code(
        self, patterns: tuple[Pattern, ...], names: Names, values_by_pattern: list[list[Value]]
    ) -> None:
        checker = RewriteChecker(self.rewrite, names, self.opsets, self.diagnostics, self.numbers)
        for pattern, pattern_values in zip(patterns, values_by_pattern, strict=True):
            for pattern_value, (node, value) in zip(
                pattern_values, checker.check(pattern), strict=False
            ):
                self.check_result_dtype(
                    node, pattern_value.dtypes, _dtype_of_cast_call(node) or value.dtypes
                )
        for name, declared in checker.limits.list_unused() if checker.limits is not None else ():
            self.error(declared.span, f"precision: no call needs '{name}'", fix="remove it")

    def check_result_dtype(
        self, node: ast.expr, before: frozenset[int] | None, after: frozenset[int] | None
    ) -> None:
        """Check that the replacement keeps the dtype of a result, if both are known."""
        if before and after and not before & after:
            self.error(
                self.rewrite.replace.at(node),
                f"a result of the pattern is {_dtype_names(before)}, but its replacement is"
                f" {_dtype_names(after)}",
                ["a rewrite must not change the dtype of a result"],
                fix="cast it: cast(y, dtype_of(res))",
            )

    # -- unread names ---------------------------------------------------------------------------

    def check_names_read(self, patterns: tuple[Pattern, ...], names: Names) -> None:
        lets = {name for name, _ in self.rewrite.let}
        for name in names.kinds:
            if name in names.read or name.endswith("_"):
                continue
            if name in lets:
                span = self.find_span(name, patterns)
                self.error(span, f"the let value '{name}' is never read", fix="drop it")
            elif not any(_has_use(name, pattern) for pattern in patterns):
                self.error(
                    self.find_span(name, patterns),
                    f"'{name}' is captured and never read",
                    fix=f"write _, or {name}_ if samples give it a value",
                )

    def check_external_uses(self, patterns: tuple[Pattern, ...]) -> None:
        intermediates = {name for pattern in patterns for name in pattern.output_names()}
        for name in self.rewrite.allow_external_uses:
            if name not in intermediates:
                listed = ", ".join(sorted(intermediates)) or "none"
                self.error(
                    self.rewrite.span,
                    f"allow_external_uses: '{name}' is not an intermediate result",
                    [f"known are {listed}"],
                    fix="name the result in the pattern: product = MatMul(a, b)",
                )


def _has_use(name: str, pattern: Pattern) -> bool:
    """Whether the pattern itself uses the name: the name occurs twice, or is assigned."""
    if name in pattern.output_names() or name in pattern.aliases:
        return True
    if any(isinstance(a, Capture) and a.name == name for a in pattern.aliases.values()):
        return True
    return [reference.id for reference in names_in(*pattern.body)].count(name) > 1


def _dtype_of_cast_call(node: ast.AST | None) -> frozenset[int] | None:
    """Return the dtype of a Cast to a literal dtype, or None."""
    if is_call(node, "Cast"):
        return next((literal_dtype(w.value) for w in node.keywords if w.arg == "to"), None)
    return None


def _dtype_names(members: frozenset[int]) -> str:
    return " or ".join(sorted(dtypes.name(dtype) for dtype in members))

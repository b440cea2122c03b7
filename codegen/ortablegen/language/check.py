"""Check code of the spec language: names, functions, ONNX calls at every opset, kinds, dtypes."""

from __future__ import annotations

import ast
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from ortable import dtypes
from ortablegen.source.diagnostics import Diagnostics, did_you_mean

from . import kinds, narrowing, vocabulary
from .kinds import ANY, BOOL, FLOAT, INT, NONE, RES, RESULT, RESULTS, Kind, can_pass, join_kinds
from .members import helper_dtypes
from .narrowing import Env, Value
from .onnx_calls import OnnxCall, check_onnx_call
from .parse import Code, called_name, names_in, onnx_call
from .precision import Limits, float32_holds
from .vocabulary import HelperFunction

_LITERALS = {
    bool: BOOL,
    int: INT,
    float: FLOAT,
    str: kinds.STR,
    complex: kinds.SCALAR,
    type(None): NONE,
}
# functions that test the dtype of a result -> the same test of a dtype
_DTYPE_TESTS = {
    "is_bool": "== boolean",
    "is_complex": "in (complex64, complex128)",
    "is_float": "in (float16, bfloat16, float32, float64)",
    "is_int": "in (int8, int16, int32, int64, uint8, uint16, uint32, uint64)",
    "is_wide": "in (float32, float64)",
}


@dataclass
class CodeChecker:
    """Walks one :class:`Code`, collects the names that it reads, and reports errors.

    ``opsets`` is the range in which the code may run, ``target`` the target of its case. While
    ``condition`` is set, the code must not make nodes. ``linked`` are the promoted arguments.
    Rewrites have more ``helpers`` (functions), and ``attr_dicts`` (names bound to all attributes of
    a node). Errors call the case ``container_name`` and the schema ``signature_owner``. ``limits``
    are the inexact kernels, None if they are not checked. The walk fills ``read`` (names), and
    ``symbolic_tests`` with comparisons of values that may be dynamic sizes.
    """

    code: Code
    env: Env
    diagnostics: Diagnostics
    opsets: tuple[int, int]
    target: str | None = None
    condition: bool = False
    linked: tuple[str, ...] = ()
    helpers: Mapping[str, HelperFunction] = field(default_factory=vocabulary.load_prelude)
    attr_dicts: frozenset[str] = frozenset()
    container_name: str = "case"
    signature_owner: str = "schema"
    limits: Limits | None = None
    read: set[str] = field(default_factory=set)
    symbolic_tests: list[ast.expr] = field(default_factory=list)

    def error(
        self, node: ast.AST, message: str, notes: Iterable[str] = (), fix: str | None = None
    ) -> Value:
        """Report an error at ``node``; return an unknown value."""
        self.diagnostics.error(self.code.at(node), message, notes, fix)
        return Value(Kind(ANY))

    # -- statements -----------------------------------------------------------------------------

    def check_block(self, returns: tuple[str, ...]) -> None:
        """Check the assignments of a block, and its return against the schema's result types."""
        for statement in self.code.body:
            if isinstance(statement, ast.Assign):
                self.check_assignment(statement)
            elif isinstance(statement, ast.Return) and statement.value is not None:
                self.check_return(statement.value, returns)
        self.check_unused()

    def check_unused(self) -> None:
        """Report assignments that are never read; one read name of a tuple is enough."""
        names_read = {n.id for n in names_in(*self.code.body) if isinstance(n.ctx, ast.Load)}
        for statement in self.code.body:
            if not isinstance(statement, ast.Assign):
                continue
            targets = [name.id for name in names_in(statement.targets[0])]
            if names_read.isdisjoint(targets):
                names = " and ".join(f"'{name}'" for name in targets)
                self.error(statement, f"{names} is never read", fix="delete the line")

    def check_assignment(self, statement: ast.Assign) -> None:
        """Check an assignment, and bind its targets."""
        target = statement.targets[0]
        if isinstance(target, ast.Name):
            self.bind_name(target, self.infer_value(statement.value, 1))
            return
        assert isinstance(target, ast.Tuple)
        value = self.infer_value(statement.value, len(target.elts))
        element = kinds.ELEMENT.get(value.kind.base, ANY)
        parts = value.parts or tuple(Value(Kind(element)) for _ in target.elts)
        if len(parts) != len(target.elts):
            self.error(
                statement, f"{len(target.elts)} names on the left, {len(parts)} values on the right"
            )
            parts = tuple(Value(Kind(ANY)) for _ in target.elts)
        for name, part in zip(target.elts, parts, strict=True):
            self.bind_name(name, part)

    def bind_name(self, target: ast.expr, value: Value) -> None:
        """Bind a name to a value; report a name that the language uses itself."""
        assert isinstance(target, ast.Name)
        if (
            target.id in vocabulary.load_prelude()
            or target.id in vocabulary.DTYPES
            or target.id in ("res", "graph")
        ):
            self.error(
                target,
                f"'{target.id}' is a function of the language and cannot be assigned",
                fix="choose a name",
            )
        self.env[target.id] = value

    def check_return(self, node: ast.expr, returns: tuple[str, ...]) -> None:
        """Check a returned value against the schema's result types."""
        expected_count = len(returns)
        if expected_count == 1 and returns[0].endswith("[]"):
            value = self.infer_value(node, None)
            lists = (RESULTS, ANY, kinds.SYMINTS, kinds.COMPLEXES)
            if value.parts is None and value.kind.base not in lists:
                self.error(node, f"the schema returns a list, this is a {value.kind}")
            return
        value = self.infer_value(node, expected_count)
        count = len(value.parts) if value.parts is not None else 1
        if expected_count == 0:
            if value.kind.base != NONE:
                self.error(node, f"the {self.signature_owner} returns nothing", fix="return None")
        elif count != expected_count and not (
            value.parts is None and value.kind.base in (RESULTS, ANY)
        ):
            self.error(
                node,
                f"the {self.signature_owner} returns {expected_count} "
                f"result{'s' * (expected_count > 1)},"
                f" this returns {count}",
            )
        for part in value.parts or (value,):
            if part.kind.base in (kinds.INTS, kinds.FLOATS, kinds.STR, kinds.DTYPE):
                self.error(node, f"a result of the graph is expected, this is a {part.kind}")

    # -- expressions ----------------------------------------------------------------------------

    def infer_value(self, node: ast.expr, outputs: int | None = 1) -> Value:
        """Infer the kind of an expression that needs ``outputs`` results, or a list (None)."""
        method = getattr(self, f"_check_{type(node).__name__.lower()}", None)
        if method is None:
            return Value(Kind(ANY))
        if isinstance(node, ast.Call | ast.IfExp):
            return method(node, outputs)
        return method(node)

    def _check_name(self, node: ast.Name) -> Value:
        if node.id in self.env:
            self.read.add(node.id)
            return self.env[node.id]
        if node.id in vocabulary.DTYPES:
            return Value(Kind(kinds.DTYPE), frozenset({getattr(dtypes, node.id)}))
        if node.id in vocabulary.CONSTANTS:
            return Value(Kind(FLOAT))
        candidates = [*self.env, *vocabulary.DTYPES, *vocabulary.CONSTANTS]
        hint = did_you_mean(node.id, candidates)
        if node.id in self.helpers:
            hint = f"; '{node.id}' is a function of the prelude and must be called"
        return self.error(
            node,
            f"unknown name '{node.id}'{hint}",
            [f"names in scope are {', '.join(sorted(self.env))}"],
        )

    def _check_constant(self, node: ast.Constant) -> Value:
        fits_float32 = isinstance(node.value, float | int) and float32_holds(node.value)
        return Value(
            Kind(_LITERALS.get(type(node.value), ANY), node.value is None),
            fits_float32=fits_float32,
        )

    def _check_call(self, node: ast.Call, outputs: int | None) -> Value:
        if onnx_call(node) is not None:
            return self.check_onnx(node, outputs)
        name = called_name(node)
        if name in self.env:
            return self.error(node, f"'{name}' is a value and cannot be called")
        if name in self.helpers:
            return self.check_helper(node, self.helpers[name])
        if name in vocabulary.BUILTINS:
            return self.check_builtin(node, name)
        candidates = [*self.helpers, *vocabulary.BUILTINS]
        hint = did_you_mean(name, candidates)
        return self.error(
            node,
            f"unknown function '{name}'{hint}",
            ["CapWords are ONNX operators, lower-case names are prelude functions"],
        )

    def check_onnx(self, node: ast.Call, outputs: int | None) -> Value:
        """Check a node call, and infer its results."""
        if self.condition:
            self.error(
                node,
                "a result of the graph in a condition",
                ["conditions are evaluated during conversion, before any number is known"],
                fix="use Where(...) in the block, or test dtypes, ranks, None, ints",
            )
        inputs = [
            self.infer_value(argument.value if isinstance(argument, ast.Starred) else argument)
            for argument in node.args
        ]
        attributes = {
            keyword.arg: self.infer_value(keyword.value)
            for keyword in node.keywords
            if keyword.arg is not None
        }
        attrs = next((keyword.value for keyword in node.keywords if keyword.arg == "attrs"), None)
        passes_attrs = isinstance(attrs, ast.Name) and attrs.id in self.attr_dicts
        if passes_attrs:
            del attributes["attrs"]
        call = OnnxCall(
            node, inputs, attributes, outputs, self.opsets, self.target, passes_attrs,
            self.container_name, self.limits,
        )  # fmt: skip
        return check_onnx_call(call, self.error)

    def check_helper(self, node: ast.Call, helper: HelperFunction) -> Value:
        """Check a call of a helper function, and infer its result."""
        if self.condition and helper.makes_nodes:
            self.error(
                node, f"'{helper.name}' adds nodes to the graph and cannot be used in a condition"
            )
        positional = [p for p in helper.parameters if not p.variadic]
        variadic = next((p for p in helper.parameters if p.variadic), None)
        values: list[Value] = []
        named_values: dict[str, Value] = {}
        has_star = any(isinstance(argument, ast.Starred) for argument in node.args)
        for position, argument in enumerate(node.args):
            value = self.infer_value(
                argument.value if isinstance(argument, ast.Starred) else argument
            )
            values.append(value)
            parameter = positional[position] if position < len(positional) else variadic
            if parameter is None:
                self.error(
                    argument,
                    f"'{helper.name}' takes at most {len(positional)} arguments",
                    [helper.signature()],
                )
            elif not has_star:
                self.check_argument(argument, value, helper, parameter)
        by_name = {p.name: p for p in positional}
        for keyword in node.keywords:
            value = self.infer_value(keyword.value)
            if keyword.arg not in by_name:
                self.error(
                    keyword,
                    f"'{helper.name}' has no parameter '{keyword.arg}'",
                    [helper.signature()],
                )
            else:
                self.check_argument(keyword.value, value, helper, by_name[keyword.arg])
                named_values[keyword.arg or ""] = value
        passed = {p.name for p in positional[: len(node.args)]} | {k.arg for k in node.keywords}
        for parameter in positional:
            if parameter.required and parameter.name not in passed and not has_star:
                self.error(
                    node,
                    f"'{helper.name}' lacks the argument '{parameter.name}'",
                    [helper.signature()],
                )
        if not has_star:
            named_values |= {p.name: value for p, value in zip(positional, values, strict=False)}
        if helper.result.base in (kinds.TENSOR, kinds.TENSORS):
            argument_kinds = [value.kind for value in (*values, *named_values.values())]
            kind = kinds.helper_result_kind(helper.result, argument_kinds)
            return Value(kind, helper_dtypes(helper, named_values) if kind.base == RESULT else None)
        return self.infer_helper_result(helper, values, named_values)

    def check_argument(
        self, node: ast.expr, value: Value, helper: HelperFunction, parameter: vocabulary.Parameter
    ) -> None:
        """Check that a helper's parameter accepts a value."""
        # functions that make no nodes only ask for dtype, rank or shape, which a pair has, too
        accepts_pair = (
            value.kind.base in (kinds.COMPLEX, kinds.COMPLEXES) and not helper.makes_nodes
        )
        expected = kinds.complex_kind(parameter.kind) if accepts_pair else parameter.kind
        if not can_pass(value.kind, expected):
            self.error(
                node,
                f"'{helper.name}' needs {parameter.kind} for '{parameter.name}', got {value.kind}",
                [helper.signature()],
                fix=_argument_fix(ast.unparse(node), value.kind, expected, helper),
            )

    def infer_helper_result(
        self, helper: HelperFunction, values: list[Value], named: Mapping[str, Value]
    ) -> Value:
        """Infer the kind and dtypes of a helper's result."""
        result_dtypes = helper_dtypes(helper, named)
        if helper.name == "as_tensor" and values:
            return Value(Kind(RESULT, values[0].kind.optional), result_dtypes)
        if helper.name == "static" and values and values[0].kind.base in (INT, kinds.SYMINT):
            return Value(Kind(INT))
        return Value(
            helper.result, result_dtypes if helper.result.base in (RESULT, kinds.DTYPE) else None
        )

    def check_builtin(self, node: ast.Call, name: str) -> Value:
        """Check a call of a function of Python, such as ``len``, and infer its result."""
        values = [self.infer_value(a.value if isinstance(a, ast.Starred) else a) for a in node.args]
        for argument, value in zip(node.args, values, strict=True):
            if value.kind.base in (RESULT, kinds.COMPLEX):
                self.error(
                    argument,
                    f"'{name}' of a result of the graph: its numbers are not known during"
                    " conversion",
                    fix="use its size or dtype (dim_of, rank_of, dtype_of), or a node",
                )
        if name == "float" and values:
            return Value(Kind(FLOAT), fits_float32=values[0].fits_float32)
        if name in ("int", "len", "range") and values and values[0].kind.base == kinds.SYMINT:
            self.error(node, f"'{name}' of a symbolic int", fix="static(x) requires a known int")
        result = vocabulary.BUILTINS[name]
        if name == "sum" and values:
            return Value(Kind(kinds.ELEMENT.get(values[0].kind.base, ANY)))
        if result is not None:
            return Value(Kind(result))
        if name in ("list", "tuple", "reversed") and values:
            return Value(values[0].kind)
        if values and len(values) == 1:
            return Value(Kind(kinds.ELEMENT.get(values[0].kind.base, values[0].kind.base)))
        return self.join_values(values)

    def join_values(self, values: list[Value]) -> Value:
        """Return a value of the kind that all of ``values`` have in common."""
        if not values:
            return Value(Kind(ANY))
        kind = values[0].kind
        for value in values[1:]:
            kind = join_kinds(kind, value.kind)
        return Value(kind)

    def _check_ifexp(self, node: ast.IfExp, outputs: int | None) -> Value:
        self.check_condition(node.test)
        saved_env = self.env
        self.env = narrowing.narrow_env(saved_env, node.test, True, self.linked)
        left = self.infer_value(node.body, outputs)
        self.env = narrowing.narrow_env(saved_env, node.test, False, self.linked)
        right = self.infer_value(node.orelse, outputs)
        self.env = saved_env
        joined_dtypes = (
            left.dtypes | right.dtypes
            if left.dtypes is not None and right.dtypes is not None
            else None
        )
        if left.kind.base == NONE or right.kind.base == NONE:
            joined_dtypes = left.dtypes if right.kind.base == NONE else right.dtypes
        parts = (
            left.parts
            if left.parts and right.parts and len(left.parts) == len(right.parts)
            else None
        )
        fits_float32 = left.fits_float32 and right.fits_float32
        return Value(join_kinds(left.kind, right.kind), joined_dtypes, parts, fits_float32)

    def check_condition(self, node: ast.expr) -> None:
        """Check the condition of a ternary or comprehension, evaluated during conversion."""
        was_condition, self.condition = self.condition, True
        value = self.infer_value(node)
        self.condition = was_condition
        if value.kind.base in kinds.GRAPH_KINDS and not value.kind.optional:
            self.error(
                node,
                "a result of the graph in a condition",
                fix="test its dtype, rank or whether it is None",
            )

    def _check_compare(self, node: ast.Compare) -> Value:
        values = [
            self.infer_value(node.left),
            *(self.infer_value(comparator) for comparator in node.comparators),
        ]
        is_identity_test = all(isinstance(operator, ast.Is | ast.IsNot) for operator in node.ops)
        for expression, value in zip([node.left, *node.comparators], values, strict=True):
            if not is_identity_test and value.kind.base in (RESULT, RES, kinds.COMPLEX):
                self.error(
                    expression,
                    "a result of the graph is compared during conversion",
                    ["its numbers are not known yet"],
                    fix="use an ONNX comparison such as Equal(...) in the block",
                )
        if not is_identity_test and any(value.kind.base in kinds.SYMBOLIC for value in values):
            self.symbolic_tests.append(node)
        return Value(Kind(BOOL))

    def _check_boolop(self, node: ast.BoolOp) -> Value:
        saved_env = self.env
        for operand in node.values:
            self.infer_value(operand)
            self.env = narrowing.narrow_env(
                self.env, operand, isinstance(node.op, ast.And), self.linked
            )
        self.env = saved_env
        return Value(Kind(BOOL))

    def _check_unaryop(self, node: ast.UnaryOp) -> Value:
        value = self.infer_value(node.operand)
        if not isinstance(node.op, ast.Not):
            return Value(
                value.kind,
                fits_float32=value.fits_float32 and isinstance(node.op, ast.USub | ast.UAdd),
            )
        if any(test in ast.walk(node.operand) for test in self.symbolic_tests):
            self.error(
                node,
                "'not' of a comparison that may be symbolic",
                [
                    "a symbolic comparison is true only if it can be proven, so its negation is not"
                    " its opposite"
                ],
                fix="write the opposite comparison",
            )
        return Value(Kind(BOOL))

    def _check_binop(self, node: ast.BinOp) -> Value:
        left, right = self.infer_value(node.left), self.infer_value(node.right)
        bases = (left.kind.base, right.kind.base)
        for side, value in ((node.left, left), (node.right, right)):
            if value.kind.base in (RESULT, kinds.COMPLEX):
                return self.error(
                    side, "Python arithmetic on a result of the graph", fix="use Add, Sub, Mul, Div"
                )
        if any(base in kinds.LIST.values() for base in bases):
            if isinstance(node.op, ast.Mult):
                return Value(Kind(bases[0] if bases[0] in kinds.LIST.values() else bases[1]))
            return Value(join_kinds(left.kind, right.kind))
        if ANY in bases or NONE in bases:
            return Value(Kind(ANY))
        return Value(Kind(kinds.arithmetic_kind(bases[0], bases[1], isinstance(node.op, ast.Div))))

    def _check_list(self, node: ast.List | ast.Tuple) -> Value:
        kind: Kind | None = None
        for element in node.elts:
            value = self.infer_value(element.value if isinstance(element, ast.Starred) else element)
            base = value.kind.base
            if not isinstance(element, ast.Starred):
                base = kinds.LIST.get(base, RESULTS if base == NONE else ANY)
            element_kind = Kind(base, False, value.kind.optional)
            kind = element_kind if kind is None else join_kinds(kind, element_kind)
        return Value(kind or Kind(kinds.INTS))

    def _check_tuple(self, node: ast.Tuple) -> Value:
        return Value(Kind(ANY), None, tuple(self.infer_value(element) for element in node.elts))

    def _check_subscript(self, node: ast.Subscript) -> Value:
        value = self.infer_value(node.value)
        if isinstance(node.slice, ast.Slice):
            for part in (node.slice.lower, node.slice.upper, node.slice.step):
                if part is not None:
                    self.infer_value(part)
            return Value(value.kind)
        self.infer_value(node.slice)
        if value.kind.base == RESULT:
            self.error(
                node,
                "a result of the graph is indexed during conversion",
                fix="use Gather or Slice",
            )
        # an item at a given position is assumed not to be None; an item in a loop may be None
        return Value(Kind(kinds.ELEMENT.get(value.kind.base, ANY)))

    def _check_listcomp(self, node: ast.ListComp) -> Value:
        loop = node.generators[0]
        source = self.infer_value(loop.iter)
        if source.kind.base == RESULT:
            self.error(
                loop.iter,
                "iteration over a result of the graph",
                fix="iterate over a list or range(...)",
            )
        saved_env = dict(self.env)
        element = Value(
            Kind(kinds.ELEMENT.get(source.kind.base, ANY), source.kind.elements_optional)
        )
        for name in names_in(loop.target):
            self.env[name.id] = element if name is loop.target else Value(Kind(ANY))
        for condition in loop.ifs:
            self.check_condition(condition)
            self.env = narrowing.narrow_env(self.env, condition, True)
        value = self.infer_value(node.elt)
        self.env = saved_env
        return Value(Kind(kinds.LIST.get(value.kind.base, ANY), False, value.kind.optional))


def _argument_fix(text: str, actual: Kind, expected: Kind, helper: HelperFunction) -> str | None:
    """Suggest how to pass ``text`` where ``expected`` is needed; None without a suggestion."""
    if actual.base == kinds.COMPLEX:
        return f"pass its parts, re({text}) and im({text})"
    if expected.base in (INT, kinds.INTS) and actual.base in kinds.SYMBOLIC:
        return f"static({text}) requires a known int"
    if actual.base == kinds.DTYPE and helper.name in _DTYPE_TESTS:
        return f"test a dtype by: {text} {_DTYPE_TESTS[helper.name]}"
    if actual.optional and can_pass(actual.without_none(), expected):
        if actual.base in (INT, FLOAT, kinds.SYMINT, kinds.SCALAR):
            return f"1 if {text} is None else {text}, where 1 is the number that None stands for"
        return f"write a case before this one: when: {text} is None"
    return None

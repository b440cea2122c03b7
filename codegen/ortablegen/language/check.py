"""Checks one piece of spec language: names, words, ONNX calls at every opset, value classes, dtype
sets."""

from __future__ import annotations

import ast
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from ortable import dtypes
from ortablegen.source.diagnostics import Diagnostics, did_you_mean

from . import kinds, narrowing, vocabulary
from .kinds import ANY, BOOL, FLOAT, INT, NONE, RES, RESULT, RESULTS, Kind, fits, join
from .members import word_dtypes
from .narrowing import Env, Value
from .onnx_calls import OnnxCall, check_onnx_call
from .parse import Code, called, names_in, onnx_call
from .precision import Limits, float32_holds
from .vocabulary import Word

_LITERALS = {
    bool: BOOL,
    int: INT,
    float: FLOAT,
    str: kinds.STR,
    complex: kinds.SCALAR,
    type(None): NONE,
}
# words that ask for the dtype of a result, and how a dtype is asked
_ASKED_OF_RESULTS = {
    "is_bool": "== boolean",
    "is_complex": "in (complex64, complex128)",
    "is_float": "in (float16, bfloat16, float32, float64)",
    "is_int": "in (int8, int16, int32, int64, uint8, uint16, uint32, uint64)",
    "is_wide": "in (float32, float64)",
}


@dataclass
class CodeChecker:
    """Walks one :class:`Code`; collects the names it reads and reports what is wrong.

    ``opsets`` is the range in which the code may run; ``target`` the case's target; ``condition``
    forbids nodes. Rewrites have more ``words``, names of attributes that are ``kept``, and other
    words for what they are (``unit``) and what returns (``giver``).
    """

    code: Code
    env: Env
    diagnostics: Diagnostics
    opsets: tuple[int, int]
    target: str | None = None
    condition: bool = False
    linked: tuple[str, ...] = ()
    words: Mapping[str, Word] = field(default_factory=vocabulary.prelude)
    kept: frozenset[str] = frozenset()
    unit: str = "case"
    giver: str = "schema"
    limits: Limits | None = None
    read: set[str] = field(default_factory=set)
    symbolic_tests: list[ast.expr] = field(default_factory=list)

    def error(
        self, node: ast.AST, message: str, notes: Iterable[str] = (), fix: str | None = None
    ) -> Value:
        """Report an error at ``node``; returns a value of which nothing is known."""
        self.diagnostics.error(self.code.at(node), message, notes, fix)
        return Value(Kind(ANY))

    # -- statements -----------------------------------------------------------------------------

    def block(self, returns: tuple[str, ...]) -> None:
        """Check assignments and the final return of a block against the schema's result types."""
        for statement in self.code.body:
            if isinstance(statement, ast.Assign):
                self.assign(statement)
            elif isinstance(statement, ast.Return) and statement.value is not None:
                self.final_return(statement.value, returns)
        self.unused()

    def unused(self) -> None:
        """Names that a block gives and nothing reads; of several at once, one read is enough."""
        read = {n.id for n in names_in(*self.code.body) if isinstance(n.ctx, ast.Load)}
        for statement in self.code.body:
            if not isinstance(statement, ast.Assign):
                continue
            given = [name.id for name in names_in(statement.targets[0])]
            if read.isdisjoint(given):
                words = " and ".join(f"'{name}'" for name in given)
                self.error(statement, f"nothing reads {words}", fix="leave the line out")

    def assign(self, statement: ast.Assign) -> None:
        target = statement.targets[0]
        if isinstance(target, ast.Name):
            self.bind(target, self.value(statement.value, 1))
            return
        assert isinstance(target, ast.Tuple)
        value = self.value(statement.value, len(target.elts))
        element = kinds.ELEMENT.get(value.kind.base, ANY)
        parts = value.parts or tuple(Value(Kind(element)) for _ in target.elts)
        if len(parts) != len(target.elts):
            self.error(
                statement, f"{len(target.elts)} names on the left, {len(parts)} values on the right"
            )
            parts = tuple(Value(Kind(ANY)) for _ in target.elts)
        for name, part in zip(target.elts, parts, strict=True):
            self.bind(name, part)

    def bind(self, target: ast.expr, value: Value) -> None:
        assert isinstance(target, ast.Name)
        if (
            target.id in vocabulary.prelude()
            or target.id in vocabulary.DTYPES
            or target.id in ("res", "graph")
        ):
            self.error(
                target,
                f"'{target.id}' is a function of the language and cannot be assigned",
                fix="choose a name",
            )
        self.env[target.id] = value

    def final_return(self, value: ast.expr, returns: tuple[str, ...]) -> None:
        wanted = len(returns)
        if wanted == 1 and returns[0].endswith("[]"):
            got = self.value(value, None)
            lists = (RESULTS, ANY, kinds.SYMINTS, kinds.COMPLEXES)
            if got.parts is None and got.kind.base not in lists:
                self.error(value, f"the schema returns a list, this is a {got.kind}")
            return
        got = self.value(value, wanted)
        count = len(got.parts) if got.parts is not None else 1
        if wanted == 0:
            if got.kind.base != NONE:
                self.error(value, f"the {self.giver} returns nothing", fix="return None")
        elif count != wanted and not (got.parts is None and got.kind.base in (RESULTS, ANY)):
            self.error(
                value,
                f"the {self.giver} returns {wanted} result{'s' * (wanted > 1)},"
                f" this returns {count}",
            )
        for part in got.parts or (got,):
            if part.kind.base in (kinds.INTS, kinds.FLOATS, kinds.STR, kinds.DTYPE):
                self.error(value, f"a result of the graph is expected, this is a {part.kind}")

    # -- expressions ----------------------------------------------------------------------------

    def value(self, node: ast.expr, outputs: int | None = 1) -> Value:
        """The class of an expression; ``outputs`` is how many results a CapWord call must give
        here."""
        method = getattr(self, f"_{type(node).__name__.lower()}", None)
        if method is None:
            return Value(Kind(ANY))
        if isinstance(node, ast.Call | ast.IfExp):
            return method(node, outputs)
        return method(node)

    def _name(self, node: ast.Name) -> Value:
        if node.id in self.env:
            self.read.add(node.id)
            return self.env[node.id]
        if node.id in vocabulary.DTYPES:
            return Value(Kind(kinds.DTYPE), frozenset({getattr(dtypes, node.id)}))
        if node.id in vocabulary.CONSTANTS:
            return Value(Kind(FLOAT))
        known = [*self.env, *vocabulary.DTYPES, *vocabulary.CONSTANTS]
        hint = did_you_mean(node.id, known)
        if node.id in self.words:
            hint = f"; '{node.id}' is a function of the prelude and must be called"
        return self.error(
            node,
            f"unknown name '{node.id}'{hint}",
            [f"names here are {', '.join(sorted(self.env))}"],
        )

    def _constant(self, node: ast.Constant) -> Value:
        held = isinstance(node.value, float | int) and float32_holds(node.value)
        return Value(Kind(_LITERALS.get(type(node.value), ANY), node.value is None), held=held)

    def _call(self, node: ast.Call, outputs: int | None) -> Value:
        if onnx_call(node) is not None:
            return self.onnx(node, outputs)
        name = called(node)
        if name in self.env:
            return self.error(node, f"'{name}' is a value here and cannot be called")
        if name in self.words:
            return self.word(node, self.words[name])
        if name in vocabulary.BUILTINS:
            return self.builtin(node, name)
        known = [*self.words, *vocabulary.BUILTINS]
        hint = did_you_mean(name, known)
        return self.error(
            node,
            f"unknown function '{name}'{hint}",
            ["CapWords are ONNX operators, lower-case functions the prelude's"],
        )

    def onnx(self, node: ast.Call, outputs: int | None) -> Value:
        if self.condition:
            self.error(
                node,
                "a result of the graph in a condition",
                ["conditions are decided while converting, before any number is known"],
                fix="use Where(...) in the block, or test dtypes, ranks, None, ints",
            )
        inputs = [
            self.value(argument.value if isinstance(argument, ast.Starred) else argument)
            for argument in node.args
        ]
        attributes = {
            word.arg: self.value(word.value) for word in node.keywords if word.arg is not None
        }
        given = next((word.value for word in node.keywords if word.arg == "attrs"), None)
        spread = isinstance(given, ast.Name) and given.id in self.kept
        if spread:
            del attributes["attrs"]
        call = OnnxCall(
            node, inputs, attributes, outputs, self.opsets, self.target, spread, self.unit,
            self.limits,
        )  # fmt: skip
        return check_onnx_call(call, self.error)

    def word(self, node: ast.Call, word: Word) -> Value:
        if self.condition and word.makes_nodes:
            self.error(
                node, f"'{word.name}' adds nodes to the graph and cannot stand in a condition"
            )
        positional = [p for p in word.parameters if not p.variadic]
        variadic = next((p for p in word.parameters if p.variadic), None)
        values: list[Value] = []
        named: dict[str, Value] = {}
        starred = any(isinstance(argument, ast.Starred) for argument in node.args)
        for position, argument in enumerate(node.args):
            value = self.value(argument.value if isinstance(argument, ast.Starred) else argument)
            values.append(value)
            parameter = positional[position] if position < len(positional) else variadic
            if parameter is None:
                self.error(
                    argument,
                    f"'{word.name}' takes at most {len(positional)} arguments",
                    [word.signature()],
                )
            elif not starred:
                self.argument(argument, value, word, parameter)
        by_name = {p.name: p for p in positional}
        for keyword in node.keywords:
            value = self.value(keyword.value)
            if keyword.arg not in by_name:
                self.error(
                    keyword,
                    f"'{word.name}' has no parameter '{keyword.arg}'",
                    [word.signature()],
                )
            else:
                self.argument(keyword.value, value, word, by_name[keyword.arg])
                named[keyword.arg or ""] = value
        given = {p.name for p in positional[: len(node.args)]} | {k.arg for k in node.keywords}
        for parameter in positional:
            if parameter.required and parameter.name not in given and not starred:
                self.error(
                    node,
                    f"'{word.name}' lacks its argument '{parameter.name}'",
                    [word.signature()],
                )
        if not starred:
            named |= {p.name: value for p, value in zip(positional, values, strict=False)}
        if word.result.base in (kinds.TENSOR, kinds.TENSORS):
            classes = [value.kind for value in (*values, *named.values())]
            kind = kinds.of_tensors(word.result, classes)
            return Value(kind, word_dtypes(word, named) if kind.base == RESULT else None)
        return self.word_result(word, values, named)

    def argument(
        self, node: ast.expr, value: Value, word: Word, parameter: vocabulary.Parameter
    ) -> None:
        # a word that only asks (dtype, rank, shape) takes a pair as it takes a result
        asks = value.kind.base in (kinds.COMPLEX, kinds.COMPLEXES) and not word.makes_nodes
        wanted = kinds.in_complex(parameter.kind) if asks else parameter.kind
        if not fits(value.kind, wanted):
            self.error(
                node,
                f"'{word.name}' wants {parameter.kind} for '{parameter.name}', got {value.kind}",
                [word.signature()],
                fix=_argument_fix(ast.unparse(node), value.kind, wanted, word),
            )

    def word_result(self, word: Word, values: list[Value], named: Mapping[str, Value]) -> Value:
        """The class of the result, and what is known of its dtype."""
        told = word_dtypes(word, named)
        if word.name == "as_tensor" and values:
            return Value(Kind(RESULT, values[0].kind.optional), told)
        if word.name == "static" and values and values[0].kind.base in (INT, kinds.SYMINT):
            return Value(Kind(INT))
        return Value(word.result, told if word.result.base in (RESULT, kinds.DTYPE) else None)

    def builtin(self, node: ast.Call, name: str) -> Value:
        values = [self.value(a.value if isinstance(a, ast.Starred) else a) for a in node.args]
        for argument, value in zip(node.args, values, strict=True):
            if value.kind.base in (RESULT, kinds.COMPLEX):
                self.error(
                    argument,
                    f"'{name}' of a result of the graph: its numbers are not known while"
                    " converting",
                    fix="ask for its size or dtype (dim_of, rank_of, dtype_of), or use a node",
                )
        if name == "float" and values:
            return Value(Kind(FLOAT), held=values[0].held)
        if name in ("int", "len", "range") and values and values[0].kind.base == kinds.SYMINT:
            self.error(node, f"'{name}' of a symbolic int", fix="static(x) demands a known int")
        result = vocabulary.BUILTINS[name]
        if name == "sum" and values:
            return Value(Kind(kinds.ELEMENT.get(values[0].kind.base, ANY)))
        if result is not None:
            return Value(Kind(result))
        if name in ("list", "tuple", "reversed") and values:
            return Value(values[0].kind)
        if values and len(values) == 1:
            return Value(Kind(kinds.ELEMENT.get(values[0].kind.base, values[0].kind.base)))
        return self.joined(values)

    def joined(self, values: list[Value]) -> Value:
        if not values:
            return Value(Kind(ANY))
        kind = values[0].kind
        for value in values[1:]:
            kind = join(kind, value.kind)
        return Value(kind)

    def _ifexp(self, node: ast.IfExp, outputs: int | None) -> Value:
        self.test(node.test)
        saved = self.env
        self.env = narrowing.narrowed(saved, node.test, True, self.linked)
        left = self.value(node.body, outputs)
        self.env = narrowing.narrowed(saved, node.test, False, self.linked)
        right = self.value(node.orelse, outputs)
        self.env = saved
        both = (
            left.dtypes | right.dtypes
            if left.dtypes is not None and right.dtypes is not None
            else None
        )
        if left.kind.base == NONE or right.kind.base == NONE:
            both = left.dtypes if right.kind.base == NONE else right.dtypes
        parts = (
            left.parts
            if left.parts and right.parts and len(left.parts) == len(right.parts)
            else None
        )
        held = left.held and right.held
        return Value(join(left.kind, right.kind), both, parts, held)

    def test(self, node: ast.expr) -> None:
        """A condition inside a block: decided while converting, like ``when``."""
        saved, self.condition = self.condition, True
        value = self.value(node)
        self.condition = saved
        if value.kind.base in kinds.GRAPH_KINDS and not value.kind.optional:
            self.error(
                node,
                "a result of the graph in a condition",
                fix="test its dtype, rank or whether it is None",
            )

    def _compare(self, node: ast.Compare) -> Value:
        values = [self.value(node.left), *(self.value(each) for each in node.comparators)]
        identity = all(isinstance(operator, ast.Is | ast.IsNot) for operator in node.ops)
        for expression, value in zip([node.left, *node.comparators], values, strict=True):
            if not identity and value.kind.base in (RESULT, RES, kinds.COMPLEX):
                self.error(
                    expression,
                    "a result of the graph is compared while converting",
                    ["its numbers are not known yet"],
                    fix="use an ONNX comparison such as Equal(...) in the block",
                )
        if not identity and any(value.kind.base in kinds.SYMBOLIC for value in values):
            self.symbolic_tests.append(node)
        return Value(Kind(BOOL))

    def _boolop(self, node: ast.BoolOp) -> Value:
        saved = self.env
        for each in node.values:
            self.value(each)
            self.env = narrowing.narrowed(self.env, each, isinstance(node.op, ast.And), self.linked)
        self.env = saved
        return Value(Kind(BOOL))

    def _unaryop(self, node: ast.UnaryOp) -> Value:
        value = self.value(node.operand)
        if not isinstance(node.op, ast.Not):
            return Value(value.kind, held=value.held and isinstance(node.op, ast.USub | ast.UAdd))
        if any(each in ast.walk(node.operand) for each in self.symbolic_tests):
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

    def _binop(self, node: ast.BinOp) -> Value:
        left, right = self.value(node.left), self.value(node.right)
        bases = (left.kind.base, right.kind.base)
        for side, value in ((node.left, left), (node.right, right)):
            if value.kind.base in (RESULT, kinds.COMPLEX):
                return self.error(
                    side, "Python arithmetic on a result of the graph", fix="use Add, Sub, Mul, Div"
                )
        if any(base in kinds.LIST.values() for base in bases):
            if isinstance(node.op, ast.Mult):
                return Value(Kind(bases[0] if bases[0] in kinds.LIST.values() else bases[1]))
            return Value(join(left.kind, right.kind))
        if ANY in bases or NONE in bases:
            return Value(Kind(ANY))
        return Value(Kind(kinds.arithmetic(bases[0], bases[1], isinstance(node.op, ast.Div))))

    def _list(self, node: ast.List | ast.Tuple) -> Value:
        kind: Kind | None = None
        for element in node.elts:
            value = self.value(element.value if isinstance(element, ast.Starred) else element)
            base = value.kind.base
            if not isinstance(element, ast.Starred):
                base = kinds.LIST.get(base, RESULTS if base == NONE else ANY)
            this = Kind(base, False, value.kind.optional)
            kind = this if kind is None else join(kind, this)
        return Value(kind or Kind(kinds.INTS))

    def _tuple(self, node: ast.Tuple) -> Value:
        return Value(Kind(ANY), None, tuple(self.value(element) for element in node.elts))

    def _subscript(self, node: ast.Subscript) -> Value:
        value = self.value(node.value)
        if isinstance(node.slice, ast.Slice):
            for part in (node.slice.lower, node.slice.upper, node.slice.step):
                if part is not None:
                    self.value(part)
            return Value(value.kind)
        self.value(node.slice)
        if value.kind.base == RESULT:
            self.error(
                node, "a result of the graph is indexed while converting", fix="use Gather or Slice"
            )
        # an item that the author picks by position is taken to be there; one met in a loop may be
        # None
        return Value(Kind(kinds.ELEMENT.get(value.kind.base, ANY)))

    def _listcomp(self, node: ast.ListComp) -> Value:
        loop = node.generators[0]
        source = self.value(loop.iter)
        if source.kind.base == RESULT:
            self.error(
                loop.iter,
                "iteration over a result of the graph",
                fix="iterate over a list or range(...)",
            )
        saved = dict(self.env)
        element = Value(
            Kind(kinds.ELEMENT.get(source.kind.base, ANY), source.kind.elements_optional)
        )
        for name in names_in(loop.target):
            self.env[name.id] = element if name is loop.target else Value(Kind(ANY))
        for condition in loop.ifs:
            self.test(condition)
            self.env = narrowing.narrowed(self.env, condition, True)
        value = self.value(node.elt)
        self.env = saved
        return Value(Kind(kinds.LIST.get(value.kind.base, ANY), False, value.kind.optional))


def _argument_fix(text: str, given: Kind, wanted: Kind, word: Word) -> str | None:
    """What to write for an argument of a word that has another class than the word wants."""
    if given.base == kinds.COMPLEX:
        return f"re({text}) and im({text}) are its parts"
    if wanted.base in (INT, kinds.INTS) and given.base in kinds.SYMBOLIC:
        return f"static({text}) demands a known int"
    if given.base == kinds.DTYPE and word.name in _ASKED_OF_RESULTS:
        return f"of a dtype ask: {text} {_ASKED_OF_RESULTS[word.name]}"
    if given.optional and fits(given.required(), wanted):
        if given.base in (INT, FLOAT, kinds.SYMINT, kinds.SCALAR):
            return f"1 if {text} is None else {text}; in place of 1 the number that None stands for"
        return f"write a case before this one: when: {text} is None"
    return None

"""Emit the spec language as Python: ``Add(a, b)`` becomes ``graph.make_node('Add', [a, b])``."""

from __future__ import annotations

import ast
from collections.abc import Mapping
from dataclasses import dataclass, field

from . import vocabulary
from .parse import is_call, names_in, onnx_call
from .vocabulary import HelperFunction


@dataclass
class Needs:
    """The imports of generated code, and the names that have a meaning in its expressions."""

    names: set[tuple[str, str]] = field(default_factory=set)  # (module, name)
    # names of the entry that shadow a name of the language, such as an argument `nan`
    hidden: frozenset[str] = frozenset()
    # functions that may be called
    helpers: Mapping[str, HelperFunction] = field(default_factory=vocabulary.load_prelude)
    # names of a rewrite that are bound to all attributes of a node, as in `attrs=names`
    attr_dicts: frozenset[str] = frozenset()

    def add(self, module: str, name: str) -> None:
        """Add ``from module import name``."""
        self.names.add((module, name))

    def import_lines(self) -> list[str]:
        """Return the sorted import lines."""
        by_module: dict[str, list[str]] = {}
        for module, name in sorted(self.names):
            by_module.setdefault(module, []).append(name)
        return [
            f"from {module} import {', '.join(sorted(names))}"
            for module, names in sorted(by_module.items())
        ]


def expression_text(node: ast.expr, needs: Needs) -> str:
    """Emit one expression as Python text, and add the names that it needs to ``needs``."""
    return ast.unparse(Emitter(needs).visit(_copy_expression(node)))


def split_conjuncts(node: ast.expr) -> list[ast.expr]:
    """Split ``a and (b and c)`` into ``a``, ``b`` and ``c``; other conditions stay as they are."""
    if isinstance(node, ast.BoolOp) and isinstance(node.op, ast.And):
        return [part for value in node.values for part in split_conjuncts(value)]
    return [node]


def block_lines(
    body: tuple[ast.stmt, ...], needs: Needs, returns_list: bool, named: bool = True
) -> list[str]:
    """Emit the statements of a block as lines of Python.

    Unless ``named`` is false, a node call after ``return`` gets the output names of ``res``. With
    ``returns_list`` the schema returns ``Tensor[]``, so `as_list` makes a list of a single result.
    """
    lines: list[str] = []
    for statement in body:
        if isinstance(statement, ast.Return):
            assert statement.value is not None
            emitter = Emitter(needs)
            expression = _copy_expression(statement.value)
            value = emitter.emit_final(expression) if named else emitter.visit(expression)
            if returns_list and isinstance(value, ast.Call):
                needs.add("ortable.prelude.metadata", "as_list")
                value = ast.Call(ast.Name("as_list", ast.Load()), [value], [])
            lines.append("return " + ast.unparse(value))
            continue
        assert isinstance(statement, ast.Assign)
        target = statement.targets[0]
        outputs = len(target.elts) if isinstance(target, ast.Tuple) else 1
        value = Emitter(needs).emit_outputs(_copy_expression(statement.value), outputs)
        lines.append(f"{ast.unparse(target).strip('()')} = {ast.unparse(value)}")
    return lines


def _copy_expression(node: ast.expr) -> ast.expr:
    return ast.parse(ast.unparse(node), mode="eval").body


class Emitter(ast.NodeTransformer):
    """Rewrites an expression of the language into Python, and adds its imports to ``needs``."""

    def __init__(self, needs: Needs) -> None:
        self.needs = needs
        self.bound: set[str] = set()

    def emit_final(self, node: ast.expr) -> ast.expr:
        """Emit a returned value; node calls, also in a ternary, get the outputs ``res.outputs``."""
        if isinstance(node, ast.IfExp):
            test = self.visit(node.test)
            return ast.IfExp(test, self.emit_final(node.body), self.emit_final(node.orelse))
        if _is_open_node(node):
            assert isinstance(node, ast.Call)
            return self.node_call(node, ast.parse("res.outputs", mode="eval").body)
        return self.visit(node)

    def emit_outputs(self, node: ast.expr, count: int) -> ast.expr:
        """Emit the value of an assignment to ``count`` names; a node call gets as many results."""
        if isinstance(node, ast.IfExp):
            return ast.IfExp(
                self.visit(node.test),
                self.emit_outputs(node.body, count),
                self.emit_outputs(node.orelse, count),
            )
        if count > 1 and _is_open_node(node):
            assert isinstance(node, ast.Call)
            return self.node_call(node, ast.Constant(count))
        return self.visit(node)

    def node_call(self, node: ast.Call, outputs: ast.expr | None) -> ast.Call:
        """Emit a CapWord call as ``graph.make_node``; its ``outputs=`` overrides ``outputs``."""
        callee = onnx_call(node)
        assert callee is not None
        domain, op = callee
        outputs_argument = next((k.value for k in node.keywords if k.arg == "outputs"), None)
        count = self.visit(outputs_argument) if outputs_argument is not None else outputs
        arguments: list[ast.expr] = [
            ast.Constant(op),
            ast.List([self.visit(a) for a in node.args], ast.Load()),
        ]
        if count is not None:
            arguments.append(count)
        keywords = [
            ast.keyword(None if self.is_spread(k) else k.arg, self.visit(k.value))
            for k in node.keywords
            if k.arg != "outputs"
        ]
        if domain:
            keywords.insert(0, ast.keyword("domain", ast.Constant(domain)))
        function = ast.Attribute(ast.Name("graph", ast.Load()), "make_node", ast.Load())
        return ast.Call(function, arguments, keywords)

    def is_spread(self, keyword: ast.keyword) -> bool:
        """Whether a keyword passes all attributes of a node: ``attrs=x``, emitted as ``**x``."""
        value = keyword.value
        return (
            keyword.arg == "attrs"
            and isinstance(value, ast.Name)
            and value.id in self.needs.attr_dicts
        )

    def visit_Call(self, node: ast.Call) -> ast.expr:
        """Emit a call; helpers that take the graph get it, operators go through `call_operator`."""
        if onnx_call(node) is not None:
            return self.node_call(node, None)
        assert isinstance(node.func, ast.Name)
        helper = self.needs.helpers.get(node.func.id)
        arguments = [self.visit(argument) for argument in node.args]
        keywords = [ast.keyword(k.arg, self.visit(k.value)) for k in node.keywords]
        if helper is not None and helper.operator:
            self.needs.add("ortable_generated.aten", "dispatch")
            self.needs.add("ortable.prelude.operators", "call_operator")
            leading = [ast.Name("graph"), ast.Name("dispatch"), ast.Constant(helper.operator)]
            return ast.Call(ast.Name("call_operator"), [*leading, *arguments], keywords)
        if helper is not None:
            self.needs.add(helper.module, helper.name)
            if helper.takes_graph:
                arguments.insert(0, ast.Name("graph", ast.Load()))
        elif node.func.id in vocabulary.MATH:
            self.needs.add("math", node.func.id)
        return ast.Call(node.func, arguments, keywords)

    def visit_Compare(self, node: ast.Compare) -> ast.expr:
        """Emit a comparison; ``a != b`` becomes ``differs(a, b)`` if it may be symbolic."""
        left, rights = (
            self.visit(node.left),
            [self.visit(comparator) for comparator in node.comparators],
        )
        if len(node.ops) == 1 and isinstance(node.ops[0], ast.NotEq) and not _is_plain(node):
            self.needs.add(vocabulary.load_prelude()["differs"].module, "differs")
            return ast.Call(ast.Name("differs", ast.Load()), [left, rights[0]], [])
        return ast.Compare(left, node.ops, rights)

    def visit_ListComp(self, node: ast.ListComp) -> ast.expr:
        """Emit a list comprehension, inside which loop variables shadow dtypes and constants."""
        loop = node.generators[0]
        names = {name.id for name in names_in(loop.target)}
        iterable = self.visit(loop.iter)
        self.bound |= names
        element, conditions = self.visit(node.elt), [self.visit(test) for test in loop.ifs]
        self.bound -= names
        return ast.ListComp(element, [ast.comprehension(loop.target, iterable, conditions, 0)])

    def visit_Name(self, node: ast.Name) -> ast.expr:
        """Emit a name; import a dtype, replace a constant by its value."""
        if node.id in self.bound or node.id in self.needs.hidden:
            return node
        if node.id in vocabulary.DTYPES:
            self.needs.add("ortable.dtypes", node.id)
        elif node.id in vocabulary.CONSTANTS:
            return ast.parse(vocabulary.CONSTANTS[node.id], mode="eval").body
        return node


def _is_plain(node: ast.Compare) -> bool:
    """Whether one side, such as a string, bool, None or dtype, shows that none is symbolic."""
    for side in (node.left, node.comparators[0]):
        if isinstance(side, ast.Constant) and isinstance(side.value, str | bool | type(None)):
            return True
        if isinstance(side, ast.Name) and side.id in vocabulary.DTYPES:
            return True
        if is_call(side, "dtype_of", "len"):
            return True
    return False


def _is_open_node(node: ast.expr) -> bool:
    """Whether the expression is a node call without ``outputs=``."""
    return (
        isinstance(node, ast.Call)
        and onnx_call(node) is not None
        and all(keyword.arg != "outputs" for keyword in node.keywords)
    )

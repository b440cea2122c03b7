"""Parse the expression language, a restricted Python syntax, without running it."""

from __future__ import annotations

import ast
import warnings
from dataclasses import dataclass, replace
from typing import Any, Literal, TypeGuard

from ortablegen.source.diagnostics import Diagnostics, Span
from ortablegen.source.yaml_source import YScalar

MAX_STATEMENTS = 12
MAX_CHARACTERS = 10_000  # limit for a piece of code; the longest in specs has under 1,000
MAX_LEVELS = 50  # depth of the syntax tree; the deepest in specs has 11

_EXPRESSIONS = (
    ast.Expr, ast.Name, ast.Constant, ast.Call, ast.keyword, ast.BinOp, ast.UnaryOp, ast.Compare,
    ast.BoolOp, ast.IfExp, ast.List, ast.Tuple, ast.Subscript, ast.Slice, ast.ListComp,
    ast.comprehension, ast.Starred, ast.Load, ast.Store,
)  # fmt: skip
_OPERATORS = (
    ast.Add, ast.Sub, ast.Mult, ast.Div, ast.FloorDiv, ast.Mod, ast.Pow, ast.USub, ast.UAdd,
    ast.Not, ast.And, ast.Or, ast.Eq, ast.NotEq, ast.Lt, ast.LtE, ast.Gt, ast.GtE, ast.Is,
    ast.IsNot, ast.In, ast.NotIn,
)  # fmt: skip
_STATEMENTS = (ast.Assign, ast.Return)
# construct that is not allowed -> its name in errors
_NAMES = {
    ast.Lambda: "lambda", ast.For: "for loop", ast.While: "while loop", ast.If: "if statement",
    ast.FunctionDef: "def", ast.Attribute: "attribute access", ast.JoinedStr: "f-string",
    ast.Import: "import", ast.With: "with", ast.Try: "try", ast.Dict: "dict", ast.Set: "set",
    ast.DictComp: "dict comprehension", ast.SetComp: "set comprehension",
    ast.GeneratorExp: "generator", ast.AugAssign: "augmented assignment", ast.Await: "await",
    ast.Yield: "yield", ast.NamedExpr: "walrus", ast.Raise: "raise", ast.Assert: "assert",
    ast.Delete: "del", ast.ClassDef: "class", ast.Return: "this return",
    ast.Assign: "this assignment", ast.Expr: "this expression",
}  # fmt: skip
# the note and the fix of an error about a construct that the language lacks
WAY_OUT = (
    "a block consists of assignments, calls, ternaries, comparisons, arithmetic and one list"
    " comprehension",
    "call a function of the prelude, or name a Python lowering (python: with why:)",
)
# prefix of a node call, as in `ms.Op(...)` -> domain
DOMAINS = {"ms": "com.microsoft", "ml": "ai.onnx.ml"}


@dataclass(frozen=True)
class Code:
    """A piece of spec language: its YAML scalar, and its parsed statements.

    ``body`` has the statements of a block, or one ``ast.Expr`` for an expression.
    """

    scalar: YScalar
    body: tuple[ast.stmt, ...]

    @property
    def text(self) -> str:
        """The text without trailing white space."""
        return self.scalar.text.rstrip()

    @property
    def span(self) -> Span:
        """The position of the first character."""
        return self.scalar.span

    @property
    def expression(self) -> ast.expr:
        """The expression of a one-expression piece."""
        statement = self.body[0]
        assert isinstance(statement, ast.Expr)
        return statement.value

    def at(self, node: ast.AST) -> Span:
        """Return the position of an ``ast`` node in the spec file."""
        return self.scalar.at(getattr(node, "lineno", 1), getattr(node, "col_offset", 0))


def python_tree(text: str, mode: Literal["exec", "eval"] = "exec") -> Any:
    """Parse a text of a spec with Python's parser, without running it.

    Returns:
        An `ast.Module` or `ast.Expression`.

    Raises:
        SyntaxError: the text is not Python, or too long or too deep for recursive walks.
    """
    if len(text) > MAX_CHARACTERS:
        raise SyntaxError(f"it has more than {MAX_CHARACTERS} characters")
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # of invalid literals, which the checks handle
            tree = ast.parse(text, mode=mode)
    except (ValueError, MemoryError, RecursionError) as error:  # NUL, a surrogate, too deep
        raise SyntaxError(str(error) or "it is nested too deep") from None
    nodes_at_level: list[ast.AST] = [tree]
    for _ in range(MAX_LEVELS):
        nodes_at_level = [child for node in nodes_at_level for child in ast.iter_child_nodes(node)]
        if not nodes_at_level:
            return tree
    raise SyntaxError(f"it is nested in more than {MAX_LEVELS} levels")


def parse_expression(
    scalar: YScalar, diagnostics: Diagnostics, way_out: tuple[str, str] = WAY_OUT
) -> Code | None:
    """Parse one expression; return None after a reported error.

    ``way_out`` is the note and the fix of errors about constructs that the language lacks.
    """
    code = _parse_code(scalar, diagnostics, way_out)
    if code is None:
        return None
    if len(code.body) != 1 or not isinstance(code.body[0], ast.Expr):
        return diagnostics.error(
            scalar.span, "an expression is expected here", fix="write one expression, no assignment"
        )
    return code


def parse_block(scalar: YScalar, diagnostics: Diagnostics) -> Code | None:
    """Parse assignments and a final ``return``; return None after a reported error."""
    code = _parse_code(scalar, diagnostics)
    if code is None:
        return None
    is_valid = True
    if len(code.body) > MAX_STATEMENTS:
        span = code.at(code.body[MAX_STATEMENTS])
        fix = "move the algorithm to a Python lowering (python: with why:)"
        diagnostics.error(
            span, f"{len(code.body)} statements, at most {MAX_STATEMENTS} are allowed", fix=fix
        )
        is_valid = False
    for position, statement in enumerate(code.body):
        is_last = position == len(code.body) - 1
        if isinstance(statement, ast.Expr) or (isinstance(statement, ast.Return) and not is_last):
            diagnostics.error(
                code.at(statement), "only assignments may come before the final return"
            )
            is_valid = False
        elif is_last and (not isinstance(statement, ast.Return) or statement.value is None):
            diagnostics.error(code.at(statement), "a block ends with 'return <value>'")
            is_valid = False
    return code if is_valid and code.body else None


def _parse_code(
    scalar: YScalar, diagnostics: Diagnostics, way_out: tuple[str, str] = WAY_OUT
) -> Code | None:
    try:
        code = Code(scalar, tuple(python_tree(scalar.text.rstrip()).body))
    except SyntaxError as error:
        position = scalar.at(error.lineno or 1, (error.offset or 1) - 1)
        return diagnostics.error(position, f"not an expression of the language: {error.msg}")
    if not code.body:
        return diagnostics.error(scalar.span, "the text is empty")
    _check_columns(code, diagnostics)
    is_valid = True
    for statement in code.body:
        is_valid = _check_construct(code, statement, diagnostics, way_out) and is_valid
    return code if is_valid else None


def _check_columns(code: Code, diagnostics: Diagnostics) -> None:
    max_columns = diagnostics.max_columns
    if max_columns is None:
        return
    for number, line in enumerate(code.text.split("\n")):
        width = code.scalar.at(number + 1, len(line)).column - 1
        if width > max_columns:
            position = replace(code.span, line=code.span.line + number, column=max_columns + 1)
            diagnostics.error(
                position, f"the line has {width} columns, at most {max_columns} are allowed"
            )


def _check_construct(
    code: Code, root: ast.AST, diagnostics: Diagnostics, way_out: tuple[str, str]
) -> bool:
    is_valid = True
    for node in _walk_nodes(root):
        if _is_allowed(node):
            continue
        name = _NAMES.get(type(node), type(node).__name__)
        diagnostics.error(
            code.at(node),
            f"{name} is outside the language",
            notes=[way_out[0]],
            fix=way_out[1],
        )
        is_valid = False
    return is_valid


def _walk_nodes(root: ast.AST) -> list[ast.AST]:
    """Return ``root`` and the nodes below it, without the ``ms.Op`` of a call ``ms.Op(...)``."""
    nodes: list[ast.AST] = []
    stack = [root]
    while stack:
        node = stack.pop()
        nodes.append(node)
        if not _is_allowed(node):
            continue  # parts of a disallowed construct need no further error
        children = list(ast.iter_child_nodes(node))
        if isinstance(node, ast.Call) and domain_call(node.func) is not None:
            children = [*node.args, *node.keywords]
        stack.extend(children)
    return nodes


def _is_allowed(node: ast.AST) -> bool:
    return isinstance(node, (*_EXPRESSIONS, *_OPERATORS, *_STATEMENTS)) and not _is_misused(node)


def _is_misused(node: ast.AST) -> bool:
    """Whether a node of an allowed class is used in a disallowed way, such as ``a = b = x``."""
    if isinstance(node, ast.Assign | ast.Return | ast.Expr) and isinstance(node.value, ast.Starred):
        return True  # '*xs' is valid only inside a call or a list
    if isinstance(node, ast.Assign):
        return len(node.targets) != 1 or not _is_target(node.targets[0])
    if isinstance(node, ast.ListComp):
        return len(node.generators) != 1 or any(
            isinstance(n, ast.ListComp) for n in ast.walk(node) if n is not node
        )
    if isinstance(node, ast.comprehension):
        return bool(node.is_async) or not _is_target(node.target)
    if isinstance(node, ast.Constant):
        return isinstance(node.value, bytes) or node.value is ...
    return isinstance(node, ast.keyword) and node.arg is None


def _is_target(node: ast.expr) -> bool:
    if isinstance(node, ast.Tuple):
        return all(isinstance(element, ast.Name) for element in node.elts)
    return isinstance(node, ast.Name)


def domain_call(function: ast.expr) -> tuple[str, str] | None:
    """Return ``(domain, op)`` if the called function is written ``ms.Op``, else None."""
    if (
        isinstance(function, ast.Attribute)
        and isinstance(function.value, ast.Name)
        and function.value.id in DOMAINS
    ):
        return DOMAINS[function.value.id], function.attr
    return None


def is_call(node: ast.AST | None, *words: str) -> TypeGuard[ast.Call]:
    """Whether ``node`` calls a function by name: by one of ``words``, if there are any."""
    name = called_name(node)
    return name in words if words else bool(name)


def is_none_literal(node: ast.AST) -> TypeGuard[ast.Constant]:
    """Whether ``node`` is the literal ``None``."""
    return isinstance(node, ast.Constant) and node.value is None


def called_name(node: ast.AST | None) -> str:
    """Return the name of the function that ``node`` calls; "" for other nodes and ``ms.Op()``."""
    return node.func.id if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) else ""


def names_in(*nodes: ast.AST) -> list[ast.Name]:
    """Return the `ast.Name` nodes of pieces of code, both read and assigned."""
    return [child for node in nodes for child in ast.walk(node) if isinstance(child, ast.Name)]


def onnx_call(node: ast.AST) -> tuple[str, str] | None:
    """Return ``(domain, op)`` if ``node`` calls ``Op`` or ``ms.Op``, which makes one ONNX node."""
    if not isinstance(node, ast.Call):
        return None
    if isinstance(node.func, ast.Name) and node.func.id[:1].isupper():
        return "", node.func.id
    return domain_call(node.func)

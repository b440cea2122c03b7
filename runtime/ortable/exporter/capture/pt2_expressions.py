"""Decide whether a text of a saved program is arithmetic on sizes, before anything evaluates it.

torch evaluates the texts of sizes with sympy, and writes those of guards into a Python function.
pt2_validation.py checks the texts of files with this module; guards.py those of programs.
"""

from __future__ import annotations

import ast
import math
import re
from collections.abc import Iterator

_MAX_TEXT_LENGTH = 20_000  # characters of a size or guard
_MAX_INTEGER = 1 << 64
_MAX_EXPONENT = 64
_NODES = (
    ast.Expression, ast.Name, ast.Constant, ast.BinOp, ast.UnaryOp, ast.Compare, ast.BoolOp,
    ast.Call, ast.keyword, ast.Subscript, ast.Attribute, ast.IfExp, ast.Load, ast.operator,
    ast.unaryop, ast.cmpop, ast.boolop,
)  # fmt: skip
_ATTRIBUTES = {"size", "stride", "storage_offset", "shape", "ndim", "dim", "_base", "is_integer"}
_MATH = re.compile(r"math\.(ceil|floor|trunc|sqrt|pi|e|inf|nan|a?(?:sin|cos|tan)h?|exp|log(?:2)?)")
# Functions that torch writes: of Python, of sympy, and of torch.utils._sympy.functions.
_FUNCTION = re.compile(
    r"max|min|abs|int|float|bool|round|floor|ceiling|sqrt|exp|log|cast_symbool_to_symint_guardless|"
    r"sym_\w+|Symbol|Integer|Float|Rational|Half|Zero|(Negative)?(One|Infinity|IntInfinity)|NaN|"
    r"Add|Mul|Max|Min|Abs|Eq|Ne|L[te]|G[te]|And|Or|Not|Xor|Piecewise|ExprCondPair|Tuple|Where|"
    r"Boolean(True|False)|(Une|E)quality|(Strict)?(Less|Greater)Than|Identity|Mod|PythonMod|"
    r"Pow|PowByNatural|FloatPow|LShift|RShift|FloorDiv|CleanDiv|CeilDiv|FloatTrueDiv|IntTrueDiv|"
    r"ModularIndexing|IsNonOverlappingAndDenseIndicator|(Ceil|Floor|Round|Trunc)To(Int|Float)|"
    r"RoundDecimal|ToFloat|OpaqueUnaryFn_\w+|BitwiseFn_\w+"
)
_NUMBERS = ("Integer", "Float", "Rational")
_POWERS = ("Pow", "PowByNatural", "FloatPow", "LShift")
_NAME = re.compile(r"[\w.\-]+")
# torch writes the key of an input between quotes, in code: L['the input']
_UNSAFE_IN_KEY = re.compile(r"""["'\\\x00-\x1f\x7f]""")


def is_arithmetic(text: str) -> bool:
    """Return whether a text is an expression of sizes in torch's format.

    It may have numbers, names, operators, functions of torch (``torch.sym_float``) and sympy, and
    sizes of inputs (``L['the input'].size()[0]``). Numbers and exponents are limited, so that the
    value of the expression is, too.
    """
    try:
        tree = ast.parse(text.strip(), mode="eval") if len(text) <= _MAX_TEXT_LENGTH else None
        return tree is not None and all(map(_is_harmless, _expression_nodes(tree)))
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return False


def _expression_nodes(tree: ast.AST) -> Iterator[ast.AST]:
    """Yield the nodes of an expression except keys, ``['the input']``, that torch can quote."""
    stack = [tree]
    while stack:
        node = stack.pop()
        yield node
        stack += [child for child in ast.iter_child_nodes(node) if not _is_key(child, node)]


def _is_key(node: ast.AST, parent: ast.AST) -> bool:
    """Return whether a node is the text between the brackets of its parent."""
    if not isinstance(parent, ast.Subscript) or node is not parent.slice:
        return False
    text = node.value if isinstance(node, ast.Constant) else None
    return isinstance(text, str) and not _UNSAFE_IN_KEY.search(text)


def _is_harmless(node: ast.AST) -> bool:
    if not isinstance(node, _NODES):
        return False
    if isinstance(node, ast.Name):
        return "__" not in node.id
    if isinstance(node, ast.Constant):
        value = node.value
        if isinstance(value, str):  # the name of a symbol, or the digits of a Float
            is_finite = value[:1] not in "-.0123456789" or math.isfinite(float(value))
            return bool(_NAME.fullmatch(value)) and "__" not in value and is_finite
        return not isinstance(value, int) or abs(value) <= _MAX_INTEGER
    if isinstance(node, ast.keyword):
        return node.arg != "precision" or _is_small_number(node.value)
    if isinstance(node, ast.Attribute):
        if isinstance(node.value, ast.Name) and node.value.id in ("math", "torch"):
            name = f"{node.value.id}.{node.attr}"
            return name.startswith("torch.sym_") or _MATH.fullmatch(name) is not None
        return node.attr in _ATTRIBUTES
    if isinstance(node, ast.Call) and isinstance(node.func, ast.Name):
        is_known = _FUNCTION.fullmatch(node.func.id) is not None
        return is_known and _is_small_power(node)
    if isinstance(node, ast.Call):
        return isinstance(node.func, ast.Attribute)
    if isinstance(node, ast.BinOp):
        return _is_small_power(node) and not _is_text(node.left) and not _is_text(node.right)
    return True


def _is_text(node: ast.AST) -> bool:
    return isinstance(node, ast.Constant) and isinstance(node.value, str | bytes)


def _power_parts(node: ast.AST) -> list[ast.expr]:
    """Return base and exponent of a power or shift; nothing for other nodes."""
    if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Pow | ast.LShift):
        return [node.left, node.right]
    if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id in _POWERS:
        return [*node.args, *(keyword.value for keyword in node.keywords)]
    return []


def _is_small_power(node: ast.AST) -> bool:
    """Return whether a node is no power, or one of a small constant exponent without powers."""
    parts = _power_parts(node)
    if not parts:
        return True
    base, *exponents = parts
    if not all(map(_is_small_number, exponents)):
        return False
    return not any(_power_parts(part) for part in ast.walk(base))


def _is_small_number(node: ast.AST) -> bool:
    """Return whether a node is a small number, such as ``-3`` and ``Rational(1, 2)``."""
    if isinstance(node, ast.UnaryOp):
        return _is_small_number(node.operand)
    if isinstance(node, ast.Call):
        is_number = isinstance(node.func, ast.Name) and node.func.id in _NUMBERS
        return is_number and bool(node.args) and all(map(_is_small_number, node.args))
    value = node.value if isinstance(node, ast.Constant) else None
    return isinstance(value, int | float | str) and abs(float(value)) <= _MAX_EXPONENT

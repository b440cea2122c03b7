"""What operators of ONNX have in common is said by traits in specs/onnx: no set of their names, no
``in ("Relu", "Sigmoid")`` and no chain of ``or`` states it in Python. Tables from an operator to
what is done with it are no such sets."""

from __future__ import annotations

import ast
import textwrap
from collections.abc import Iterator

from ortablegen.schemas.onnx import known_domains, operators
from tests.packaging.files import ROOT

NAMES = {name for domain in known_domains() for name in operators(domain)}
# The sets that are no property of operators.
EXCEPTIONS = {
    "Add Max Min Mul": "classes of sympy's expressions, in the key of a graph",
    "Concat MaxPool": "what a lowering of max_pool looks through for a Relu",
    "Relu Sigmoid": "what a lowering of max_pool looks for",
    "Cast Identity": "what a lowering of matmul looks through for a Transpose",
    "Clip DynamicQuantizeLinear": "what the lowerings of quantized operators make codes with",
}


def _texts(node: ast.AST) -> list[str]:
    """The strings of a literal collection, perhaps inside ``frozenset(...)``."""
    if isinstance(node, ast.Call) and ast.unparse(node.func) in ("frozenset", "set", "tuple"):
        return _texts(node.args[0]) if node.args else []
    if not isinstance(node, ast.Set | ast.Tuple | ast.List):
        return []
    return [e.value for e in node.elts if isinstance(e, ast.Constant) and isinstance(e.value, str)]


def _collections(tree: ast.Module) -> Iterator[tuple[int, list[str]]]:
    """Line and strings of what looks like a property: a set anywhere, a collection behind ``in`` or
    at the top of a module, a chain of comparisons joined by ``or``."""
    for statement in tree.body:
        if isinstance(statement, ast.Assign) and ast.unparse(statement.targets[0]) != "__all__":
            yield statement.lineno, _texts(statement.value)
    for node in ast.walk(tree):
        if isinstance(node, ast.Set):
            yield node.lineno, _texts(node)
        elif isinstance(node, ast.Compare) and isinstance(node.ops[0], ast.In | ast.NotIn):
            yield node.lineno, _texts(node.comparators[0])
        elif isinstance(node, ast.BoolOp):
            sides = [
                v.comparators[0]
                for v in node.values
                if isinstance(v, ast.Compare)
                if isinstance(v.ops[0], ast.Eq if isinstance(node.op, ast.Or) else ast.NotEq)
            ]
            yield node.lineno, _texts(ast.Tuple(sides))


def found_in(tree: ast.Module) -> list[tuple[int, str]]:
    """Lines and the names of operators there, sorted, where there are two or more."""
    found = {(line, " ".join(sorted(NAMES & set(texts)))) for line, texts in _collections(tree)}
    return sorted((line, names) for line, names in found if " " in names)


def test_no_set_of_operators_of_onnx_stands_in_python() -> None:
    wrong, met = [], set()
    for root in ("runtime", "codegen"):
        for path in sorted((ROOT / root).rglob("*.py")):
            for line, names in found_in(ast.parse(path.read_text(encoding="utf-8"))):
                met.add(names)
                if names not in EXCEPTIONS:
                    wrong.append(f"{path.relative_to(ROOT)}:{line}: {names}")
    assert not wrong, "say it by a trait in specs/onnx (docs/language.md):\n" + "\n".join(wrong)
    assert met == set(EXCEPTIONS), "an exception that nothing needs"


def test_what_is_found() -> None:
    code = """
    _MOVES = frozenset({"Expand", "Slice"})
    _PRODUCTS = ("MatMul", "FusedMatMul")
    TABLE = {"Less": 1, "Greater": 2}
    def f(op):
        if op in ("Cos", "Sin") or op == "Cast":
            return {"Add", "not an operator"}
        return op == "Exp" or op == "Log", ("Relu", "Elu")[0], op != "Sum" and op != "Mean"
    """
    found = found_in(ast.parse(textwrap.dedent(code)))
    assert sorted(names for _, names in found) == [
        "Cos Sin", "Exp Log", "Expand Slice", "FusedMatMul MatMul", "Mean Sum",
    ]  # fmt: skip

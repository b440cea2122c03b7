"""Properties of operators are traits in specs/onnx and specs/aten, never sets in Python.

No set of operator names, no ``in ("Relu", "Sigmoid")`` and no chain of ``or`` states a property.
A table from operators to handlers is not such a set.
"""

from __future__ import annotations

import ast
import re
import textwrap
from collections.abc import Iterator

from ortablegen.schemas.onnx import DOMAIN_RANGE, operators
from tests.packaging.files import ROOT

OPERATORS = {name for domain in DOMAIN_RANGE for name in operators(domain)}
# Sets that state no property of operators.
EXCEPTIONS = {
    "Add Max Min Mul": "classes of sympy's expressions, in the key of a graph",
    "Concat MaxPool": "what a lowering of max_pool looks through for a Relu",
    "Relu Sigmoid": "what a lowering of max_pool looks for",
    "Div Mod": "where a case of a rewrite must not draw a 0: ONNX Runtime stops the process",
    "Bernoulli CenterCropPad": "what no spec writes, says the harness of their cases",
}


def _strings(node: ast.AST) -> list[str]:
    """Return the strings of a literal collection, also inside ``frozenset(...)``."""
    if isinstance(node, ast.Call) and ast.unparse(node.func) in ("frozenset", "set", "tuple"):
        return _strings(node.args[0]) if node.args else []
    if not isinstance(node, ast.Set | ast.Tuple | ast.List):
        return []
    return [e.value for e in node.elts if isinstance(e, ast.Constant) and isinstance(e.value, str)]


def _literals(tree: ast.Module) -> Iterator[tuple[int, list[str]]]:
    """Yield the line and strings of each expression that may state a property.

    These are sets, collections after ``in`` or at the top of a module, and chains of ``or``.
    """
    for statement in tree.body:
        if isinstance(statement, ast.Assign) and ast.unparse(statement.targets[0]) != "__all__":
            yield statement.lineno, _strings(statement.value)
    for node in ast.walk(tree):
        if isinstance(node, ast.Set):
            yield node.lineno, _strings(node)
        elif isinstance(node, ast.Compare) and isinstance(node.ops[0], ast.In | ast.NotIn):
            yield node.lineno, _strings(node.comparators[0])
        elif isinstance(node, ast.BoolOp):
            sides = [
                v.comparators[0]
                for v in node.values
                if isinstance(v, ast.Compare)
                if isinstance(v.ops[0], ast.Eq if isinstance(node.op, ast.Or) else ast.NotEq)
            ]
            yield node.lineno, _strings(ast.Tuple(sides))


def find_sets(tree: ast.Module) -> list[tuple[int, str]]:
    """Return each line that names two or more operators, with their sorted names."""
    result = {(line, " ".join(sorted(OPERATORS & set(texts)))) for line, texts in _literals(tree)}
    return sorted((line, names) for line, names in result if " " in names)


def test_no_set_of_operators_of_onnx_stands_in_python() -> None:
    lines, used = [], set()
    for root in ("runtime", "codegen"):
        for path in sorted((ROOT / root).rglob("*.py")):
            for line, names in find_sets(ast.parse(path.read_text(encoding="utf-8"))):
                used.add(names)
                if names not in EXCEPTIONS:
                    lines.append(f"{path.relative_to(ROOT)}:{line}: {names}")
    assert not lines, "state it as a trait in specs/onnx (docs/language.md):\n" + "\n".join(lines)
    assert used == set(EXCEPTIONS), "an exception that is not used"


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
    matches = find_sets(ast.parse(textwrap.dedent(code)))
    assert sorted(names for _, names in matches) == [
        "Cos Sin", "Exp Log", "Expand Slice", "FusedMatMul MatMul", "Mean Sum",
    ]  # fmt: skip


TORCH_KEY = re.compile(r"(?:aten|prims|prim|quantized|torchvision|higher_order)::\w")
TORCH_NAME = re.compile(r"(?:torch\.ops\.)?(?:aten|prims)\.\w|operator\.\w")
# Files that name several operators of torch in one expression, and why they state no property.
TORCH_EXCEPTIONS = {
    "backend/execute/call_source.py": "the three views that a generated call makes itself",
    "backend/lower/aot_graph.py": "one operator, copy_, by its overload and its packet",
    "backend/lower/recompose.py": "patterns of torch's decompositions, matched node by node",
    "backend/partition/placement.py": "the two nodes that stand for an uninitialized result",
    "exporter/capture/patches.py": "the operators whose shape functions are replaced",
    "interpreter/assertions.py": "the two comparisons that torch writes around a size",
    "lowerings/control_flow.py": "the checks that with_effects leaves out: no ONNX node can stop",
}


def torch_names(node: ast.AST) -> set[str]:
    """Return the torch operators and number functions that a literal or comparison chain names."""
    elements: list[ast.expr | None] = []
    if isinstance(node, ast.Set | ast.Tuple | ast.List):
        elements = [*node.elts]
    elif isinstance(node, ast.Dict):
        elements = [*node.keys]
    elif isinstance(node, ast.BoolOp):
        elements = [v.comparators[0] for v in node.values if isinstance(v, ast.Compare)]
    names = set()
    for element in elements:
        if isinstance(element, ast.Constant) and TORCH_KEY.match(str(element.value)):
            names.add(str(element.value))
        elif isinstance(element, ast.Attribute) and TORCH_NAME.match(ast.unparse(element)):
            names.add(ast.unparse(element))
    return names


def test_no_set_of_operators_of_torch_stands_in_python() -> None:
    """Properties that torch operators share are ``traits:`` in specs/aten."""
    runtime, lines, used = ROOT / "runtime" / "ortable", [], set()
    for path in sorted(runtime.rglob("*.py")):
        name = path.relative_to(runtime).as_posix()
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            names = torch_names(node)
            if len(names) > 1 and name in TORCH_EXCEPTIONS:
                used.add(name)
            elif len(names) > 1:
                lines.append(f"{name}:{node.lineno}: {sorted(names)}")  # type: ignore[attr-defined]
    assert not lines, "state it as a trait in specs/aten (docs/language.md):\n" + "\n".join(lines)
    assert used == set(TORCH_EXCEPTIONS), "an exception that is not used"


def test_what_is_found_of_torch() -> None:
    code = 'x in {"aten::view", "aten::t"}; {aten.add.Tensor: 1, aten.mul.Tensor: 2}; ("a", "b")'
    name_lists = [sorted(torch_names(node)) for node in ast.walk(ast.parse(code))]
    assert sorted(names for names in name_lists if len(names) > 1) == [
        ["aten.add.Tensor", "aten.mul.Tensor"],
        ["aten::t", "aten::view"],
    ]

"""What operators have in common is said by traits in specs/onnx and specs/aten: no set of their
names, no ``in ("Relu", "Sigmoid")`` and no chain of ``or`` states it in Python. Tables from an
operator of ONNX to what is done with it are no such sets."""

from __future__ import annotations

import ast
import re
import textwrap
from collections.abc import Iterator

from ortablegen.schemas.onnx import DOMAIN_RANGE, operators
from tests.packaging.files import ROOT

NAMES = {name for domain in DOMAIN_RANGE for name in operators(domain)}
# The sets that are no property of operators.
EXCEPTIONS = {
    "Add Max Min Mul": "classes of sympy's expressions, in the key of a graph",
    "Concat MaxPool": "what a lowering of max_pool looks through for a Relu",
    "Relu Sigmoid": "what a lowering of max_pool looks for",
    "Div Mod": "where a case of a rewrite must not draw a 0: ONNX Runtime stops the process",
    "Bernoulli CenterCropPad": "what no spec writes, says the harness of their cases",
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


TORCH_KEY = re.compile(r"(?:aten|prims|prim|quantized|torchvision|higher_order)::\w")
TORCH_NAME = re.compile(r"(?:torch\.ops\.)?(?:aten|prims)\.\w|operator\.\w")
# Files that name several operators of torch at one place, and why that is no property of them.
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
    """Operators of torch, and functions on numbers, that a literal or a chain of comparisons
    names."""
    elements: list[ast.expr | None] = []
    if isinstance(node, ast.Set | ast.Tuple | ast.List):
        elements = [*node.elts]
    elif isinstance(node, ast.Dict):
        elements = [*node.keys]
    elif isinstance(node, ast.BoolOp):
        elements = [v.comparators[0] for v in node.values if isinstance(v, ast.Compare)]
    found = set()
    for each in elements:
        if isinstance(each, ast.Constant) and TORCH_KEY.match(str(each.value)):
            found.add(str(each.value))
        elif isinstance(each, ast.Attribute) and TORCH_NAME.match(ast.unparse(each)):
            found.add(ast.unparse(each))
    return found


def test_no_set_of_operators_of_torch_stands_in_python() -> None:
    """What they have in common is said by ``traits:`` in specs/aten."""
    runtime, wrong, met = ROOT / "runtime" / "ortable", [], set()
    for path in sorted(runtime.rglob("*.py")):
        name = path.relative_to(runtime).as_posix()
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            named = torch_names(node)
            if len(named) > 1 and name in TORCH_EXCEPTIONS:
                met.add(name)
            elif len(named) > 1:
                wrong.append(f"{name}:{node.lineno}: {sorted(named)}")  # type: ignore[attr-defined]
    assert not wrong, "say it by a trait in specs/aten (docs/language.md):\n" + "\n".join(wrong)
    assert met == set(TORCH_EXCEPTIONS), "an exception that nothing needs"


def test_what_is_found_of_torch() -> None:
    code = 'x in {"aten::view", "aten::t"}; {aten.add.Tensor: 1, aten.mul.Tensor: 2}; ("a", "b")'
    found = [sorted(torch_names(node)) for node in ast.walk(ast.parse(code))]
    assert sorted(names for names in found if len(names) > 1) == [
        ["aten.add.Tensor", "aten.mul.Tensor"],
        ["aten::t", "aten::view"],
    ]

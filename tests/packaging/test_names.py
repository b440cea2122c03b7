"""Names of operators stand in the tables: a set of them in Python is a trait that a table lacks."""

from __future__ import annotations

import ast
import re
from functools import cache
from pathlib import Path

import onnx

from tests.packaging.files import ROOT

RUNTIME = ROOT / "runtime" / "ortable"
TORCH_KEY = re.compile(r"(?:aten|prims|prim|quantized|torchvision|higher_order)::\w")
MOST = 1  # operators of one kind in one literal or one chain of comparisons
# Lowerings and words of rewrites say which nodes they make and match: that is what they are for.
MAKERS = ("lowerings/", "prelude/", "passes/rewrite/words/", "passes/analysis/")
# Files that hold a list all the same, each with the reason.
EXCEPTIONS: dict[str, str] = {
    "backend/aot/host_graph.py": "what a cached graph may call: a list that a table could widen",
}


@cache
def onnx_names() -> frozenset[str]:
    return frozenset(schema.name for schema in onnx.defs.get_all_schemas())


def operators(node: ast.AST) -> list[str]:
    """Operators that one literal names: strings, or attributes such as ``aten.view.default``."""
    if isinstance(node, ast.Set | ast.Tuple | ast.List):
        elements = node.elts
    elif isinstance(node, ast.Dict):
        elements = [key for key in node.keys if key is not None]
    elif isinstance(node, ast.BoolOp):
        elements = [
            each.comparators[0]
            for each in node.values
            if isinstance(each, ast.Compare) and isinstance(each.ops[0], ast.Eq | ast.NotEq)
        ]
    else:
        return []
    found = []
    for each in elements:
        if isinstance(each, ast.Constant) and isinstance(each.value, str):
            if each.value in onnx_names() or TORCH_KEY.match(each.value):
                found.append(each.value)
        elif isinstance(each, ast.Attribute):
            text = ast.unparse(each)
            if re.match(r"(?:torch\.ops\.)?(?:aten|prims)\.|operator\.|math\.", text):
                found.append(text)
    return found


def lists_of_operators() -> dict[str, list[str]]:
    """File -> what its literals name, for files that no exception covers."""
    found: dict[str, list[str]] = {}
    for path in sorted(RUNTIME.rglob("*.py")):
        name = path.relative_to(RUNTIME).as_posix()
        if name.startswith(MAKERS):
            continue
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            named = operators(node)
            if len(named) > MOST:
                found.setdefault(name, []).append(f"{node.lineno}: {named[:6]}")  # type: ignore[attr-defined]
    return found


def test_a_set_and_a_chain_are_found() -> None:
    code = 'a = {"Cast", "Relu"}\nb = op == "Cast" or op == "Relu"\nc = ("red", "Relu")'
    found = [operators(node) for node in ast.walk(ast.parse(code))]
    assert [each for each in found if len(each) > MOST] == [["Cast", "Relu"], ["Cast", "Relu"]]


def test_names_of_operators_stand_in_tables() -> None:
    wrong = {name: what for name, what in lists_of_operators().items() if name not in EXCEPTIONS}
    assert not wrong, "\n".join(f"{name} {each}" for name, what in wrong.items() for each in what)


def test_every_exception_is_still_one() -> None:
    assert set(EXCEPTIONS) <= set(lists_of_operators())
    assert all((RUNTIME / name).exists() and len(why) > 20 for name, why in EXCEPTIONS.items())


def test_the_makers_exist() -> None:
    assert all((Path(RUNTIME) / folder).is_dir() for folder in MAKERS)

"""The architecture: imports point down the layers, in no circle, and nothing reaches into the
private parts of another package."""

from __future__ import annotations

import ast
import subprocess
import sys
from functools import cache
from pathlib import Path

import pytest

from tests.packaging.files import ROOT, imports, module_name

# Lowest layer first. A package imports those of the rows above it in this table, never one of its
# own row. ortable_generated is imported lazily; its packages stand where what they import stands.
LAYERS: tuple[tuple[str, ...], ...] = (
    ("ortable.errors", "ortable.dispatch"),
    ("ortable.compat",),
    ("ortable.dtypes", "ortable.dims"),
    (
        "ortable.inference",
        "ortable_generated.kernels",
        "ortable_generated.kernels_cuda",
        "ortable_generated.tables",
    ),
    ("ortable_generated.onnx",),
    ("ortable.ir",),
    ("ortable.prelude",),
    ("ortable.lowerings", "ortable.passes"),
    ("ortable_generated.aten", "ortable_generated.rewrites"),
    ("ortable.builder", "ortable.interpreter"),
    ("ortable.exporter", "ortable.backend"),
    ("ortable.debug",),
    ("ortable.testing",),
    ("ortable.cli",),
)
LAYER = {name: layer for layer, names in enumerate(LAYERS) for name in names}
TORCHS = {"_version"}  # a tensor's counter of writes; a class of ours has one, too
MAX_LAYERS = 13  # of runtime/ortable, generated code left out
MOST_NAMES = 18  # in runtime/ortable
# Inside a package, its parts in order; modules beside them may import all of them.
PARTS: dict[str, tuple[str, ...]] = {
    "ortable.ir": ("proto", "pictures"),
    "ortable.passes": ("analysis", "rewrite"),
    "ortable.interpreter": ("diagnostics",),
    "ortable.exporter": (
        "frontend",
        "signature",
        "dispatchers",
        "reporting",
        "capture",
        "functions",
        "language_models",
        "observation",
    ),
    "ortable.backend": (
        "sessions",
        "lower",
        "cache",
        "partition",
        "execute",
        "autotune",
        "precompile",
        "aot",
    ),
}
# What a pass reads of the tables of rules, at run time only.
UPWARD = {("ortable.passes", "ortable_generated.rewrites")}


def package(module: str) -> str | None:
    """``ortable.ir.proto.read_model`` -> ``ortable.ir``."""
    parts = module.split(".")
    if len(parts) < 2 or parts[0] not in ("ortable", "ortable_generated"):
        return None
    name = ".".join(parts[:2])
    tables = (
        "ortable_generated.coverage",
        "ortable_generated.decompositions",
        "ortable_generated.foreach",
        "ortable_generated.operator_cost",
        "ortable_generated.sessions",
    )
    return (
        "ortable_generated.tables" if name.startswith((*tables, "ortable_generated.opt")) else name
    )


def sources(*roots: str) -> list[tuple[Path, Path]]:
    """(file, package root) of every Python file below ``roots``."""
    return [(path, ROOT / root) for root in roots for path in sorted((ROOT / root).rglob("*.py"))]


def is_package_front(module: str) -> bool:
    """``ortable/__init__.py`` and ``ortable_generated/__init__.py``: lazy, above all packages; and
    ``python -m ortable``, which calls the shell."""
    return module in ("ortable", "ortable_generated", "ortable.__main__")


@cache
def modules(*roots: str) -> dict[str, tuple[Path, Path]]:
    """Every module below some roots, by its dotted name."""
    return {
        name: (path, root)
        for path, root in sources(*roots)
        if not is_package_front(name := module_name(path, root))
    }


@cache
def edges(*roots: str) -> dict[str, set[str]]:
    """Which modules each module imports, for type checkers and inside functions too."""
    found: dict[str, set[str]] = {}
    for name, (path, root) in modules(*roots).items():
        targets = set()
        for each in imports(path, root):
            target = each.module
            while target and target not in modules(*roots):
                target = target.rpartition(".")[0]
            if target and target != name:
                targets.add(target)
        found[name] = targets
    return found


def circles(graph: dict[str, set[str]]) -> list[list[str]]:
    """Strongly connected components of more than one node (Tarjan 1972)."""
    index: dict[str, int] = {}
    low: dict[str, int] = {}
    stack: list[str] = []
    found: list[list[str]] = []

    def visit(node: str) -> None:
        index[node] = low[node] = len(index)
        stack.append(node)
        for other in graph.get(node, ()):
            if other not in index:
                visit(other)
                low[node] = min(low[node], low[other])
            elif other in stack:
                low[node] = min(low[node], index[other])
        if low[node] == index[node]:
            component = stack[stack.index(node) :]
            del stack[stack.index(node) :]
            if len(component) > 1:
                found.append(sorted(component))

    for node in graph:
        if node not in index:
            visit(node)
    return found


def test_circles_are_found() -> None:
    assert circles({"a": {"b"}, "b": {"c"}, "c": {"b"}, "d": {"a"}}) == [["b", "c"]]


@pytest.mark.parametrize("roots", [("runtime", "generated"), ("codegen",)])
def test_no_module_imports_itself_through_others(roots: tuple[str, ...]) -> None:
    assert not circles(edges(*roots))


def test_every_module_has_a_floor() -> None:
    homeless = {
        name for module in modules("runtime", "generated") if (name := package(module)) not in LAYER
    }
    assert not homeless, f"add to LAYERS, and to docs/architecture.md: {sorted(map(str, homeless))}"


def test_imports_only_point_down() -> None:
    wrong = []
    for importer, (path, root) in modules("runtime", "generated").items():
        here = package(importer)
        for found in imports(path, root):
            there = package(found.module)
            if there is None or there == here or (here, there) in UPWARD:
                continue
            if here == "ortable.cli":
                continue
            if there not in LAYER or LAYER[there] >= LAYER[here]:  # type: ignore[index]
                wrong.append(f"{path.relative_to(ROOT)}:{found.line} imports {found.module}")
    assert not wrong, "\n".join(wrong)


def test_the_house_has_few_floors_and_few_rooms() -> None:
    above: dict[str, set[str]] = {}
    for importer, targets in edges("runtime", "generated").items():
        here = package(importer)
        if here is not None and here.startswith("ortable."):
            mine = above.setdefault(here, set())
            mine |= {p for t in targets if (p := package(t)) != here and p.startswith("ortable.")}

    @cache
    def layer(name: str) -> int:
        return 1 + max((layer(each) for each in above[name]), default=0)

    assert max(layer(name) for name in above) <= MAX_LAYERS
    # a mark for type checkers and the door of `python -m ortable` are no rooms
    besides = {"__pycache__", "py.typed", "__main__.py"}
    listed = [p.name for p in (ROOT / "runtime" / "ortable").iterdir() if p.name not in besides]
    assert len(listed) <= MOST_NAMES, sorted(listed)


@pytest.mark.parametrize("name", PARTS)
def test_parts_of_a_package_stand_in_order(name: str) -> None:
    """A part imports the parts before it. Modules beside the parts may stand on any layer of the
    package, so that a circle between them and a part is one between modules."""
    order = {f"{name}.{part}": place for place, part in enumerate(PARTS[name])}
    wrong = []
    for importer, targets in edges("runtime", "generated").items():
        here = ".".join(importer.split(".")[:3])
        for target in targets:
            there = ".".join(target.split(".")[:3])
            if here in order and there in order and order[there] > order[here]:
                wrong.append(f"{importer} imports {target}")
    assert not wrong, "\n".join(wrong)


def private_names(tree: ast.AST) -> set[str]:
    """Attributes with an underscore that classes of a file define, and its private functions."""
    found = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.FunctionDef | ast.ClassDef):
            found.add(node.name)
        elif isinstance(node, ast.Attribute) and isinstance(node.ctx, ast.Store):
            found.add(node.attr)
        elif isinstance(node, ast.AnnAssign) and isinstance(node.target, ast.Name):
            found.add(node.target.id)
    return {name for name in found if name.startswith("_") and not name.startswith("__")}


def test_no_package_reaches_into_another() -> None:
    """Neither ``from ortable.other import _name``, nor ``value._name`` of a class defined there."""
    trees = {
        name: ast.parse(path.read_text(encoding="utf-8"))
        for name, (path, _) in modules("runtime", "generated").items()
        if name.startswith("ortable.")
    }
    defined: dict[str, set[str]] = {}
    for name, tree in trees.items():
        defined.setdefault(str(package(name)), set()).update(private_names(tree))
    wrong = []
    for name, tree in trees.items():
        here = str(package(name))
        others = set().union(*(names for at, names in defined.items() if at != here)) - TORCHS
        foreign = others - defined[here]
        for node in ast.walk(tree):
            if isinstance(node, ast.Attribute) and node.attr in foreign:
                owner = ast.unparse(node.value).partition(".")[0]
                if owner not in ("self", "cls", "torch", "onnx", "onnxruntime"):
                    wrong.append(f"{name}:{node.lineno} {ast.unparse(node)}")
            elif isinstance(node, ast.ImportFrom):
                taken = [a.name for a in node.names if a.name.startswith("_")]
                target = package(node.module or "") if node.level == 0 else here
                if taken and target is not None and target != here:
                    wrong.append(f"{name}:{node.lineno} imports {taken}")
    assert not wrong, "\n".join(wrong)


def test_packages_do_not_import_the_lazy_front_door() -> None:
    """``from ortable import to_onnx`` inside a package would hide an import that points up.

    The shell may: there is nothing above it.
    """
    wrong = [
        f"{path.relative_to(ROOT)}:{found.line} imports {found.module}"
        for path, root in sources("runtime")
        if not is_package_front(importer := module_name(path, root))
        and package(importer) != "ortable.cli"
        for found in imports(path, root)
        if found.module == "ortable" or package(found.module) not in {None, *LAYER}
    ]
    assert not wrong, "\n".join(wrong)


# The printer of a sympy expression, imported when there is one.
LAZY = {("dims", "sympy")}


@pytest.mark.parametrize("name", ["ir", "dims", "inference", "errors.py"])
def test_the_ground_floors_know_torch_by_its_protocols_only(name: str) -> None:
    place = ROOT / "runtime" / "ortable" / name
    files = sorted(place.rglob("*.py")) if place.is_dir() else [place]
    assert files
    wrong = [
        f"{path.relative_to(ROOT)}:{found.line}"
        for path in files
        for found in imports(path, ROOT / "runtime")
        if found.module.split(".")[0] in ("torch", "sympy")
        and not found.typing_only
        and (name, found.module.split(".")[0]) not in LAZY
    ]
    assert not wrong


# Of codegen, lowest layer first; the front ends of one row know nothing of each other.
CODEGEN = (
    ("source", "stamp"),
    ("schemas",),
    ("language",),
    ("aten", "onnx", "rewrites"),
    ("runtime_tables",),
    ("cli",),
    ("__main__",),
)


def test_codegen_goes_from_source_to_front_ends() -> None:
    layer = {f"ortablegen.{name}": place for place, row in enumerate(CODEGEN) for name in row}
    wrong = []
    for importer, targets in edges("codegen").items():
        here = ".".join(importer.split(".")[:2])
        assert here in layer or here == "ortablegen", f"{importer} has no layer"
        for target in targets:
            there = ".".join(target.split(".")[:2])
            if there in layer and there != here and layer[there] >= layer[here]:
                wrong.append(f"{importer} imports {target}")
    assert not wrong, "\n".join(wrong)


def test_codegen_imports_of_ortable_only_what_needs_no_generated_code() -> None:
    allowed = ("ortable.dtypes", "ortable.errors")
    wrong = [
        f"{path.relative_to(ROOT)}:{found.line} imports {found.module}"
        for path, root in sources("codegen")
        for found in imports(path, root)
        if found.module.split(".")[0] in ("ortable", "ortable_generated")
        and ".".join(found.module.split(".")[:2]) not in allowed
    ]
    assert not wrong, "\n".join(wrong)


def test_codegen_starts_beside_a_broken_generated_tree(tmp_path: Path) -> None:
    """A bad edit of the generator must not lock out the generator."""
    broken = tmp_path / "ortable_generated"
    broken.mkdir()
    (broken / "__init__.py").write_text("this is not Python\n")
    modules = [
        name
        for path, root in sources("codegen")
        if not (name := module_name(path, root)).endswith("__main__")
    ]
    assert "ortablegen" in modules
    code = "\n".join(f"import {name}" for name in modules) + "\nprint('imported')"
    path = [str(tmp_path), str(ROOT / "codegen"), str(ROOT / "runtime")]
    run = subprocess.run(
        [sys.executable, "-c", f"import sys; sys.path[:0] = {path!r}\n{code}"],
        capture_output=True,
        text=True,
        timeout=120,
    )
    assert run.stdout.strip() == "imported", run.stderr

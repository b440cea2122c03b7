"""Imports follow the layers, form no cycle, and use no private name of another package."""

from __future__ import annotations

import ast
import subprocess
import sys
from functools import cache
from pathlib import Path

import pytest

from tests.packaging.files import ROOT, imports, module_name

# Lowest layer first. A package imports packages of the rows above its row in this table only.
# ortable_generated is imported lazily; each of its packages is in the row that its imports need.
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
TORCH_NAMES = {"_version"}  # counts writes of a tensor; a class of ortable has it, too
MAX_LAYERS = 13  # of runtime/ortable, without generated code
MAX_NAMES = 18  # in runtime/ortable
# The parts of a package in order; modules beside the parts may import all of them.
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
# Passes read the tables of rules at run time only.
UPWARD_IMPORTS = {("ortable.passes", "ortable_generated.rewrites")}


def package_of(module: str) -> str | None:
    """Return the package of a module: ``ortable.ir.proto.read_model`` -> ``ortable.ir``."""
    parts = module.split(".")
    if len(parts) < 2 or parts[0] not in ("ortable", "ortable_generated"):
        return None
    name = ".".join(parts[:2])
    tables = (
        "ortable_generated.coverage",
        "ortable_generated.decompositions",
        "ortable_generated.float16",
        "ortable_generated.foreach",
        "ortable_generated.older_opsets",
        "ortable_generated.operator_cost",
        "ortable_generated.sessions",
    )
    return (
        "ortable_generated.tables" if name.startswith((*tables, "ortable_generated.opt")) else name
    )


def list_files(*roots: str) -> list[tuple[Path, Path]]:
    """Return (file, package root) of every Python file below ``roots``."""
    return [(path, ROOT / root) for root in roots for path in sorted((ROOT / root).rglob("*.py"))]


def is_package_front(module: str) -> bool:
    """Return whether a module is a lazy ``__init__.py`` above all packages or the shell command."""
    return module in ("ortable", "ortable_generated", "ortable.__main__")


@cache
def modules_of(*roots: str) -> dict[str, tuple[Path, Path]]:
    """Return every module below some roots by its dotted name."""
    return {
        name: (path, root)
        for path, root in list_files(*roots)
        if not is_package_front(name := module_name(path, root))
    }


@cache
def import_graph(*roots: str) -> dict[str, set[str]]:
    """Map each module to the modules it imports, also in functions and for type checkers."""
    graph: dict[str, set[str]] = {}
    for name, (path, root) in modules_of(*roots).items():
        targets = set()
        for item in imports(path, root):
            target = item.module
            while target and target not in modules_of(*roots):
                target = target.rpartition(".")[0]
            if target and target != name:
                targets.add(target)
        graph[name] = targets
    return graph


def find_cycles(graph: dict[str, set[str]]) -> list[list[str]]:
    """Return the strongly connected components of more than one node (Tarjan 1972)."""
    index: dict[str, int] = {}
    low: dict[str, int] = {}
    stack: list[str] = []
    components: list[list[str]] = []

    def visit(node: str) -> None:
        index[node] = low[node] = len(index)
        stack.append(node)
        for neighbor in graph.get(node, ()):
            if neighbor not in index:
                visit(neighbor)
                low[node] = min(low[node], low[neighbor])
            elif neighbor in stack:
                low[node] = min(low[node], index[neighbor])
        if low[node] == index[node]:
            component = stack[stack.index(node) :]
            del stack[stack.index(node) :]
            if len(component) > 1:
                components.append(sorted(component))

    for node in graph:
        if node not in index:
            visit(node)
    return components


def test_circles_are_found() -> None:
    assert find_cycles({"a": {"b"}, "b": {"c"}, "c": {"b"}, "d": {"a"}}) == [["b", "c"]]


@pytest.mark.parametrize("roots", [("runtime", "generated"), ("codegen",)])
def test_no_module_imports_itself_through_others(roots: tuple[str, ...]) -> None:
    assert not find_cycles(import_graph(*roots))


def test_every_module_has_a_floor() -> None:
    unlisted = {
        name
        for module in modules_of("runtime", "generated")
        if (name := package_of(module)) not in LAYER
    }
    assert not unlisted, f"add to LAYERS, and to docs/architecture.md: {sorted(map(str, unlisted))}"


def test_imports_only_point_down() -> None:
    violations = []
    for importer, (path, root) in modules_of("runtime", "generated").items():
        source = package_of(importer)
        for item in imports(path, root):
            used = package_of(item.module)
            if used is None or used == source or (source, used) in UPWARD_IMPORTS:
                continue
            if source == "ortable.cli":
                continue
            if used not in LAYER or LAYER[used] >= LAYER[source]:  # type: ignore[index]
                violations.append(f"{path.relative_to(ROOT)}:{item.line} imports {item.module}")
    assert not violations, "\n".join(violations)


def test_the_house_has_few_floors_and_few_rooms() -> None:
    packages: dict[str, set[str]] = {}
    for importer, targets in import_graph("runtime", "generated").items():
        importing = package_of(importer)
        if importing is not None and importing.startswith("ortable."):
            below = packages.setdefault(importing, set())
            below |= {
                p for t in targets if (p := package_of(t)) != importing and p.startswith("ortable.")
            }

    @cache
    def layer(name: str) -> int:
        return 1 + max((layer(lower) for lower in packages[name]), default=0)

    assert max(layer(name) for name in packages) <= MAX_LAYERS
    # the marker for type checkers and the entry point of `python -m ortable` are not counted
    ignored = {"__pycache__", "py.typed", "__main__.py"}
    listed = [p.name for p in (ROOT / "runtime" / "ortable").iterdir() if p.name not in ignored]
    assert len(listed) <= MAX_NAMES, sorted(listed)


@pytest.mark.parametrize("name", PARTS)
def test_parts_of_a_package_stand_in_order(name: str) -> None:
    """A part imports only parts before it.

    Modules beside the parts may be on any layer of the package; another test finds their cycles.
    """
    order = {f"{name}.{part}": index for index, part in enumerate(PARTS[name])}
    violations = []
    for importer, targets in import_graph("runtime", "generated").items():
        source = ".".join(importer.split(".")[:3])
        for target in targets:
            used = ".".join(target.split(".")[:3])
            if source in order and used in order and order[used] > order[source]:
                violations.append(f"{importer} imports {target}")
    assert not violations, "\n".join(violations)


def find_private_names(tree: ast.AST) -> set[str]:
    """Return the private attributes that classes of a file define, and its private functions."""
    names = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.FunctionDef | ast.ClassDef):
            names.add(node.name)
        elif isinstance(node, ast.Attribute) and isinstance(node.ctx, ast.Store):
            names.add(node.attr)
        elif isinstance(node, ast.AnnAssign) and isinstance(node.target, ast.Name):
            names.add(node.target.id)
    return {name for name in names if name.startswith("_") and not name.startswith("__")}


def test_no_package_reaches_into_another() -> None:
    """Packages neither import private names nor read private attributes of another package."""
    trees = {
        name: ast.parse(path.read_text(encoding="utf-8"))
        for name, (path, _) in modules_of("runtime", "generated").items()
        if name.startswith("ortable.")
    }
    defined: dict[str, set[str]] = {}
    for name, tree in trees.items():
        defined.setdefault(str(package_of(name)), set()).update(find_private_names(tree))
    violations = []
    for name, tree in trees.items():
        current = str(package_of(name))
        private_elsewhere = (
            set().union(*(names for at, names in defined.items() if at != current)) - TORCH_NAMES
        )
        foreign = private_elsewhere - defined[current]
        for node in ast.walk(tree):
            if isinstance(node, ast.Attribute) and node.attr in foreign:
                owner = ast.unparse(node.value).partition(".")[0]
                if owner not in ("self", "cls", "torch", "onnx", "onnxruntime"):
                    violations.append(f"{name}:{node.lineno} {ast.unparse(node)}")
            elif isinstance(node, ast.ImportFrom):
                private = [a.name for a in node.names if a.name.startswith("_")]
                target = package_of(node.module or "") if node.level == 0 else current
                if private and target is not None and target != current:
                    violations.append(f"{name}:{node.lineno} imports {private}")
    assert not violations, "\n".join(violations)


def test_packages_do_not_import_the_lazy_front_door() -> None:
    """``from ortable import to_onnx`` would hide an upward import; only the CLI may use it."""
    violations = [
        f"{path.relative_to(ROOT)}:{item.line} imports {item.module}"
        for path, root in list_files("runtime")
        if not is_package_front(importer := module_name(path, root))
        and package_of(importer) != "ortable.cli"
        for item in imports(path, root)
        if item.module == "ortable" or package_of(item.module) not in {None, *LAYER}
    ]
    assert not violations, "\n".join(violations)


# The printer of a sympy expression is imported only where sympy is installed.
LAZY_IMPORTS = {("dims", "sympy")}


@pytest.mark.parametrize("name", ["ir", "dims", "inference", "errors.py"])
def test_the_ground_floors_know_torch_by_its_protocols_only(name: str) -> None:
    location = ROOT / "runtime" / "ortable" / name
    files = sorted(location.rglob("*.py")) if location.is_dir() else [location]
    assert files
    violations = [
        f"{path.relative_to(ROOT)}:{item.line}"
        for path in files
        for item in imports(path, ROOT / "runtime")
        if item.module.split(".")[0] in ("torch", "sympy")
        and not item.typing_only
        and (name, item.module.split(".")[0]) not in LAZY_IMPORTS
    ]
    assert not violations


# Packages of codegen, lowest layer first; the front ends of one row do not import each other.
CODEGEN_ROWS = (
    ("source", "stamp"),
    ("schemas",),
    ("language",),
    ("aten", "onnx", "rewrites"),
    ("runtime_tables",),
    ("cli",),
    ("__main__",),
)


def test_codegen_goes_from_source_to_front_ends() -> None:
    layer = {f"ortablegen.{name}": index for index, row in enumerate(CODEGEN_ROWS) for name in row}
    violations = []
    for importer, targets in import_graph("codegen").items():
        source = ".".join(importer.split(".")[:2])
        assert source in layer or source == "ortablegen", f"{importer} has no layer"
        for target in targets:
            used = ".".join(target.split(".")[:2])
            if used in layer and used != source and layer[used] >= layer[source]:
                violations.append(f"{importer} imports {target}")
    assert not violations, "\n".join(violations)


def test_codegen_imports_of_ortable_only_what_needs_no_generated_code() -> None:
    allowed = ("ortable.dtypes", "ortable.errors")
    violations = [
        f"{path.relative_to(ROOT)}:{item.line} imports {item.module}"
        for path, root in list_files("codegen")
        for item in imports(path, root)
        if item.module.split(".")[0] in ("ortable", "ortable_generated")
        and ".".join(item.module.split(".")[:2]) not in allowed
    ]
    assert not violations, "\n".join(violations)


def test_codegen_starts_beside_a_broken_generated_tree(tmp_path: Path) -> None:
    """A bad edit of the generator leaves the generator usable."""
    broken = tmp_path / "ortable_generated"
    broken.mkdir()
    (broken / "__init__.py").write_text("this is not Python\n")
    modules = [
        name
        for path, root in list_files("codegen")
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

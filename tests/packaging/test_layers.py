"""Imports between the rooms only point down, and codegen never needs what it writes."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from tests.packaging.files import ROOT, imports, module_name

# Ground floor first. A module may import those of its own row and of the rows above it in this
# table; a package (a room with several files) imports freely inside itself.
FLOORS: tuple[tuple[str, ...], ...] = (
    ("ortable.dtypes", "ortable.errors", "ortable.dispatch"),
    ("ortable.dims",),
    ("ortable.inference",),
    ("ortable_generated.onnx", "ortable_generated.kernels", "ortable_generated.decompositions"),
    ("ortable_generated.coverage", "ortable_generated.optimizers"),
    ("ortable.builder",),
    ("ortable.prelude.complex_value",),
    ("ortable.prelude.metadata",),
    ("ortable.prelude.facts", "ortable.prelude.promotion", "ortable.algorithms"),
    ("ortable.lowerings",),
    ("ortable_generated.aten",),
    # the table of rules has the engine's words, and is what the engine chooses from
    ("ortable.passes.rewrite", "ortable_generated.rewrites"),
    ("ortable.interpreter",),
    ("ortable.export",),
    ("ortable.backend",),
    ("ortable.interpreter.user_specs",),
    ("ortable.debug",),
)
FLOOR = {name: floor for floor, names in enumerate(FLOORS) for name in names}


def room(module: str) -> str | None:
    """The entry of FLOORS that a dotted name lies in; ``prelude_x`` lies in ``prelude``."""
    parts = module.split(".")
    if len(parts) < 2 or parts[0] not in ("ortable", "ortable_generated"):
        return None
    name = ".".join(parts[:2])
    return next((known for known in FLOOR if name == known or name.startswith(known + "_")), name)


def sources(*roots: str) -> list[tuple[Path, Path]]:
    """(file, package root) of every Python file below ``roots``."""
    return [(path, ROOT / root) for root in roots for path in sorted((ROOT / root).rglob("*.py"))]


def is_package_front(module: str) -> bool:
    """``ortable/__init__.py`` and ``ortable_generated/__init__.py``: lazy, above all rooms."""
    return module in ("ortable", "ortable_generated")


def test_every_module_has_a_floor() -> None:
    homeless = {
        name
        for path, root in sources("runtime", "generated")
        if (name := room(module_name(path, root))) is not None and name not in FLOOR
    }
    assert not homeless, f"add to FLOORS, and to docs/decisions.md: {sorted(homeless)}"


def test_imports_only_point_down() -> None:
    wrong = []
    for path, root in sources("runtime", "generated"):
        importer = module_name(path, root)
        if is_package_front(importer):
            continue
        here = room(importer)
        if here not in FLOOR:  # reported by test_every_module_has_a_floor
            continue
        for found in imports(path, root):
            there = room(found.module)
            if found.typing_only or there not in FLOOR:
                continue
            if FLOOR[there] > FLOOR[here]:
                wrong.append(f"{path.relative_to(ROOT)}:{found.line} imports {found.module}")
    assert not wrong, "\n".join(wrong)


def test_rooms_do_not_import_the_lazy_front_door() -> None:
    """``from ortable import to_onnx`` inside a room would hide an import that points up.

    The top floor may: there is nothing above it. The version number is no room.
    """
    top = FLOORS[-1]
    wrong = [
        f"{path.relative_to(ROOT)}:{found.line} imports {found.module}"
        for path, root in sources("runtime")
        if not is_package_front(importer := module_name(path, root)) and room(importer) not in top
        for found in imports(path, root)
        if not found.typing_only
        and found.module != "ortable.__version__"
        and (found.module == "ortable" or room(found.module) not in {None, *FLOOR})
    ]
    assert not wrong, "\n".join(wrong)


@pytest.mark.parametrize("name", ["builder", "dims.py", "rules.py", "errors.py"])
def test_the_ground_floor_knows_torch_by_its_protocols_only(name: str) -> None:
    place = ROOT / "runtime" / "ortable" / name
    files = sorted(place.rglob("*.py")) if place.is_dir() else [place]
    assert files
    wrong = [
        f"{path.relative_to(ROOT)}:{found.line}"
        for path in files
        for found in imports(path, ROOT / "runtime")
        if found.module.split(".")[0] in ("torch", "sympy") and not found.typing_only
    ]
    assert not wrong


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

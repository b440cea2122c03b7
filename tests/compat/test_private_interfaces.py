"""Only ortable.compat uses private interfaces of torch, onnx and onnxruntime.

Each interface has a check against the installed version; a failure names what a release changed.
"""

from __future__ import annotations

import ast
import inspect
import re
import sys
from collections.abc import Iterator
from types import ModuleType

import pytest

from ortable.compat import onnx as onnx_compat
from ortable.compat import onnxruntime as onnxruntime_compat
from ortable.compat import torch as torch_compat
from ortable.compat import torch_logging as logging_compat
from ortable.compat.private import MissingName, PrivateName, module_getattr, resolve_name
from ortable.compat.versions import TESTED, installed_version
from ortable.errors import OrtableError, VersionError
from tests.packaging.files import ROOT

from .checks_of_compile import CHECKS_OF_LOGGING
from .checks_of_onnx import CHECKS_OF_ONNX, CHECKS_OF_ONNXRUNTIME
from .checks_of_torch import CHECKS as CHECKS_OF_TORCH

# Each module of ortable.compat and its checks; the modules for torch share one table of names.
LIBRARIES = {
    "torch": (torch_compat, CHECKS_OF_TORCH),
    "torch_logging": (logging_compat, CHECKS_OF_LOGGING),
    "onnx": (onnx_compat, CHECKS_OF_ONNX),
    "onnxruntime": (onnxruntime_compat, CHECKS_OF_ONNXRUNTIME),
}
COMPAT = "runtime/ortable/compat/"
# Private attributes of third-party objects that every package may read, and why.
ATTRIBUTES = {
    "_schema": "of an operator: read at every node of a graph, and in torch.library's own guides",
    "_version": "a tensor's counter of writes: read at every call by the generated call line",
    "_parameters": "of a module: what its documented methods iterate over, to replace entries",
    "_buffers": "of a module: as _parameters",
    "_orig_mod": "of a compiled module: its own, and the prefix that a state_dict has of it",
    "_boxed_call": "a mark on functions of ortable, which AOTAutograd reads",
    "_run": "the method of an operator that onnx.reference calls",
}
# Public names of Python that begin with an underscore.
PYTHONS = {"_asdict", "_fields", "_getframe", "_replace"}
# Namespaces of ATen operators, whose names may begin with an underscore.
OPERATORS = re.compile(r"^(torch\.ops\.)?(aten|prims|torchvision)\._\w+(\.\w+)*$")
PRIVATE = re.compile(
    r"^(torch|onnx|onnxruntime|onnxscript|functorch)\.(\w+\.)*(_[a-z]\w*|_[A-Z]\w*|capi)(\.|$)"
    r"|^torch\.fx\.experimental\b|^onnx\.reference\.(ops|op_run)\b"
)


def dotted_name(node: ast.expr) -> str:
    """Return the dotted name of an attribute, with ``?`` for a base that is no name."""
    parts = []
    while isinstance(node, ast.Attribute):
        parts.append(node.attr)
        node = node.value
    parts.append(node.id if isinstance(node, ast.Name) else "?")
    return ".".join(reversed(parts))


def collect_own_names(tree: ast.Module) -> set[str]:
    """Return the private names that the classes of a module define."""
    names = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.FunctionDef):
            names.add(node.name)
        elif isinstance(node, ast.Attribute) and dotted_name(node.value) in ("self", "cls"):
            names.add(node.attr)
        elif isinstance(node, ast.AnnAssign) and isinstance(node.target, ast.Name):
            names.add(node.target.id)
        elif isinstance(node, ast.Assign) and "__slots__" in map(dotted_name, node.targets):
            names |= {item.value for item in ast.walk(node.value) if isinstance(item, ast.Constant)}
    return names


def find_private_uses(source: str) -> Iterator[tuple[int, str]]:
    """Yield lines and names of the private interfaces that a module uses."""
    tree = ast.parse(source)
    local = collect_own_names(tree)
    for node in ast.walk(tree):
        names: list[str] = []
        if isinstance(node, ast.Import):
            names = [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom) and node.level == 0:
            names = [f"{node.module}.{alias.name}" for alias in node.names]
        elif isinstance(node, ast.Attribute):
            name = dotted_name(node)
            if PRIVATE.search(name) and not OPERATORS.search(name):
                yield node.lineno, name
            elif _is_private(node.attr) and dotted_name(node.value) not in ("self", "cls"):
                legal = node.attr in local | ATTRIBUTES.keys() | PYTHONS or OPERATORS.search(name)
                if not legal:
                    yield node.lineno, name
        elif (
            isinstance(node, ast.Call)
            and node.args
            and isinstance(node.func, ast.Name | ast.Attribute)
        ):
            function = dotted_name(node.func).rpartition(".")[2]
            texts = [a.value for a in node.args if isinstance(a, ast.Constant)]
            if function in ("getattr", "setattr", "hasattr", "delattr"):
                at = [text for text in texts if isinstance(text, str) and _is_private(text)]
                names = [f"torch.{text}" for text in at if text not in ATTRIBUTES.keys() | PYTHONS]
            elif function in ("import_module", "get"):
                names = [text for text in texts if isinstance(text, str)]
        yield from ((node.lineno, name) for name in names if PRIVATE.search(name))


def _is_private(name: str) -> bool:
    return name.startswith("_") and not name.startswith("__")


@pytest.mark.parametrize("root", ["runtime/ortable", "generated"])
def test_private_interfaces_are_used_in_compat_alone(root: str) -> None:
    lines = []
    for path in sorted((ROOT / root).rglob("*.py")):
        file = path.relative_to(ROOT).as_posix()
        if not file.startswith(COMPAT):
            uses = find_private_uses(path.read_text(encoding="utf-8"))
            lines += [f"{file}:{line}: {name}" for line, name in sorted(set(uses))]
    assert not lines, "move these to ortable.compat and add a check of each:\n" + "\n".join(lines)


@pytest.mark.parametrize(
    ("source", "expected"),
    [
        ("import torch._dynamo", ["torch._dynamo"]),
        ("from torch import _guards", ["torch._guards"]),
        ("from torch.utils._pytree import tree_map", ["torch.utils._pytree.tree_map"]),
        ("from onnxruntime.capi import _pybind_state", ["onnxruntime.capi._pybind_state"]),
        ("x = torch._C.DispatchKey", ["torch._C", "torch._C.DispatchKey"]),
        ("operator._dispatch_cache.clear()", ["operator._dispatch_cache"]),
        ("getattr(program, '_guards_code')", ["torch._guards_code"]),
        ("sys.modules.get('torch._dynamo')", ["torch._dynamo"]),
        ("torch.ops.aten._to_copy.default; target._schema; place._replace(a=1)", []),
        ("class A:\n    def _own(self): ...\n    def b(self, other): other._own()", []),
        ("import torch.fx\nfrom torch.export import Dim", []),
    ],
)
def test_private_interfaces_are_found(source: str, expected: list[str]) -> None:
    assert [name for _, name in sorted(set(find_private_uses(source)))] == expected


def _private_names() -> list[tuple[str, str]]:
    return [
        (library, name) for library, (module, _) in LIBRARIES.items() for name in _names(module)
    ]


def _names(module: ModuleType) -> dict[str, PrivateName]:
    return getattr(module, "NAMES", {})


def _functions(module: ModuleType) -> list[str]:
    return [
        name
        for name, value in vars(module).items()
        if inspect.isfunction(value)
        and value.__module__ == module.__name__
        and not name.startswith("_")
    ]


def _library_of(module: str) -> str:
    return module.partition("_")[0]


def _describe(library: str, name: str, claim: str, purpose: str, actual: object) -> str:
    version = f"{_library_of(library)} {installed_version(_library_of(library))}"
    return (
        f"{version} changed ortable.compat.{library}.{name}. "
        f"Expected: {claim}. ortable uses it to {purpose}. Actual: {actual!r}"
    )


@pytest.mark.parametrize(
    ("library", "name"),
    [
        (library, name)
        for library, (module, _) in LIBRARIES.items()
        for name in dict.fromkeys([*_names(module), *_functions(module)])
    ],
)
def test_the_installed_version_has_what_ortable_expects(library: str, name: str) -> None:
    module, checks = LIBRARIES[library]
    assert name in checks, f"add a check of ortable.compat.{library}.{name}"
    claim, check = checks[name]
    entry = _names(module).get(name)
    purpose = entry.purpose if entry is not None else (getattr(module, name).__doc__ or "")
    if entry is not None:
        value = resolve_name(entry)
        assert not isinstance(value, MissingName), _describe(
            library, name, claim, purpose, "nothing"
        )
        assert getattr(module, name, value) is value
        assert _is_kind(value, entry.kind), _describe(library, name, entry.kind, purpose, value)
    try:
        holds = check()
    except Exception as error:
        pytest.fail(_describe(library, name, claim, purpose, error))
    assert holds, _describe(library, name, claim, purpose, "something else")


def _is_kind(value: object, kind: str) -> bool:
    classes = {"class": type, "module": ModuleType}
    if kind == "function":
        return callable(value) and not isinstance(value, ModuleType)
    if kind == "mapping":
        return hasattr(value, "__getitem__") and hasattr(value, "keys")
    return isinstance(value, classes.get(kind, object))


@pytest.mark.parametrize("library", LIBRARIES)
def test_every_function_and_name_is_explained(library: str) -> None:
    module, checks = LIBRARIES[library]
    assert not [name for name in _functions(module) if not getattr(module, name).__doc__]
    assert all(entry.purpose and entry.library == library for entry in _names(module).values())
    assert not set(checks) - {*_names(module), *_functions(module)}, "checks of missing names"


@pytest.mark.parametrize("library", LIBRARIES)
def test_type_checkers_read_the_names_of_the_table(library: str) -> None:
    """The import for type checkers and the table for run time agree."""
    module, _ = LIBRARIES[library]
    for node in ast.parse(inspect.getsource(module)).body:
        if not (isinstance(node, ast.If) and dotted_name(node.test) == "TYPE_CHECKING"):
            continue
        for statement in node.body:
            if isinstance(statement, ast.ImportFrom):
                for alias in statement.names:
                    entry = _names(module)[alias.asname or alias.name]
                    joint = "." if entry.kind == "module" else ":"
                    assert entry.path == f"{statement.module}{joint}{alias.name}"


@pytest.mark.parametrize(("library", "name"), _private_names())
def test_a_name_that_is_gone_is_named_by_the_error(library: str, name: str) -> None:
    entry = LIBRARIES[library][0].NAMES[name]
    missing = PrivateName(f"{entry.path.partition(':')[0]}:no_such_name", entry.kind, entry.purpose)
    stand_in = resolve_name(missing)
    with pytest.raises(VersionError) as raised:
        stand_in(1)
    text = str(raised.value)
    assert f"{library} {installed_version(library)} has no " in text and "no_such_name" in text
    assert entry.purpose in text and TESTED[library][-1] in text
    assert isinstance(raised.value, OrtableError)


def test_a_name_that_was_missing_is_looked_for_again(monkeypatch) -> None:
    """A missing name is looked up again, as another thread may have been importing the library."""
    module = ModuleType("importing")
    monkeypatch.setitem(sys.modules, "importing", module)
    path, being_imported = "torch._being_imported", ModuleType("torch._being_imported")
    find = module_getattr("importing", {"name": PrivateName(f"{path}:name", "value", "test this")})
    monkeypatch.setitem(sys.modules, path, being_imported)
    assert isinstance(find("name"), MissingName) and not hasattr(module, "name")
    being_imported.name = 3
    assert find("name") == 3 and module.name == 3


@pytest.mark.parametrize(
    "use",
    [
        lambda x: x.attribute,
        lambda x: x["key"],
        lambda x: isinstance(1, x),
        lambda x: isinstance(1, (str, x)),
        lambda x: issubclass(int, x),
        lambda x: "a" in x,
        lambda x: list(x),
        lambda x: x | int,
        lambda x: type("Derived", (), {}) and __build_class__(lambda: None, "Derived", x),
        lambda x: x.__enter__(),
    ],
)
def test_whatever_is_done_with_what_is_gone_says_so(use) -> None:
    stand_in = resolve_name(PrivateName("torch._no_such_module:name", "class", "test this"))
    with pytest.raises(VersionError, match="which ortable uses to test this"):
        use(stand_in)

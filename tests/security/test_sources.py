"""The sources run no input as code, start no program and use no network, except where listed."""

from __future__ import annotations

import ast
import functools
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.rotation import ROOT

FOLDERS = ("runtime", "codegen", "generated")
# Modules whose import shows what a file can do.
MODULES = {
    "pickle", "cPickle", "dill", "cloudpickle", "marshal", "shelve", "subprocess", "socket", "ssl",
    "http", "urllib", "requests", "ftplib", "smtplib", "telnetlib", "asyncio", "multiprocessing",
    "ctypes", "cffi", "code", "runpy", "pty", "tarfile", "jsonpickle", "joblib",
}  # fmt: skip
CALLS = {
    "eval", "exec", "compile", "__import__", "input", "breakpoint",
    "os.system", "os.popen", "os.fork", "os.execv", "os.execvp", "os.spawnv", "os.posix_spawn",
    "torch.load", "torch.hub.load", "torch.export.load", "torch.jit.load", "np.load",
    "numpy.load", "yaml.load", "yaml.unsafe_load", "yaml.full_load", "sympy.sympify", "sympify",
    "import_module", "importlib.import_module", "onnx.load", "tempfile.mktemp", "os.tempnam",
    "shutil.unpack_archive",
}  # fmt: skip
# (file, module or call): reason
ALLOWED = {
    ("runtime/ortable/interpreter/user_specs.py", "exec"): "text that the compiler of specs wrote; "
    "test_spec_files.py looks for text of the file in it",
    ("runtime/ortable/interpreter/user_specs.py", "compile"): "as exec",
    ("runtime/ortable/passes/rewrite/rule_selection.py", "exec"): "as for specs",
    ("runtime/ortable/passes/rewrite/rule_selection.py", "compile"): "as for specs",
    ("runtime/ortable/backend/execute/call_source.py", "exec"): "the call of a graph; roles that "
    "come from a cache have the types that they declare, test_caches.py",
    ("runtime/ortable/backend/execute/call_source.py", "compile"): "as exec",
    ("runtime/ortable/exporter/capture/guards.py", "eval"): "guards of torch, arithmetic of sizes: "
    "pt2_expressions.is_arithmetic is tested first, test_programs.py",
    ("runtime/ortable/exporter/capture/guards.py", "compile"): "as eval",
    ("codegen/ortablegen/language/served.py", "exec"): "generated/ortable_generated/kernels.py",
    ("codegen/ortablegen/language/served.py", "compile"): "as exec",
    ("codegen/ortablegen/source/yaml_source.py", "yaml.load"): "with the safe loader: tables of "
    "this repository",
    ("runtime/ortable/backend/precompile/artifact.py", "pickle"): "an artifact of torch's cache "
    "and of aot_compile, which torch unpickles, too: it is code, docs/security.md",
    ("runtime/ortable/exporter/capture/pt2.py", "torch.export.load"): "after pt2_validation",
    ("runtime/ortable/exporter/capture/pt2_validation.py", "torch.load"): "weights_only",
    (
        "runtime/ortable/exporter/observation/subprocess_runner.py",
        "subprocess",
    ): "this interpreter, for a module of the caller that may end it",
    (
        "runtime/ortable/exporter/observation/subprocess_runner.py",
        "np.load",
    ): "files that the process wrote",
    (
        "runtime/ortable/exporter/observation/subprocess_main.py",
        "np.load",
    ): "files that the process wrote",
    ("runtime/ortable/cli/target.py", "importlib.import_module"): "the module that the command "
    "line names",
    (
        "runtime/ortable/debug/comparing/minimizer.py",
        "exec",
    ): "the script of one operator, made of an "
    "operator's schema and values, before it is handed out",
    ("runtime/ortable/debug/comparing/minimizer.py", "compile"): "as exec",
    ("runtime/ortable/debug/comparing/minimizer.py", "eval"): "as exec",
    ("runtime/ortable/cli/specs.py", "importlib.import_module"): "--import and --lowering",
    ("codegen/ortablegen/schemas/registry.py", "importlib.import_module"): "requires: of this "
    "repository's specs; refused in files of users",
    ("runtime/ortable/debug/comparing/exports.py", "onnx.load"): "a model that the caller compares "
    "with a module; onnx reads other files as test_models.py expects",
    **{
        (f"runtime/ortable/{name}.py", "onnx.load"): "a file that ONNX Runtime or ortable wrote"
        for name in (
            "cli/export",
            "debug/explain_call",
            "debug/profiling/record",
            "exporter/transformers_backend",
        )
    },
    **{
        (f"runtime/ortable/{name}.py", "ctypes"): "memory of arrays, and settings of OpenMP"
        for name in (
            "backend/execute/feeds",
            "backend/sessions/session",
            "backend/execute/fork",
            "backend/execute/frozen",
            "backend/execute/runner",
            "backend/execute/weights",
            "exporter/reporting/sessions",
        )
    },
}
# Module names passed to these calls are constants or entries of tables of this repository.
IMPORT_CALLS = ("import_module", "importlib.import_module")
LAZY = {
    "runtime/ortable/__init__.py": "names of __all__",
    "runtime/ortable/dispatch.py": "generated tables",
    "runtime/ortable/debug/__init__.py": "names of __all__",
    "runtime/ortable/backend/__init__.py": "names of __all__",
    "runtime/ortable/cli/draw.py": "two viewers",
    "runtime/ortable/interpreter/__init__.py": "names of __all__",
    "runtime/ortable/passes/rewrite/rule.py": "generated tables",
    "runtime/ortable/compat/private.py": "names of torch's modules",
    "runtime/ortable/compat/versions.py": "names of the libraries",
}


@functools.cache
def _parse_sources() -> tuple[tuple[str, ast.AST], ...]:
    """Return the names of the sources and their trees."""
    paths = [path for folder in FOLDERS for path in sorted((ROOT / folder).rglob("*.py"))]
    return tuple(
        (path.relative_to(ROOT).as_posix(), ast.parse(path.read_text(encoding="utf-8")))
        for path in paths
    )


def _dotted_name(node: ast.AST) -> str:
    if isinstance(node, ast.Name):
        return node.id
    if isinstance(node, ast.Attribute):
        inner = _dotted_name(node.value)
        return f"{inner}.{node.attr}" if inner else ""
    return ""


def _iter_uses(tree: ast.AST) -> Iterator[tuple[str, ast.AST]]:
    """Yield the listed modules and calls that a file uses."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            for alias in node.names:
                if alias.name.partition(".")[0] in MODULES:
                    yield alias.name.partition(".")[0], node
        elif isinstance(node, ast.ImportFrom) and not node.level:
            name = (node.module or "").partition(".")[0]
            if name in MODULES:
                yield name, node
        elif isinstance(node, ast.Call) and _dotted_name(node.func) in CALLS:
            yield _dotted_name(node.func), node


def _collect_uses() -> dict[tuple[str, str], list[ast.AST]]:
    uses: dict[tuple[str, str], list[ast.AST]] = {}
    for name, tree in _parse_sources():
        for use, node in _iter_uses(tree):
            if use not in IMPORT_CALLS or name not in LAZY:
                uses.setdefault((name, use), []).append(node)
    return uses


@pytest.fixture(scope="module")
def uses() -> dict[tuple[str, str], list[ast.AST]]:
    return _collect_uses()


def test_what_is_called_is_listed(uses: dict[tuple[str, str], list[ast.AST]]) -> None:
    assert sorted(set(uses) - set(ALLOWED)) == []


def test_what_is_listed_is_called(uses: dict[tuple[str, str], list[ast.AST]]) -> None:
    assert sorted(set(ALLOWED) - set(uses)) == []
    assert [name for name in LAZY if not Path(ROOT, name).exists()] == []


def test_torch_loads_weights_only(uses: dict[tuple[str, str], list[ast.AST]]) -> None:
    loads = [node for (_, use), nodes in uses.items() if use == "torch.load" for node in nodes]
    assert loads
    for node in loads:
        assert isinstance(node, ast.Call)
        keywords = {keyword.arg: keyword.value for keyword in node.keywords}
        weights_only = keywords.get("weights_only")
        assert isinstance(weights_only, ast.Constant)
        assert weights_only.value is True


def test_numpy_unpickles_nothing(uses: dict[tuple[str, str], list[ast.AST]]) -> None:
    for (_, use), nodes in uses.items():
        if use == "np.load":
            for node in nodes:
                assert isinstance(node, ast.Call)
                assert "allow_pickle" not in {keyword.arg for keyword in node.keywords}


def test_transformers_runs_and_downloads_nothing() -> None:
    """A folder may name code of its own, or weights of the network."""
    calls = [
        node
        for _, tree in _parse_sources()
        for node in ast.walk(tree)
        if isinstance(node, ast.Call)
        and isinstance(node.func, ast.Attribute)
        and node.func.attr == "from_pretrained"
    ]
    assert calls
    for call in calls:
        settings = {keyword.arg: ast.unparse(keyword.value) for keyword in call.keywords}
        assert settings["trust_remote_code"] == "False" and settings["local_files_only"] == "True"

"""`import ortable` is cheap, and every public name exists."""

from __future__ import annotations

import ast
import dataclasses
import importlib.metadata
import inspect
import re
import tomllib

import pytest

import ortable
from ortable.exporter.arguments import ToOnnxKeywords
from tests.child import python
from tests.packaging.files import ROOT, is_type_checking

# Names that the documentation uses; `ortable.__all__` may hold more.
DOCUMENTED = (
    "ExportOptions",
    "ExtendedReferenceEvaluator",
    "draw",
    "DynamoInterpreter",
    "FunctionNotFoundError",
    "GraphBuilder",
    "OrtBackend",
    "OrtOptions",
    "filter_decomposition_table",
    "get_decomposition_table",
    "load_specs",
    "match_input_parameters",
    "observe",
    "onnx_custom_backend",
    "onnx_debug_backend",
    "plot_dot",
    "pretty_onnx",
    "profile",
    "refresh",
    "supported_ops",
    "to_onnx",
)


def find_entry_points(group: str) -> dict[str, str]:
    """Return ortable's entry points in a group by name; skip where ortable is not installed."""
    try:
        distribution = importlib.metadata.distribution("ortable")
    except importlib.metadata.PackageNotFoundError:
        pytest.skip("ortable is not installed in this environment; `make test` installs it")
    return {e.name: e.value for e in distribution.entry_points if e.group == group}


def test_every_name_of_all_can_be_imported() -> None:
    missing = [name for name in ortable.__all__ if not hasattr(ortable, name)]
    assert not missing
    assert len(set(ortable.__all__)) == len(ortable.__all__)


@pytest.mark.parametrize("name", DOCUMENTED)
def test_documented_names_are_public(name: str) -> None:
    assert name in ortable.__all__
    assert getattr(ortable, name) is not None


def parse_typed_imports() -> dict[str, str]:
    """Map each name that type checkers see in ortable/__init__.py to its module."""
    tree = ast.parse((ROOT / "runtime" / "ortable" / "__init__.py").read_text(encoding="utf-8"))
    (block,) = (
        node for node in tree.body if isinstance(node, ast.If) and is_type_checking(node.test)
    )
    modules = {}
    for node in block.body:
        assert isinstance(node, ast.ImportFrom) and node.level == 1, ast.unparse(node)
        for alias in node.names:
            # `import x as x` makes a name of a typed package public
            assert alias.asname == alias.name, ast.unparse(node)
            modules[alias.name] = ".".join(filter(None, ("ortable", node.module)))
    return modules


def test_type_checkers_see_the_names_that_exist_and_where_they_come_from() -> None:
    assert parse_typed_imports() == ortable._PUBLIC


def test_the_docstring_of_the_package_has_a_line_for_each_name() -> None:
    lines = (ortable.__doc__ or "").splitlines()
    listed = [match[1] for line in lines if (match := re.fullmatch(r"    (\w+): .+", line))]
    assert sorted(listed) == ortable.__all__


def test_every_error_is_a_name_of_the_package() -> None:
    classes = {
        name
        for name, value in vars(ortable.errors).items()
        if inspect.isclass(value) and issubclass(value, Exception | Warning)
    }
    assert classes == set(ortable.errors.__all__)
    assert classes <= set(ortable.__all__)


def test_an_unknown_name_is_an_attribute_error() -> None:
    with pytest.raises(AttributeError, match="to_onyx"):
        ortable.to_onyx  # noqa: B018
    with pytest.raises(ImportError, match="to_onyx"):
        from ortable import to_onyx  # noqa: F401


def test_the_version_is_written_in_one_place() -> None:
    """setuptools reads the version of the wheel from the package."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
    assert "version" not in project["project"]
    assert "version" in project["project"]["dynamic"]
    assert project["tool"]["setuptools"]["dynamic"]["version"] == {"attr": "ortable.__version__"}
    assert re.fullmatch(r"\d+\.\d+\.\d+\w*", ortable.__version__)


def test_dir_lists_the_public_names() -> None:
    assert set(ortable.__all__) <= set(dir(ortable))


def test_importing_ortable_imports_no_heavy_library() -> None:
    heavy = ("torch", "onnx", "onnxruntime", "transformers", "numpy", "matplotlib", "ortablegen")
    run = python("-c", f"import sys, ortable\nprint([m for m in {heavy!r} if m in sys.modules])")
    assert run.stdout.strip() == "[]", run.stdout + run.stderr


def test_to_onnx_imports_no_compiler_and_no_model_library() -> None:
    heavy = ("torch._dynamo", "torch._inductor", "transformers", "onnxscript", "matplotlib")
    run = python(
        "-c",
        "import sys, torch, onnx, onnxruntime\nbefore = set(sys.modules)\n"
        "from ortable import to_onnx\n"
        f"print([m for m in {heavy!r} if m in sys.modules and m not in before])",
    )
    assert run.stdout.strip() == "[]", run.stdout + run.stderr


def test_the_backend_is_registered_by_name() -> None:
    installed = find_entry_points("torch_dynamo_backends")
    assert installed == {
        name: f"ortable.backend.aot.entry:{name}" for name in ("ortable", "onnxrt")
    }
    run = python(
        "-c",
        "import torch._dynamo.backends.registry as registry\n"
        "import ortable.backend.aot.entry as entry\n"
        "print('ortable' in registry.list_backends(),"
        " registry.lookup_backend('ortable') is entry.ortable)",
    )
    assert run.stdout.strip() == "True True", run.stdout + run.stderr


def test_the_shell_command_is_declared_and_callable() -> None:
    assert find_entry_points("console_scripts") == {"ortable": "ortable.cli.main:main"}
    run = python("-c", "from ortable.cli.main import main\nprint(callable(main))")
    assert run.stdout.strip() == "True", run.stderr


def test_the_types_of_options_are_those_of_the_options() -> None:
    names = {field.name for field in dataclasses.fields(ortable.OrtOptions)}
    assert set(ortable.OrtOptionsDict.__annotations__) == names
    positional = {"mod", "args", "kwargs"}
    keywords = set(inspect.signature(ortable.to_onnx).parameters) - positional
    assert set(ToOnnxKeywords.__annotations__) == keywords

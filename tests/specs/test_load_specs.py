"""A user's spec file is compiled with the checks of codegen, and the next conversion uses it."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from pathlib import Path

import pytest
import torch

from ortable import load_specs, supported_ops
from ortable.builder import GraphBuilder
from ortable.errors import SpecError
from ortable.interpreter.interpreter import DynamoInterpreter
from ortable.interpreter.tables import LOADED_SPECS
from ortable.testing import entries as harness
from ortable_generated.aten import dispatch, traits
from tests.faults.spots import interrupted_at

pytestmark = pytest.mark.usefixtures("own_specs")

LIBRARY = torch.library.Library("ortable_test_specs", "DEF")
LIBRARY.define("twice_relu(Tensor x, float scale) -> Tensor")
LIBRARY.impl("twice_relu", lambda x, scale: torch.relu(x) * scale, "CompositeExplicitAutograd")
LIBRARY.define("halve(Tensor x) -> Tensor")
LIBRARY.impl("halve", lambda x: x / 2, "CompositeExplicitAutograd")

SPEC = """
- op: ortable_test_specs::twice_relu(Tensor x, float scale) -> Tensor
  out: {shape: same(x), dtype: same(x)}
  lower: return Mul(Relu(x), const(scale, dtype_of(x)))
  samples: [{x: "f32[2,3]", scale: 2.0}]
"""


@pytest.fixture(autouse=True)
def _restore_tables():
    tables = (dispatch.CONVERTERS, dispatch.RULES, dispatch.SPEC_FILES, dispatch.CHECKS)
    saved = [dict(table) for table in tables]
    yield
    for table, entries in zip(tables, saved, strict=True):
        table.clear()
        table.update(entries)


def _restore(contents: list[tuple[str, list[str]]]) -> None:
    """Remove the entries of a file from the tables."""
    for name, names in contents:
        table = (
            LOADED_SPECS
            if name == "LOADED"
            else getattr(dispatch, name, getattr(traits, name, None))
        )
        if table is LOADED_SPECS:
            LOADED_SPECS.clear()
            continue
        for key in [entry for entry in table if str(entry) not in names]:
            table.discard(key) if isinstance(table, set) else table.pop(key)


def _write(tmp_path: Path, text: str) -> Path:
    path = tmp_path / "my_ops.yaml"
    path.write_text(text)
    return path


def _convert_and_run(function, x: torch.Tensor) -> torch.Tensor:
    module = torch.fx.experimental.proxy_tensor.make_fx(function, tracing_mode="fake")(x)
    builder = GraphBuilder(18)
    interpreter = DynamoInterpreter(builder)
    interpreter.run(module)
    feeds = {record.name: x for record in interpreter.inputs}
    return harness.run_onnx(builder.to_onnx(), feeds)[0]


def test_demands_on_data_are_checked_in_the_backend(tmp_path):
    checks = """  checks:
    - {holds: "Greater(x, const(0, dtype_of(x)))", raises: ValueError, message: x is positive,
       repro: {x: "f32[1] = [-1]", scale: 2.0}}
"""
    load_specs(_write(tmp_path, SPEC + checks))
    run = torch.compile(
        lambda x: torch.ops.ortable_test_specs.twice_relu(x, 2.0), backend="ortable"
    )
    assert run(torch.tensor([1.0, 2.0])).tolist() == [2.0, 4.0]
    with pytest.raises(ValueError, match="x is positive"):
        run(torch.tensor([1.0, -2.0]))


VERSIONS = """
- op: ortable_test_specs::halve(Tensor x) -> Tensor
  torch: "<{0}"
  out: {{shape: same(x), dtype: same(x)}}
  lower: return Relu(x)
  samples: [{{x: "f32[2]"}}]
- op: ortable_test_specs::halve(Tensor x{1}) -> Tensor
  torch: ">={0}"
  out: {{shape: same(x), dtype: same(x)}}
  lower: return Mul(x, const(0.5, dtype_of(x)))
  samples: [{{x: "f32[2]"}}]
- op: ortable_test_specs::no_longer(Tensor x) -> Tensor
  torch: "<{0}"
  out: {{shape: same(x), dtype: same(x)}}
  lower: return Relu(x)
  samples: [{{x: "f32[2]"}}]
"""


def test_entries_for_other_versions_of_torch_are_not_loaded(tmp_path: Path) -> None:
    """They are not compared with the installed torch, either."""
    installed = ".".join(torch.__version__.split(".")[:2])
    loaded = load_specs(_write(tmp_path, VERSIONS.format(installed, "")))
    assert loaded.operators == ("ortable_test_specs::halve",)
    x = torch.tensor([1.0, -2.0])
    result = _convert_and_run(lambda x: torch.ops.ortable_test_specs.halve(x), x)
    torch.testing.assert_close(result, x / 2)


def test_the_entry_for_the_installed_torch_is_compared_with_it(tmp_path: Path) -> None:
    installed = ".".join(torch.__version__.split(".")[:2])
    with pytest.raises(SpecError, match="the schema of 'ortable_test_specs::halve' differs"):
        load_specs(_write(tmp_path, VERSIONS.format(installed, ", int y")))


def test_the_tables_hold_what_the_installed_torch_has() -> None:
    """Torch 2.14 removed `qr` and `cholesky`."""
    for key in ("aten::qr", "aten::cholesky"):
        is_there = hasattr(torch.ops.aten, key.removeprefix("aten::"))
        assert (key in dispatch.CONVERTERS, key in dispatch.RULES) == (is_there, is_there)
        assert key in {op.name for op in supported_ops()} or not is_there


def test_a_loaded_spec_converts_a_library_operator(tmp_path: Path) -> None:
    loaded = load_specs(_write(tmp_path, SPEC))
    assert loaded.operators == ("ortable_test_specs::twice_relu",)
    assert any(op.name == "ortable_test_specs::twice_relu" for op in supported_ops())
    x = torch.randn(2, 3)
    result = _convert_and_run(lambda x: torch.ops.ortable_test_specs.twice_relu(x, 2.0), x)
    harness.compare_tensor(result, torch.relu(x) * 2.0)


def test_a_block_of_a_loaded_spec_calls_supported_operators(tmp_path: Path) -> None:
    entry = SPEC.replace("Relu(x)", "aten_relu(x)")
    load_specs(_write(tmp_path, entry))
    x = torch.randn(2, 3)
    result = _convert_and_run(lambda x: torch.ops.ortable_test_specs.twice_relu(x, 2.0), x)
    harness.compare_tensor(result, torch.relu(x) * 2.0)


def test_python_resolves_only_through_the_lowerings_given(tmp_path: Path) -> None:
    text = """
- op: ortable_test_specs::halve(Tensor x) -> Tensor
  out: {shape: same(x), dtype: same(x)}
  lower:
    python: half
    why: to show a lowering of the user's own
  samples: [{x: "f32[2,3]"}]
"""

    def half(graph, res, x):
        return graph.make_node(
            "Div", [x, graph.make_initializer("", torch.tensor(2.0).numpy())], res.outputs
        )

    path = _write(tmp_path, text)
    with pytest.raises(SpecError, match="there is no lowering 'half'"):
        load_specs(path)
    with pytest.raises(SpecError, match=r"there is no lowering 'os\.system'"):
        load_specs(_write(tmp_path, text.replace("python: half", "python: os.system")))
    load_specs(_write(tmp_path, text), lowerings={"half": half})
    x = torch.randn(4)
    harness.compare_tensor(_convert_and_run(torch.ops.ortable_test_specs.halve, x), x / 2)


def test_a_wrong_file_adds_nothing_and_shows_where(tmp_path: Path) -> None:
    with pytest.raises(SpecError, match=r"my_ops\.yaml:4:21: error: ONNX has no operator 'Rellu'"):
        load_specs(_write(tmp_path, SPEC.replace("Relu(x)", "Rellu(x)")))
    assert "ortable_test_specs::twice_relu" not in dispatch.CONVERTERS


def test_an_operator_that_torch_does_not_know_is_named(tmp_path: Path) -> None:
    with pytest.raises(SpecError, match="torch has no operator 'ortable_test_specs::thrice'"):
        load_specs(_write(tmp_path, SPEC.replace("twice_relu", "thrice")))
    with pytest.raises(SpecError, match="fix: import the module that registers it") as caught:
        load_specs(_write(tmp_path, SPEC.replace("ortable_test_specs", "never_imported")))
    assert "shows every error" not in str(caught.value)  # as the message contains every error


def test_lines_of_a_user_may_be_long(tmp_path: Path) -> None:
    long = SPEC.replace("Relu(x)", "Relu(" + "Identity(" * 12 + "x" + ")" * 13)
    assert max(map(len, long.splitlines())) > 100
    assert load_specs(_write(tmp_path, long)).operators


def test_a_rule_in_a_file_of_operators_is_sent_where_rules_are_read(tmp_path: Path) -> None:
    with pytest.raises(SpecError, match="note: rewrites belong in separate files"):
        load_specs(_write(tmp_path, "- rewrite: mine\n  stage: fuse\n"))


@pytest.mark.parametrize(
    "entry",
    [
        "- hop: cond\n  python: ortable.lowerings.control_flow.lower_cond\n  why: a test\n",
        '- {callable: torch.celu, of: "aten::celu"}\n',
    ],
    ids=["hop", "callable"],
)
def test_entries_that_a_file_of_a_user_may_not_hold_are_errors(tmp_path: Path, entry: str) -> None:
    message = r"my_ops\.yaml:\d+.*a user's file may contain only op, alias, number"
    with pytest.raises(SpecError, match=message):
        load_specs(_write(tmp_path, SPEC + entry))
    assert "ortable_test_specs::twice_relu" not in dispatch.CONVERTERS


def test_a_key_with_another_name_now_is_an_error_that_says_it(tmp_path: Path) -> None:
    with pytest.raises(SpecError, match=r"unknown key 'cases' .*: it was renamed to 'samples'"):
        load_specs(_write(tmp_path, SPEC.replace("samples:", "cases:")))


def test_a_file_of_a_user_imports_no_module(tmp_path: Path) -> None:
    text = SPEC.replace("  out:", "  requires: os\n  out:")
    with pytest.raises(SpecError, match="cannot import modules"):
        load_specs(_write(tmp_path, text))


def test_replacing_a_converter_must_be_asked_for(tmp_path: Path) -> None:
    text = """
- op: aten::relu(Tensor self) -> Tensor
  out: {shape: same(self), dtype: same(self)}
  lower: return Max(self, const(0, dtype_of(self)))
  samples: [{self: "f32[2,3]"}]
"""
    if "aten::relu" not in dispatch.CONVERTERS:
        dispatch.CONVERTERS["aten::relu"] = dispatch.RULES["aten::relu"] = lambda *_: None
    path = _write(tmp_path, text)
    with pytest.raises(SpecError, match="override=True"):
        load_specs(path)
    load_specs(path, override=True)
    x = torch.randn(4)
    harness.compare_tensor(_convert_and_run(torch.ops.aten.relu.default, x), torch.relu(x))


def test_a_missing_file_is_an_error_of_ours(tmp_path: Path) -> None:
    with pytest.raises(SpecError, match="cannot read the spec file"):
        load_specs(tmp_path / "absent.yaml")


SPEC_FOR_ALL_TABLES = """
- op: ortable_test_specs::halve(Tensor x) -> Tensor
  traits: [view, compute_bound]
  out: {shape: same(x), dtype: same(x)}
  lower: return Mul(x, const(0.5, dtype_of(x)))
  samples: [{x: "f32[2]"}]
- number: math.log2(float x)
  lower: return Div(Log(x), const(0.6931471805599453, float64))
"""


def _table_contents() -> list[tuple[str, list[str]]]:
    items = [*vars(dispatch).items(), *vars(traits).items()]
    return [("LOADED", [spec_file.path for spec_file in LOADED_SPECS])] + [
        (name, sorted(map(str, table)))
        for name, table in items
        if name.isupper() and isinstance(table, Mapping | set)
    ]


def test_a_file_whose_loading_is_interrupted_is_not_loaded(tmp_path: Path) -> None:
    """A partly loaded file would be unknown to the caches, and be refused when loaded again."""
    path = _write(tmp_path, SPEC_FOR_ALL_TABLES)
    before = _table_contents()
    files = ("user_specs.py", "scoped_patch.py")
    load = partial(load_specs, path, override=True)
    count = interrupted_at(-1, load, files).passed
    loaded = _table_contents()
    assert count > 60 and loaded != before
    complete_loads = 0
    for index in range(count):
        _restore(before)
        interrupt = interrupted_at(index, load, files)
        contents = _table_contents()
        assert contents in (before, loaded), interrupt.where
        complete_loads += contents == loaded
    _restore(before)
    assert complete_loads < 3  # only at the return of the last call

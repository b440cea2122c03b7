"""ExportOptions: capture strategies, fallbacks, saved programs, and comparison with the module."""

from __future__ import annotations

import contextlib
import random
import re
from unittest import mock

import onnx
import pytest
import torch
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.export import Dim

from ortable import ExportOptions, bypass_export_some_errors, to_onnx
from ortable.errors import ExportError, FunctionNotFoundError, OptionError
from ortable.exporter.capture import exported_program, sources

from .helpers import assert_same

X = torch.rand(4, 6)

LIBRARY = torch.library.Library("ortable_strategies", "DEF")
LIBRARY.define("twice(Tensor x) -> Tensor")
LIBRARY.define("whole(Tensor x) -> Tensor")
LIBRARY.impl("whole", torch.empty_like, "Meta")
LIBRARY.impl("twice", lambda x: x + x, "CompositeImplicitAutograd")


@torch.library.custom_op("ortable_strategies::opaque", mutates_args=())
def opaque(x: torch.Tensor) -> torch.Tensor:
    return x.clone()


class Neuron(torch.nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.linear = torch.nn.Linear(6, 3)

    def forward(self, x):
        return torch.nn.functional.hardswish(self.linear(x))


class Branch(torch.nn.Module):
    def forward(self, x):
        if x.sum() > 0:
            return x * 2
        return -x


class Mean(torch.nn.Module):
    def forward(self, x):
        return x / len(x)


class Constant(torch.nn.Module):
    def forward(self, x):
        return x * float(torch.tensor([1.0, 2.0]).numpy().sum())


class Twice(torch.nn.Module):
    def forward(self, x):
        return torch.ops.ortable_strategies.twice(x)


class Opaque(torch.nn.Module):
    def forward(self, x):
        return opaque(x)


class Broken(torch.nn.Module):
    def forward(self, x):
        raise ValueError("bad thing")


class Elsewhere(torch.nn.Module):
    """A model that runs in eager mode and raises during an export."""

    def forward(self, x):
        if torch.compiler.is_exporting():
            raise ValueError("not here")
        return x + 1


class NoDecomposition(torch.nn.Module):
    def forward(self, x):
        return torch.ops.ortable_strategies.whole(x)


class Counted(torch.nn.Module):
    """A model that returns a different result for each call."""

    def forward(self, x):
        return x + random.random()


class Difference(torch.nn.Module):
    def forward(self, x, y):
        return x - 2 * y


def steps(model: onnx.ModelProto) -> str:
    return next((p.value for p in model.metadata_props if p.key == "ortable.steps"), "")


def export(module, *args, dynamic_shapes=None, **options):
    """Return the model and the record of a conversion."""
    model, builder = to_onnx(
        module,
        args,
        dynamic_shapes=dynamic_shapes,
        export_options=ExportOptions(**options),
        return_builder=True,
    )
    return model, builder.record


def operators(model: onnx.ModelProto) -> list[str]:
    return [node.op_type for node in model.graph.node]


def test_both_modes_of_torch_export() -> None:
    module = Neuron()
    for strict in (False, True):
        model, record = export(module, X, strict=strict)
        assert record.strategy == f"torch.export, strict={strict}"
        assert_same(model, module, (X,))


def test_decomposition_tables_by_name() -> None:
    module = Neuron()
    undecomposed, _ = export(module, X)
    without_table, record = export(module, X, decomposition_table="none")
    assert operators(without_table) == operators(undecomposed) and record.steps == []
    for name in ("default", "all"):
        model, record = export(module, X, decomposition_table=name)
        assert f"decomposed with the table '{name}'" in steps(model)
        assert len(model.graph.node) > len(undecomposed.graph.node)
        assert_same(model, module, (X,))


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"decomposition_table": "core"}, r"\(None, 'none', 'default', 'all'\) or a dict"),
        ({"decomposition_table": {"relu": None}}, "maps overloads to functions"),
        ({"save_ep": 3}, "save_ep is the name of a .pt2 file or None, not 3"),
        ({"fallback": 1}, "fallback is True or False, not 1"),
        ({"strict": 1}, "strict is True, False or None, not 1"),
    ],
)
def test_wrong_options_list_what_is_accepted(options, message) -> None:
    with pytest.raises(OptionError, match=message):
        ExportOptions(**options)


def test_the_python_code_is_read_when_it_cannot_run() -> None:
    """Strict mode captures ``len`` of a dynamic dimension and numbers read from a constant."""
    shapes = {"x": {0: "rows"}}
    for module in (Mean(), Constant()):
        model, record = export(module, X, dynamic_shapes=shapes, validate=True)
        assert record.strategy == "torch.export, strict=True"
        assert "because torch.export, strict=False failed: " in steps(model)
        assert_same(model, module, (torch.rand(7, 6),))
        with pytest.raises(ExportError) as raised:
            export(module, X, dynamic_shapes=shapes, strict=False)
        assert "strict=True was tried" not in str(raised.value)


def test_an_error_names_both_ways_that_were_tried() -> None:
    with pytest.raises(ExportError, match="an error raised by the model itself") as raised:
        export(Elsewhere(), X)
    text = str(raised.value)
    assert "\ntorch.export, strict=True was tried after that: " in text
    assert "does the model run" not in text  # the model runs in eager mode


@pytest.mark.parametrize("option", ["strict", "tracing"])
def test_no_other_strategy_beside_the_one_that_was_asked_for(option, monkeypatch) -> None:
    calls = _record_strict(monkeypatch)
    with pytest.raises(ExportError):
        export(Broken(), X, **{option: True})
    assert len(calls) == 1


def test_what_reading_the_code_cannot_help_is_captured_once(monkeypatch) -> None:
    calls = _record_strict(monkeypatch)
    with pytest.raises(FunctionNotFoundError):
        export(Twice(), X)
    assert len(calls) == 1
    with pytest.raises(ExportError, match="register"):
        export(Neuron(), Unregistered(X))
    with pytest.raises(ExportError, match=r"a branch depends on the values[\s\S]*tracing=True"):
        export(Branch(), X)
    with pytest.raises(ExportError, match="raises on the example inputs, without"):
        export(Broken(), X)
    assert len(calls) == 4


def _record_strict(monkeypatch) -> list[bool]:
    """Record the value of ``strict`` at each call of torch.export.export."""
    calls: list[bool] = []
    original = torch.export.export

    def export_and_record(*args, **kwargs):
        calls.append(kwargs["strict"])
        return original(*args, **kwargs)

    monkeypatch.setattr(torch.export, "export", export_and_record)
    return calls


class Unregistered:
    """A class that is not registered with pytree."""

    def __init__(self, x):
        self.x = x


def test_tracing_wins_where_torch_export_fails_and_the_model_says_why(capsys) -> None:
    model, builder = to_onnx(
        Branch(),
        (X,),
        export_options=ExportOptions(fallback=True),
        return_builder=True,
        verbose=1,
    )
    assert builder.record.strategy == "tracing"
    text = steps(model)
    assert "because torch.export, strict=False failed" in text and "strict=True" not in text
    assert "test_strategies.py" in text
    assert "export; tracing; exported with tracing" in capsys.readouterr().out
    assert_same(model, Branch(), (-X,))


def test_decompositions_are_tried_for_operators_without_a_converter() -> None:
    with pytest.raises(FunctionNotFoundError):
        export(Twice(), X)
    model, record = export(Twice(), X, fallback=True)
    assert record.strategy == "decomposition_table='default'"
    assert "no converter for ortable_strategies::twice" in steps(model)
    assert_same(model, Twice(), (X,))


def test_draft_export_is_taken_when_it_only_guesses_shapes() -> None:
    def converter(graph, res, x):
        return graph.make_node("Identity", [x], res.outputs)

    options = {"dispatcher": {"ortable_strategies::opaque": converter}}
    with pytest.raises(ExportError, match="an operator without a shape function in torch"):
        to_onnx(Opaque(), (X,), **options)
    model, builder = to_onnx(
        Opaque(),
        (X,),
        export_options=ExportOptions(fallback=True),
        return_builder=True,
        **options,
    )
    assert builder.record.strategy == "torch.export.draft_export"
    assert "draft export: MISSING_FAKE_KERNEL" in steps(model)
    assert_same(model, Opaque(), (X,))


def test_draft_export_is_refused_where_it_keeps_one_side_of_a_branch() -> None:
    class Endless(torch.nn.Module):
        def __init__(self, first) -> None:
            super().__init__()
            self.first = first

        def forward(self, x):
            x = self.first(x)
            while x.sum() < 10:
                x = x * 2
            return x

    with pytest.raises(ExportError) as raised:
        export(Endless(opaque), X, fallback=True)
    text = str(raised.value)
    assert "draft_export: ExportError: the program holds for the example only" in text
    assert "DATA_DEPENDENT_ERROR" in text
    with pytest.raises(ExportError) as raised:
        export(Endless(torch.neg), -X, fallback=True)
    assert "more than 40 decisions in one run" in str(raised.value)
    assert re.search("not tried, because they would fail too: .*draft_export", str(raised.value))


def test_a_model_that_no_strategy_exports_gets_one_error_with_all_tries(monkeypatch) -> None:
    calls = _record_strict(monkeypatch)
    with pytest.raises(ExportError) as raised:
        export(Elsewhere(), X, fallback=True)
    lines = str(raised.value).splitlines()
    assert lines[0] == "no strategy could export Elsewhere:"
    names = [line.strip().partition(": ")[0] for line in lines[1:4]]
    assert names == [
        "torch.export, strict=False",
        "torch.export, strict=True",
        "not tried, because they would fail too",
    ]
    assert "not here" in lines[1] and "tracing, torch.export.draft_export" in lines[3]
    assert raised.value.__cause__ is not None
    assert len(calls) == 2


def test_a_model_that_fails_in_eager_is_captured_once_and_left_as_it_is(monkeypatch) -> None:
    class Counts(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.register_buffer("count", torch.zeros(1))

        def forward(self, x):
            self.count.add_(1)
            x.mul_(2)
            raise ValueError("bad thing")

    module, x, calls = Counts(), X.clone(), _record_strict(monkeypatch)
    error = r"raises on the example inputs, without torch.export too: ValueError: bad thing\n  at "
    with pytest.raises(ExportError, match=error):
        export(module, x, fallback=True)
    assert len(calls) == 1
    assert module.count.item() == 0 and torch.equal(x, X)


class CallCounter:
    """Mutable state that is restored only by copying the module."""

    def __init__(self) -> None:
        self.number = 0


class NeedsContext(torch.nn.Module):
    """A model that runs in eager mode only with the caller's gradient and autocast modes."""

    def __init__(self) -> None:
        super().__init__()
        self.linear, self.calls = torch.nn.Linear(6, 3), CallCounter()

    def forward(self, x):
        if torch.compiler.is_exporting():
            raise ValueError("not here")
        self.calls.number += 1
        y = self.linear(x)
        if y.dtype != torch.bfloat16:
            raise ValueError(f"computed in {y.dtype}")
        return torch.autograd.grad(y.sum(), x)[0]


def test_the_question_whether_a_model_runs_is_asked_as_the_caller_would() -> None:
    module, x = NeedsContext(), torch.rand(4, 6, requires_grad=True)
    with torch.autocast("cpu", dtype=torch.bfloat16), pytest.raises(ExportError) as raised:
        export(module, x)
    assert "not here" in str(raised.value)
    assert "without torch.export too" not in str(raised.value)
    assert module.calls.number == 0
    with pytest.raises(ExportError, match=r"without torch.export too: ValueError: computed in"):
        export(module, x)
    assert module.calls.number == 0 and x.grad is None and x.requires_grad


def test_an_operator_that_nothing_takes_apart_is_said_at_once(monkeypatch) -> None:
    calls = _record_strict(monkeypatch)
    with pytest.raises(FunctionNotFoundError, match="load_specs"):
        export(NoDecomposition(), X, fallback=True)
    assert len(calls) == 1


def test_the_order_begins_with_what_was_asked_for() -> None:
    _, record = export(Neuron(), X, fallback=True, tracing=True)
    assert record.strategy == "tracing"
    _, record = export(Neuron(), X, fallback=True, strict=True)
    assert record.strategy == "torch.export, strict=True"


def test_the_region_allows_other_strategies() -> None:
    with bypass_export_some_errors():
        model = to_onnx(Branch(), (X,))
    assert "exported with tracing" in steps(model)
    with pytest.raises(ExportError):
        to_onnx(Branch(), (X,))


def test_the_exported_program_is_saved_with_its_text(tmp_path) -> None:
    module, path = Neuron(), tmp_path / "neuron.pt2"
    export(module, X, save_ep=path, decomposition_table="default")
    loaded = torch.export.load(path)
    torch.testing.assert_close(loaded.module()(X), module(X))
    # the saved program is the one before decompositions
    assert "aten.hardswish" in (tmp_path / "neuron.pt2.graph").read_text(encoding="utf-8")
    assert sorted(file.name for file in tmp_path.iterdir()) == ["neuron.pt2", "neuron.pt2.graph"]
    assert_same(to_onnx(loaded), module, (X,))


def test_a_program_that_cannot_be_saved_leaves_nothing_behind(tmp_path) -> None:
    with pytest.raises(ExportError, match=r"folder '.*missing' of ExportOptions\.save_ep"):
        export(Neuron(), X, save_ep=tmp_path / "missing" / "neuron.pt2")

    with pytest.raises(ExportError, match=r"save_ep: torch cannot save the exported program"):
        export(Unserializable(), X, save_ep=tmp_path / "m.pt2")
    assert list(tmp_path.iterdir()) == []


class Point:
    def __init__(self, x):
        self.x = x


class Unserializable(torch.nn.Module):
    """A model that returns a class whose pytree structure cannot be serialized."""

    def forward(self, x):
        return Point(x)


torch.utils._pytree.register_pytree_node(
    Point, lambda point: ([point.x], object()), lambda values, _: Point(values[0])
)


def test_the_exported_program_is_compared_with_the_module() -> None:
    _, record = export(Neuron(), X, validate=True)
    assert "the exported program was compared with the module" in record.steps
    with pytest.raises(ExportError, match=r"and Counted differ on the example inputs.*\n  result"):
        export(Counted(), X, validate=True)


def test_comparison_leaves_module_and_inputs_alone() -> None:
    class Writes(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.register_buffer("count", torch.zeros(6))

        def forward(self, x):
            self.count.add_(1)
            return x.add_(self.count)

    module, x = Writes(), X.clone()
    export(module, x, validate=True)
    assert module.count.tolist() == [0] * 6
    assert torch.equal(x, X)


def test_comparison_needs_data() -> None:
    with FakeTensorMode():
        fake, x = Neuron(), torch.rand(4, 6)
    with pytest.raises(OptionError, match="needs weights and inputs with data"):
        export(fake, x, validate=True)


def test_one_tensor_given_twice_is_two_inputs() -> None:
    model, _ = export(Difference(), X, X, validate=True)
    assert_same(model, Difference(), (X, torch.rand(4, 6)))


def test_dynamic_shapes_hold_in_every_strategy() -> None:
    for options in ({"strict": True}, {"tracing": True}, {"fallback": True}):
        model, _ = export(Neuron(), X, dynamic_shapes={"x": {0: Dim("batch")}}, **options)
        assert model.graph.input[0].type.tensor_type.shape.dim[0].dim_param == "batch"
        assert len(model.graph.node) < 5


def test_a_free_dimension_that_decompositions_fix_is_refused_with_advice() -> None:
    program = torch.export.export(torch.nn.ReLU(), (torch.rand(3, 2),))
    with pytest.raises(ExportError, match="a decomposition made it constant") as raised:
        exported_program._check_free({"input": (None, 2)}, program)
    assert "dimension 0 of input 'input' is 3" in raised.value.message
    assert raised.value.advice[0].startswith("What to do: export inside of ortable.bypass_")


def test_products_of_dynamic_sizes_are_not_ordered_for_the_example(monkeypatch) -> None:
    flags = mock.Mock(return_value=contextlib.nullcontext())
    monkeypatch.setattr(sources, "opt_einsum", mock.Mock(flags=flags))
    model, args = torch.nn.Linear(2, 2), (torch.ones(3, 2),)
    to_onnx(model, args)
    flags.assert_not_called()
    to_onnx(model, args, dynamic_shapes=({0: "n"},))
    flags.assert_called_with(enabled=False)

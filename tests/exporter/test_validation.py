"""validate=True: comparisons with eager at several sizes, the printed table, and failures."""

from __future__ import annotations

import math

import pytest
import torch
from torch.export import Dim

import ortable
from ortable import ExportOptions, to_onnx
from ortable.errors import ExportError, OptionError
from ortable.exporter.reporting.numeric_diff import EXACT, compare_tensors, tolerance_of


class Pair(torch.nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.linear = torch.nn.Linear(4, 3)

    def forward(self, x: torch.Tensor, y: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        return self.linear(x) + y.sum(), x.argmax(1)


def compare(*args, **options):
    """Return the comparisons of a validated export."""
    _, builder = to_onnx(*args, validate=True, return_builder=True, **options)
    assert not any(c.failed for c in builder.record.comparisons)
    return builder.record.comparisons


def example() -> tuple[torch.Tensor, torch.Tensor]:
    return torch.randn(5, 4), torch.randn(7)


def test_every_dynamic_dimension_is_tried_at_two_other_sizes(capsys) -> None:
    shapes = {"x": {0: "rows"}, "y": {0: "length"}}
    results = compare(Pair(), example(), dynamic_shapes=shapes)
    assert [c.inputs for c in results[::2]] == ["example", "rows=6, length=9", "rows=1, length=1"]
    assert [(c.output, c.dtype) for c in results[:2]] == [
        ("output_0", "float32"),
        ("output_1", "int64"),
    ]
    assert [c.shape for c in results] == ["[5, 3]", "[5]", "[6, 3]", "[6]", "[1, 3]", "[1]"]
    printed = capsys.readouterr().out.splitlines()
    assert printed[0].split() == ["inputs", "output", "dtype", "shape", "largest", "difference"]
    assert len(printed) == 7
    results = compare(Pair(), (torch.randn(5, 4), torch.randn(4)), dynamic_shapes=shapes)
    assert results[2].inputs == "rows=6, length=7"  # not 6 and 6


def test_the_range_of_a_dim_is_kept() -> None:
    shapes = {"x": {0: Dim("rows", min=3, max=5)}, "y": None}
    results = compare(Pair(), example(), dynamic_shapes=shapes)
    assert [c.inputs for c in results[::2]] == ["example", "rows=3"]


def test_a_derived_dimension_follows_its_root() -> None:
    class Half(torch.nn.Module):
        def forward(self, x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
            return x.reshape(-1, 2) + y[:, None]

    half = Dim("half", max=50)
    results = compare(
        Half(),
        (torch.randn(8), torch.randn(4)),
        dynamic_shapes={"x": {0: 2 * half}, "y": {0: half}},
    )
    assert [(c.inputs, c.shape) for c in results] == [
        ("example", "[4, 2]"),
        ("half=5", "[5, 2]"),
        ("half=1", "[1, 2]"),
    ]


def test_static_programs_are_compared_on_the_example() -> None:
    results = compare(Pair(), example())
    assert [c.inputs for c in results] == ["example", "example"]


def test_exported_programs_bring_their_example() -> None:
    program = torch.export.export(Pair(), example(), dynamic_shapes={"x": {0: Dim("n")}, "y": None})
    assert [c.inputs for c in compare(program)[::2]] == ["example", "n=6", "n=1"]


def test_a_size_that_eager_refuses_is_said_not_compared() -> None:
    class Even(torch.nn.Module):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            if not torch.compiler.is_exporting() and x.shape[0] % 2:
                raise ValueError("rows come in pairs")
            return x * 2

    results = compare(Even(), (torch.randn(4, 2),), dynamic_shapes={"x": {0: "rows"}})
    assert [c.problem for c in results] == [
        "",
        *["not compared: eager raises ValueError: rows come in pairs"] * 2,
    ]


def test_a_model_wrong_at_another_size_only_fails_with_the_table() -> None:
    def convert_for_size_4(graph, res, self):
        first_four = graph.op.Slice(self, [0], [4], [0])
        pads = graph.op.Sub(graph.op.Shape(self), [4])
        return graph.op.Pad(first_four, graph.op.Concat([0], pads, axis=0), outputs=res.outputs)

    module = torch.nn.ReLU()
    x = torch.rand(4) + 1
    to_onnx(module, (x,), dispatcher={"aten::relu": convert_for_size_4}, validate=True)
    with pytest.raises(ExportError, match="validation failed") as raised:
        to_onnx(
            module,
            (x,),
            dispatcher={"aten::relu": convert_for_size_4},
            dynamic_shapes={"input": {0: "n"}},
            validate=True,
        )
    lines = str(raised.value).splitlines()
    assert [line.split()[0] for line in lines[2:5]] == ["example", "n=5", "n=1"]
    assert lines[2].split()[4:] == ["0"]
    assert "over the tolerance" in lines[3]
    assert "ONNX Runtime cannot run it" in lines[4] and "test_validation.py:" not in lines[4]
    assert lines[5] == "the example call agrees with eager: other sizes do not"


def test_infinities_and_nan_in_the_same_places_are_equal() -> None:
    class Log(torch.nn.Module):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return torch.log(x)

    (comparison,) = compare(Log(), (torch.tensor([0.0, -1.0, 2.0]),))
    assert comparison.largest is not None and comparison.largest < 1e-6


def test_weights_are_shared_and_changed_buffers_are_not(capsys) -> None:
    class Counter(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.register_buffer("count", torch.zeros(3))
            self.calls = 0

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            self.count.add_(x)
            return self.count * 2

    module = Counter()
    compare(module, (torch.ones(3),))
    assert torch.equal(module.count, torch.zeros(3))


def test_large_models_are_validated_where_their_weights_are(tmp_path) -> None:
    path = tmp_path / "model.onnx"
    results = compare(Pair(), example(), large_model=True, external_threshold=0, filename=path)
    assert len(results) == 2 and path.exists()


def test_weights_without_data_cannot_be_validated() -> None:
    from torch._subclasses.fake_tensor import FakeTensorMode

    with FakeTensorMode():
        module, args = Pair(), example()
    with pytest.raises(OptionError, match="weights with data"):
        to_onnx(module, args, validate=True)


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.float64, torch.complex64])
def test_every_precision_is_fed_and_compared(dtype: torch.dtype) -> None:
    class Twice(torch.nn.Module):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return x + x

    (comparison,) = compare(Twice(), (torch.randn(3).to(dtype),))
    assert comparison.largest == 0


class DiffersInExport(torch.nn.Module):
    """A model that computes another function during export."""

    def __init__(self, eager, exported) -> None:
        super().__init__()
        self.eager, self.exported = eager, exported

    def forward(self, x: torch.Tensor):
        return (self.exported if torch.compiler.is_exporting() else self.eager)(x)


def double_with_check(x: torch.Tensor) -> torch.Tensor:
    torch._check(x.sum().item() > 100)
    return x * 2


@pytest.mark.parametrize(
    ("module", "options", "message"),
    [
        (
            DiffersInExport(lambda x: (x, x * 2), lambda x: x * 2),
            {"validate": True},
            "validation failed: the model has 1 outputs, eager returns 2",
        ),
        (
            DiffersInExport(lambda x: x * 2, lambda x: (x * 2, x)),
            {"validate": True},
            "validation failed: the model has 2 outputs, eager returns 1",
        ),
        (
            DiffersInExport(lambda x: x * 2, double_with_check),
            {"export_options": ExportOptions(validate=True)},
            "cannot be run on the example inputs: RuntimeError: Runtime assertion failed",
        ),
    ],
)
def test_a_module_that_is_another_while_it_is_exported(module, options, message) -> None:
    with pytest.raises(ExportError, match=message):
        to_onnx(module, (torch.rand(3),), **options)


def test_an_exception_of_the_module_is_raised_as_it_is() -> None:
    def broken(x: torch.Tensor) -> torch.Tensor:
        raise KeyError("not while it is exported")

    with pytest.raises(KeyError, match="not while it is exported"):
        to_onnx(DiffersInExport(broken, torch.relu), (torch.rand(3),), validate=True)


def test_a_call_that_eager_refuses_is_refused() -> None:
    """The ONNX model reads an index of -1 as the last row; eager rejects it."""
    program = ortable.export(torch.nn.Embedding(5, 3), (torch.tensor([0, 1]),))
    with pytest.raises(IndexError, match="index out of range in self"):
        program.validate(torch.tensor([0, -1]))


def test_the_exported_program_is_compared_when_asked_for() -> None:
    options = ExportOptions(validate=True)
    assert to_onnx(Pair(), example(), export_options=options).graph.node


def test_a_difference_of_the_users_choice_is_accepted() -> None:
    def convert_with_offset(graph, res, self):
        return graph.op.Add(graph.op.Relu(self), [0.01], outputs=res.outputs)

    arguments = (torch.nn.ReLU(), (torch.rand(3),))
    to_onnx(*arguments, dispatcher={"aten::relu": convert_with_offset}, validate=0.02)
    with pytest.raises(ExportError, match=r"0\.01  over the accepted 0\.001"):
        to_onnx(*arguments, dispatcher={"aten::relu": convert_with_offset}, validate=0.001)
    with pytest.raises(OptionError, match="positive float"):
        to_onnx(*arguments, validate=-0.5)


# -- differences between two tensors


INF, NAN = math.inf, math.nan


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.float16])
@pytest.mark.parametrize(
    ("expected", "actual", "equal"),
    [
        (INF, INF, True),
        (-INF, -INF, True),
        (NAN, NAN, True),
        (0.0, -0.0, True),
        (INF, 1.0, False),
        (1.0, INF, False),
        (INF, -INF, False),
        (NAN, 1.0, False),
        (1.0, NAN, False),
        (INF, NAN, False),
    ],
)
def test_numbers_that_are_not_finite(
    dtype: torch.dtype, expected: float, actual: float, equal: bool
) -> None:
    first, second = (torch.tensor([2.0, value], dtype=dtype) for value in (expected, actual))
    mismatch = compare_tensors(first, second, tolerance_of(dtype))
    assert (mismatch is None) == equal
    if mismatch is not None:
        assert mismatch.largest == INF and mismatch.what.startswith("1 of 2 values, most at [1]")


def test_integers_are_equal_or_not() -> None:
    big = torch.tensor([2**60])
    difference = compare_tensors(big, big + 1, EXACT)
    assert difference is not None and difference.largest == 1
    assert compare_tensors(big, big.clone(), EXACT) is None


def test_another_shape_or_dtype_is_infinitely_far() -> None:
    tensor = torch.ones(2, 1)
    for other in (torch.ones(1, 2), torch.ones(2, 1, dtype=torch.float64)):
        difference = compare_tensors(tensor, other, tolerance_of(tensor.dtype))
        assert difference is not None and difference.largest == INF

"""ExportOptions(tracing=True): export of branches on tensor values as If nodes."""

from __future__ import annotations

import random

import pytest
import torch
from torch.export import Dim

from ortable import ExportOptions, bypass_export_some_errors, to_onnx
from ortable.compat.torch_version import TORCH
from ortable.errors import ExportError

from .helpers import assert_same

pytestmark = pytest.mark.alternates(parts=3)

TRACING = ExportOptions(tracing=True, validate=True)
X = torch.rand(4, 6) + 0.1


def steps(model) -> str:
    return next(p.value for p in model.metadata_props if p.key == "ortable.steps")


def count_ifs(graph) -> int:
    """Return the number of If nodes in a graph and its subgraphs."""
    inner = [a.g for node in graph.node for a in node.attribute if a.HasField("g")]
    return sum(node.op_type == "If" for node in graph.node) + sum(count_ifs(g) for g in inner)


def export_traced(module, *args, dynamic_shapes=None, kwargs=None, rewrites="default"):
    """Export with tracing a module that torch.export rejects."""
    with pytest.raises(Exception):  # noqa: B017 (torch raises many types)
        torch.export.export(module, args, kwargs, dynamic_shapes=dynamic_shapes)
    return to_onnx(
        module,
        args,
        kwargs,
        dynamic_shapes=dynamic_shapes,
        export_options=TRACING,
        rewrites=rewrites,
    )


class Choice(torch.nn.Module):
    """A branch with weights on each side, a shared weight, a buffer and constants."""

    def __init__(self) -> None:
        super().__init__()
        self.first = torch.nn.Linear(6, 6)
        self.second = torch.nn.Linear(6, 3)
        self.third = torch.nn.Linear(6, 3)
        self.register_buffer("scale", torch.rand(3))

    def forward(self, x):
        y = self.first(x) + torch.tensor([1.0, 2.0, 3.0, 4.0, 5.0, 6.0])
        if y.sum() > 0:
            return self.second(y) * self.scale
        return self.third(torch.relu(y)) - torch.tensor(3.0)


class Several(torch.nn.Module):
    """Nested branches; some results depend on them, some do not, and some are no tensors."""

    def forward(self, x, y, scale=2):
        z = x * scale
        if x.mean() > 0:
            z = z + y
            if y.mean() > 0:
                z = z * 3
            w = z.sum()
        elif y.max() > 5:
            w = y.sum()
        else:
            w = x.sum()
        return {"z": z, "rest": [w, x, 3, None, x.relu()]}


class Checked(torch.nn.Module):
    def forward(self, x):
        assert (x < 100).all(), "too large"
        if torch.isnan(x).any():
            raise ValueError("not a number")
        return torch.log1p(x)


class Bounded(torch.nn.Module):
    """A loop with an early exit that depends on data."""

    def forward(self, x):
        for _ in range(3):
            if x.abs().max() > 4:
                break
            x = x * 2
        return x


class Layers(torch.nn.Module):
    """A submodule with a branch, called twice."""

    def __init__(self) -> None:
        super().__init__()
        self.layer = Choice()
        self.layer.second = torch.nn.Linear(6, 6)
        self.layer.third = torch.nn.Linear(6, 6)
        self.layer.scale = torch.rand(6)

    def forward(self, x):
        return self.layer(torch.tanh(self.layer(x)))


@pytest.mark.parametrize("dynamic_shapes", [None, {"x": {0: Dim("n")}}], ids=["static", "dynamic"])
def test_both_sides_of_a_branch_with_weights(dynamic_shapes) -> None:
    module = Choice()
    model = export_traced(module, X, dynamic_shapes=dynamic_shapes)
    assert count_ifs(model.graph) == 1
    assert "traced: 2 paths, diverging at" in steps(model) and "test_tracing.py:" in steps(model)
    for args in ((X,), (-50 * X,)):
        assert_same(model, module, args)
    if dynamic_shapes:
        for size in (2, 9):
            for sign in (1, -50):
                assert_same(model, module, (sign * torch.rand(size, 6),))


def test_weights_keep_their_names_in_the_state_dict() -> None:
    module = Choice()
    model = export_traced(module, X, rewrites="none")  # a rewrite would fold the factor
    names = {i.doc_string for i in model.graph.initializer if i.doc_string}
    assert set(module.state_dict()) <= names


@pytest.mark.parametrize("dynamic", [False, True], ids=["static", "dynamic"])
def test_nested_decisions_and_several_results(dynamic) -> None:
    n = Dim("n")
    shapes = {"x": {0: n}, "y": {0: n}, "scale": None} if dynamic else None
    module, y = Several(), torch.rand(4, 6)
    model = export_traced(module, X, y, 3, dynamic_shapes=shapes)
    assert count_ifs(model.graph) == 3
    size = 7 if dynamic else 4
    a, b = torch.rand(size, 6), torch.rand(size, 6)
    for args in ((a, b), (a, -b), (-a, b), (-a, -b), (-a, 9 * b), (a * 0, b)):
        assert_same(check_input_names(model), bind_scale(module, 3), args)


def check_input_names(model):
    assert [value.name for value in model.graph.input] == ["x", "y"]
    return model


def bind_scale(module, scale):
    class Bound(torch.nn.Module):
        def forward(self, x, y):
            return module(x, y, scale)

    return Bound()


def test_keyword_arguments() -> None:
    module, y = Several(), torch.rand(4, 6)
    model = export_traced(module, X, kwargs={"y": y})
    for sign in (1, -1):
        assert_same(model, module, (X,), {"y": sign * y})


def test_checks_of_the_inputs_are_left_out_and_the_model_says_so() -> None:
    model = export_traced(Checked(), X)
    assert count_ifs(model.graph) == 0
    assert "left out: AssertionError raised at" in steps(model)
    assert "left out: ValueError raised at" in steps(model)
    assert "exported model is correct for inputs that do not raise it" in steps(model)
    assert_same(model, Checked(), (3 * X,))


def test_a_loop_that_stops_early() -> None:
    model = export_traced(Bounded(), X)
    assert count_ifs(model.graph) == 3
    for scale in (0.01, 1, 1.7, 2.1, 10):
        assert_same(model, Bounded(), (scale * X,))


def test_decisions_in_submodules_that_are_called_twice() -> None:
    module = Layers()
    model = export_traced(module, X, dynamic_shapes={"x": {0: Dim("n")}}, rewrites="none")
    assert "traced: 4 paths" in steps(model)
    for scale in (1, -50, 50):
        assert_same(model, module, (scale * torch.rand(3, 6),))
    assert len({i.doc_string for i in model.graph.initializer} & set(module.state_dict())) == 7


def test_a_truth_value_that_is_no_boolean_and_one_that_is_written_to() -> None:
    class WritesCondition(torch.nn.Module):
        def forward(self, x):
            count = (x > 1).sum().reshape(1)
            y = x + 1
            if count:
                y = y * 2
            count.zero_()
            return y.add_(1), count

    model = export_traced(WritesCondition(), X)
    for scale in (0.1, 3):
        assert_same(model, WritesCondition(), (scale * X,))


def test_a_write_on_one_side() -> None:
    class WritesLocally(torch.nn.Module):
        def forward(self, x):
            y = torch.zeros_like(x)
            if x.sum() > 0:
                y += x
            return y if y.sum() > 3 else y + x

    model = export_traced(WritesLocally(), X, dynamic_shapes={"x": {0: Dim("n")}})
    for scale in (1, 0.01, -1):
        assert_same(model, WritesLocally(), (scale * torch.rand(7, 6),))


def test_a_number_that_decides_is_advised_to_be_a_tensor() -> None:
    class Number(torch.nn.Module):
        def forward(self, x, k):
            return x + k if k.item() > 3 else x

    with pytest.raises(ExportError, match=r"write if k > 3, not if k.item") as error:
        to_onnx(Number(), (X, torch.tensor(2)), export_options=TRACING)
    assert "tracing=True" not in str(error.value)


def test_a_truth_value_that_is_taken_out_of_its_tensor() -> None:
    class ItemCondition(torch.nn.Module):
        def forward(self, x):
            is_large = (x > 1).any().item()
            y = x * 2 if is_large else x
            return y + 1 if is_large and x.shape[0] > 2 else y - 1

    model = export_traced(ItemCondition(), X)
    assert count_ifs(model.graph) == 1
    for scale in (0.1, 3):
        assert_same(model, ItemCondition(), (scale * X,))


def test_a_side_that_returns_its_input_or_a_view_of_it() -> None:
    class ReturnsInput(torch.nn.Module):
        def forward(self, x):
            if x.sum() > 0:
                return x, x, x.t()
            return -x, x, x.t() + 1

    model = export_traced(ReturnsInput(), X)
    for scale in (1, -1):
        assert_same(model, ReturnsInput(), (scale * X,))


def test_sides_of_another_size() -> None:
    class Sizes(torch.nn.Module):
        def forward(self, x):
            return x[:2] * 2 if x.sum() > 0 else x

    model = export_traced(Sizes(), X)
    for scale in (1, -1):
        assert_same(model, Sizes(), (scale * X,))


def test_a_torch_cond_and_an_autocast_region_on_a_side() -> None:
    class Mixed(torch.nn.Module):
        def forward(self, x):
            if x.sum() > 0:
                return torch.cond(x.max() > 2, torch.sin, torch.cos, (x,))
            with torch.autocast("cpu", dtype=torch.bfloat16):
                return (x @ x.t()).float()

    model = export_traced(Mixed(), torch.rand(5, 5))
    for scale in (1, 3, -1):
        assert_same(model, Mixed(), (scale * (torch.rand(5, 5) + 0.1),), tolerance=2e-2)


def test_a_decision_that_is_not_the_same_when_run_again() -> None:
    answers = iter([True, False, False])

    class Moody(torch.nn.Module):
        def forward(self, x):
            if next(answers) and x.sum() > 0:
                return x * 2
            return x

    check_refusal(Moody(), X, error="Moody makes different decisions when it runs again")


def test_without_decisions_it_is_the_graph_of_torch_export() -> None:
    module = torch.nn.Linear(6, 3)
    model = to_onnx(module, (X,), export_options=TRACING)
    assert [node.op_type for node in model.graph.node] == ["Gemm"]
    assert steps(model).startswith("traced: one path")


def test_the_module_is_left_as_it_was() -> None:
    module = Choice()
    before = dict(module.__dict__)
    export_traced(module, X)
    assert module.__dict__ == before and "forward" not in module.__dict__
    assert module.first.weight.grad is None and type(module.first.weight) is torch.nn.Parameter


# -- sizes that depend on data


class Parts(torch.nn.Module):
    """Splits rows into parts and applies ``branch`` to each part."""

    def __init__(self, branch) -> None:
        super().__init__()
        self.branch = branch

    def forward(self, x, lengths):
        parts = [self.branch(part) for part in torch.split(x, lengths.tolist())]
        return torch.cat(parts)


def attend(part):
    causal = part.shape[0] > 1 and part.ndim == 3  # ``and`` branches on the size
    result = torch.nn.functional.scaled_dot_product_attention(
        part[None], part[None], part[None], is_causal=causal
    )
    return result[0]


def double_if_long(part):
    return part * 2 if part.shape[0] > 1 else part


def test_a_branch_on_a_size_of_data_whose_sides_are_the_same() -> None:
    module, x = Parts(attend), torch.rand(6, 4)
    with bypass_export_some_errors():
        if TORCH == (2, 14):  # its kernel of attention asks whether the size is 0
            with pytest.raises(ExportError, match=r"Could not guard on .* Eq\(u0, 0\)"):
                export_traced(module, x, torch.tensor([2, 4]))
            return
        model = export_traced(module, x, torch.tensor([2, 4]))
    for lengths in ([2, 4], [1, 5], [5, 1], [3, 3]):
        assert_same(model, module, (x, torch.tensor(lengths)))


def test_a_branch_on_a_size_of_data_whose_sides_differ() -> None:
    """It is refused after the first two paths of 2 ** 6."""
    parts = []

    def double_and_count(part):
        parts.append(None)
        return double_if_long(part)

    with bypass_export_some_errors():
        check_refusal(
            Parts(double_and_count),
            torch.rand(12, 4),
            torch.tensor([2, 4, 1, 2, 1, 2]),
            error=r"branches on a data-dependent size, and its branches compute different results",
        )
    assert len(parts) < 3 * 6


# -- refusals


def check_refusal(module, *args, error, **options) -> None:
    with pytest.raises(ExportError, match=error):
        to_onnx(module, args, export_options=TRACING, **options)


def test_a_loop_that_ends_on_data() -> None:
    class Endless(torch.nn.Module):
        def forward(self, x):
            while x.sum() < 10:
                x = x * 2
            return x

    check_refusal(Endless(), X, error=r"more than 40 decisions in one run.*test_tracing\.py:\d+")


@pytest.mark.parametrize(("decision_count", "most_runs"), [(7, 64), (14, 10)])
def test_too_many_paths(decision_count: int, most_runs: int) -> None:
    """The number of paths is known long before all of them ran."""
    runs = []

    class Many(torch.nn.Module):
        def forward(self, x):
            runs.append(None)
            for i in range(decision_count):
                if x[0, i % 6] > 0:
                    x = x + 1
            return x

    check_refusal(Many(), X, error="more than 64 paths")
    assert len(runs) <= most_runs


def random_branch(x):
    return x * 2 if x.sum() > random.random() else x


def test_a_decision_that_is_another_in_each_path() -> None:
    class Other(torch.nn.Module):
        def forward(self, x):
            return random_branch(x)

    check_refusal(
        Other(), X, error="(?s)the decision at .* is not the same computation in every path: it"
    )


def test_a_module_that_raises_on_every_path() -> None:
    class Raises(torch.nn.Module):
        def forward(self, x):
            raise ValueError("positive" if x.sum() > 0 else "negative")

    check_refusal(Raises(), X, error="Raises raises on the example inputs.*ValueError: positive")


def test_results_of_another_structure() -> None:
    class Other(torch.nn.Module):
        def forward(self, x):
            return x if x.sum() > 0 else (x, x)

    check_refusal(Other(), X, error="results of Other have different structures")


def test_numbers_that_depend_on_a_decision() -> None:
    class Number(torch.nn.Module):
        def forward(self, x):
            return x, 1 if x.sum() > 0 else 2

    check_refusal(Number(), X, error="result 1 is not a tensor, and depends on the decision at")


def test_writes_that_are_seen_outside() -> None:
    class Buffer(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.register_buffer("count", torch.zeros(()))

        def forward(self, x):
            if x.sum() > 0:
                self.count.add_(1)
            return x

    check_refusal(Buffer(), X, error="decides on data and writes to count in place")


def test_a_python_number_made_of_a_tensor() -> None:
    class Number(torch.nn.Module):
        def forward(self, x):
            return x * float(x.max())

    check_refusal(Number(), X, error="a tensor becomes a Python number")


def test_a_branch_on_a_dynamic_size_is_not_specialised() -> None:
    class Size(torch.nn.Module):
        def forward(self, x):
            return x * 2 if x.shape[0] > 3 else x

    check_refusal(
        Size(), X, error="the dynamic shapes do not fit", dynamic_shapes={"x": {0: Dim("n")}}
    )


def test_branches_of_different_dtypes() -> None:
    class Dtypes(torch.nn.Module):
        def forward(self, x):
            return x if x.sum() > 0 else x.to(torch.float64)

    check_refusal(Dtypes(), X, error="the sides of a branch do not fit together")

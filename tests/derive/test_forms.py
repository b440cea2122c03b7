"""Forms of samples, fills and the strict comparison give the expected results."""

from __future__ import annotations

import pytest
import torch

from ortablegen.language.samples import TensorSample, tensor_sample
from tests.derive.compare import difference
from tests.derive.fills import fills
from tests.derive.forms import Form, forms, growths, laid_out, leaves


def _parse(text: str) -> TensorSample:
    sample = tensor_sample(text)
    assert sample is not None
    return sample


def _forms_by_name(*texts: str) -> dict[str, Form]:
    values = {f"x{i}": _parse(text) for i, text in enumerate(texts)}
    return {form.name: form for form in forms(values)}


def test_forms_of_two_tensors() -> None:
    by_name = _forms_by_name("f32[2,3]", "f32[3]")
    assert {"as written", "float64", "int64", "bool", "size 3=0", "size 3=1", "0-d"} <= set(by_name)
    assert [leaf.shape for leaf in leaves(by_name["size 3=0"].values)] == [(2, 0), (0,)]
    assert [leaf.shape for leaf in leaves(by_name["x0 axis 0=1"].values)] == [(1, 3), (3,)]
    assert [leaf.dtype for leaf in leaves(by_name["float16"].values)] == ["float16"] * 2
    dynamic = by_name["dynamic"]
    assert leaves(dynamic.values)[0].dims == ((2, "s2"), (3, "s3"))
    assert dict(growths(dynamic)) == {
        "larger": {"s2": 3, "s3": 3},
        "uneven": {"s2": 2, "s3": 5},
        "smallest": {"s2": 0, "s3": -1},
    }


def test_a_tensor_with_numbers_keeps_them() -> None:
    by_name = _forms_by_name("i64[3] = [5, 6, 7]")
    assert leaves(by_name["size 3=1"].values)[0].values == [5]
    assert "dynamic" not in by_name


@pytest.mark.parametrize("layout", ["transposed", "strided"])
def test_layouts_keep_the_numbers(layout: str) -> None:
    tensor = torch.arange(6.0).reshape(2, 3)
    assert torch.equal(laid_out(tensor, layout), tensor)
    assert not laid_out(tensor, layout).is_contiguous()


def test_fills_do_not_touch_indices() -> None:
    samples = [_parse("f32[2,3]"), _parse("i64[4] in 0..2")]
    tensors = [torch.zeros(2, 3), torch.zeros(4, dtype=torch.int64)]
    for name, filled in fills(samples, tensors):
        assert torch.equal(filled[1], tensors[1]), name


INF, NAN = float("inf"), float("nan")


@pytest.mark.parametrize(
    ("result", "eager", "kind"),
    [
        ([1.0, NAN], [1.0, NAN], None),
        ([1.0, 0.0], [1.0, NAN], "nan"),
        ([NAN, 1.0], [1.0, 1.0], "nan"),
        ([INF, 1.0], [-INF, 1.0], "inf"),
        ([3e38, 1.0], [INF, 1.0], "inf"),
        ([1.0, 2.0], [1.0, 2.1], "value"),
        ([1.0, 2.0], [1.0, 2.0001], "imprecise"),
        ([0.0, 1.0], [-0.0, 1.0], "sign"),
        ([2.0, 1.0], [1.0, 2.0], "value"),
    ],
)
def test_differences_have_kinds(result: list[float], eager: list[float], kind: str | None) -> None:
    gap = difference(torch.tensor(result), torch.tensor(eager))
    assert (gap[0] if gap else None) == kind


def test_whole_numbers_are_equal_or_not() -> None:
    assert difference(torch.tensor([2**53]), torch.tensor([2**53 + 1])) is not None
    assert difference(torch.tensor([1]), torch.tensor([1.0])) is not None
    assert difference(torch.tensor([1]), torch.tensor([[1]])) is not None

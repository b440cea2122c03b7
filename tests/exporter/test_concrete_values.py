"""Known values of tensors under `ExportOptions(tracing=True)`: constants, sizes and buffers."""

from __future__ import annotations

import operator
from collections.abc import Callable

import pytest
import torch

from ortable import ExportOptions, to_onnx
from ortable.compat.torch import FakeTensorMode
from ortable.errors import ExportError
from ortable.exporter.capture.concrete_values import ConcreteReads, ConcreteValues

from .helpers import assert_same

TRACING = ExportOptions(tracing=True)


def export_traced(module, *args, dynamic_shapes=None):
    """Export with tracing a module that torch.export rejects."""
    with pytest.raises(Exception):  # noqa: B017 (torch raises many types)
        torch.export.export(module, args, dynamic_shapes=dynamic_shapes)
    return to_onnx(module, args, dynamic_shapes=dynamic_shapes, export_options=TRACING)


class Padded(torch.nn.Module):
    """A convolution whose padding is computed from buffers, as in audio codecs."""

    def __init__(self, kernel: int, stride: int) -> None:
        super().__init__()
        self.conv = torch.nn.Conv1d(1, 2, kernel, stride)
        self.register_buffer("stride", torch.tensor(stride), persistent=False)
        self.register_buffer("kernel", torch.tensor(kernel), persistent=False)
        self.left = (self.kernel - self.stride) // 2  # a constant, not a buffer

    def forward(self, x):
        length = x.shape[-1]
        total = self.kernel - self.stride
        frames = torch.ceil((length - self.kernel + total) / self.stride + 1).to(torch.int64) - 1
        extra = frames * self.stride + self.kernel - total - length
        if length <= max(self.left, extra):
            raise ValueError("too short")
        return self.conv(torch.nn.functional.pad(x, (self.left, total - self.left + extra)))


class Table(torch.nn.Module):
    """A module that loops over the numbers of a table and of a copy that it writes."""

    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("table", torch.tensor([[1, 2], [3, 4]]))

    def forward(self, x):
        copy = self.table.clone()
        copy[0, 1] = 5
        copy += 1
        for scale, shift in copy.tolist():
            x = x * scale + shift
        for row in self.table:
            if (~row).sum() < -6:
                x = x[:, : row[0]]
        return x.repeat(1, int(self.table.max())) * float(self.table[0, 1])


class ReadsWrittenBuffer(torch.nn.Module):
    """A module that reads a number from a buffer that it writes."""

    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("count", torch.tensor(1))

    def forward(self, x):
        self.count += 1
        return x[:, : int(self.count)]


class WritesConstant(torch.nn.Module):
    """A module that writes data into a constant and branches on it."""

    def __init__(self, through_a_view: bool, write) -> None:
        super().__init__()
        self.through_a_view, self.write = through_a_view, write

    def forward(self, x, n):
        sizes = torch.tensor([2, 2])
        part = sizes[0:1] if self.through_a_view else sizes
        self.write(part, n)
        return x + 1 if sizes[0] > 3 else x * 2


class SizeInTensor(torch.nn.Module):
    """A module that computes with a size stored in a tensor."""

    def forward(self, x):
        n = torch.tensor(x.shape[1])
        half = n // 2 + (n % 2)
        return x[:, : int(half)] if torch.tensor(3) > 5 else x[:, half:]


@pytest.mark.parametrize(("kernel", "stride"), [(5, 3), (7, 2), (4, 4), (3, 1)])
def test_paddings_from_buffers_and_a_size(kernel, stride) -> None:
    module, x = Padded(kernel, stride).eval(), torch.rand(2, 1, 17)
    assert_same(export_traced(module, x), module, (x,))
    model = export_traced(module, x, dynamic_shapes={"x": {0: "batch", 2: "length"}})
    for length in (16, 17, 18, 19, 40, 63, 1001):
        assert_same(model, module, (torch.rand(3, 1, length),))


def test_where_eager_mode_rounds_a_size_is_said() -> None:
    module, x = Padded(5, 3).eval(), torch.rand(2, 1, 17)
    with pytest.warns(UserWarning, match=r"-3 \+ length <= 1048576"):
        export_traced(module, x, dynamic_shapes={"x": {2: "length"}})


def test_tables_are_read_as_eager_reads_them() -> None:
    module, x = Table(), torch.rand(2, 6)
    model = export_traced(module, x)
    assert_same(model, module, (x,))


def test_a_buffer_that_forward_writes_is_refused() -> None:
    with pytest.raises(ExportError, match="reads a number from count, and writes to it in place"):
        to_onnx(ReadsWrittenBuffer(), (torch.rand(2, 6),), export_options=TRACING)


@pytest.mark.parametrize(
    "write", [lambda part, n: operator.setitem(part, 0, n), operator.ior, torch.Tensor.copy_]
)
@pytest.mark.parametrize("through_a_view", [False, True])
def test_a_constant_that_data_is_written_into_is_a_decision(through_a_view, write) -> None:
    module, x = WritesConstant(through_a_view, write), torch.rand(2, 6)
    model = to_onnx(module, (x, torch.tensor(2)), export_options=TRACING)
    for n in (2, 7):
        assert_same(model, module, (x, torch.tensor(n)))


def test_a_size_in_a_tensor_is_the_size() -> None:
    module, x = SizeInTensor(), torch.rand(2, 6)
    model = to_onnx(module, (x,), dynamic_shapes={"x": {1: "n"}}, export_options=TRACING)
    for n in (5, 6, 9, 14):
        assert_same(model, module, (torch.rand(2, n),))


def test_random_numbers_are_not_known() -> None:
    with FakeTensorMode(), ConcreteValues({}, {}, ConcreteReads()) as concrete_values:
        random, sequence = torch.randint(5, (3,)) + 1, torch.arange(3) + 1
        product = sequence * random  # reads both
        assert sequence.tolist() == [1, 2, 3]
        assert all(concrete_values.find_value(t).value is None for t in (random, product))


def test_an_operator_without_tensors_writes_to_none() -> None:
    calls: list[int] = []

    def log_(n: int) -> None:
        calls.append(n)

    torch.library.custom_op("concrete_values::log_", log_, mutates_args=())
    with ConcreteValues({}, {}, ConcreteReads()):
        torch.ops.concrete_values.log_(3)
    assert calls == [3]


@torch.library.custom_op("concrete_values::store", mutates_args=("a",))
def store(a: torch.Tensor, n: torch.Tensor) -> None:
    a.copy_(n)


@pytest.mark.parametrize(
    "write",
    [
        torch.ops.aten.add_.Tensor,
        torch.ops.concrete_values.store,
        lambda a, n: torch._foreach_add_([torch.zeros(2, dtype=torch.int64), a], [n, n]),
        lambda a, n: torch.fill_(value=n, input=a),
        lambda a, n: torch.add(n, a, out=a),
    ],
)
def test_what_is_written_to_is_not_known(write: Callable[..., object]) -> None:
    with FakeTensorMode(), ConcreteValues({}, {}, ConcreteReads()) as concrete_values:
        sizes, unknown = torch.tensor([2, 2]), torch.randint(5, ())
        assert concrete_values.find_value(sizes).value is not None
        write(sizes, unknown)
        assert concrete_values.find_value(sizes).value is None

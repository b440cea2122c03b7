"""ExportOptions(loops=True): export of Python loops over a dynamic size as a Scan."""

from __future__ import annotations

import copy
import itertools

import pytest
import torch

from ortable import ExportOptions, export, to_onnx
from ortable.errors import ExportError, FunctionNotFoundError, OptionError

pytestmark = pytest.mark.alternates(parts=3)

LOOPS = ExportOptions(loops=True)
SHAPES = {"x": {0: "batch", 1: "length"}}
SIZES = ((2, 6), (3, 9), (1, 2), (4, 1))


class Net(torch.nn.Module):
    def __init__(self) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.cell = torch.nn.GRUCell(4, 5)
        self.linear = torch.nn.Linear(4, 5)
        self.eval()

    def start(self, x):
        return x.new_zeros(x.shape[0], 5)


class ListOfSteps(Net):
    def forward(self, x):
        h, outs = self.start(x), []
        for t in range(x.shape[1]):
            h = self.cell(x[:, t], h)
            outs.append(h)
        return torch.stack(outs, dim=1), h


class WrittenInPlace(Net):
    def forward(self, x):
        h = self.start(x)
        out = torch.zeros(x.shape[0], x.shape[1], 5)
        for t in range(x.shape[1]):
            h = self.cell(x[:, t], h)
            out[:, t] = h
        return out


class Accumulated(Net):
    """Writes to the carried tensor in place, and computes with the index."""

    def forward(self, x):
        total = torch.zeros(x.shape[0], 5)
        for t in range(x.shape[1]):
            total += self.linear(x[:, t]) * (t + 1)
            total[:, 0] = 1.0
        return total


class Backwards(Net):
    def forward(self, x):
        h, outs = self.start(x), []
        for t in reversed(range(x.shape[1])):
            h = self.cell(x[:, t], h)
            outs.append(h)
        sums = []
        for t in range(x.shape[1] - 1, -1, -1):
            sums.append(x[:, t].sum(1))
        return torch.stack(outs, -1), torch.stack(sums)


class IteratesRows(Net):
    def forward(self, x):
        h = self.start(x)
        for row in x.transpose(0, 1).unbind():
            h = self.cell(row, h)
        sums = [row.sum() for row in x.unbind(1)]
        return h, torch.stack(sums)


class Zipped(Net):
    def forward(self, x):
        outs = []
        for i, (a, b) in enumerate(zip(x.unbind(1), torch.sin(x).unbind(1), strict=True)):
            outs += [a * i, b]
        return torch.stack(outs, 1), torch.cat(outs, 1)


class Reversed(Net):
    """Inserts at the front of a list, and reverses a list."""

    def forward(self, x):
        front, outs = [], []
        for t in range(x.shape[1]):
            front.insert(0, torch.cos(x[:, t]))
            outs += [x[:, t] * 2, x[:, t] * 3]
        return torch.stack(front, 1), torch.cat(outs[::-1], 1), torch.stack([*front, outs[-1]])


class ConcatenatesRows(Net):
    """Concatenates a list with extra first and last items, and two batches for each step."""

    def forward(self, x):
        outs = [x[:, 0]]
        for t in range(x.shape[1]):
            outs.append(torch.cat([x[:, t], x[:, t] * 2]))
        outs.append(x[:, -1])
        return torch.cat(outs, 0)


class LoopsInLayers(Net):
    """Loops in two layers, the second of which reads the results of the first."""

    def layer(self, x):
        h, outs = torch.zeros_like(x[:, 0]), []
        for t in range(x.shape[1]):
            h = torch.tanh(h + x[:, t])
            outs.append(h)
        return torch.stack(outs, 1)

    def forward(self, x):
        for _ in range(2):
            x = self.layer(x)
        total = x.new_zeros(())
        for row in x:
            total = total + row.sum()
        return x, total


class StrideTwo(Net):
    """A range with a step of 2."""

    def forward(self, x):
        outs = []
        for t in range(0, x.shape[1], 2):
            outs.append(x[:, t] * 2)
        return torch.stack(outs, 1)


class ReadsLast(Net):
    """Reads the last step's value, which is not carried, after the loop."""

    def forward(self, x):
        for t in range(x.shape[1]):
            y = self.linear(x[:, t])
        return y


class Nested(Net):
    def forward(self, x):
        rows = []
        for b in range(x.shape[0]):
            h = torch.zeros(4)
            for t in range(x.shape[1]):
                h = torch.tanh(h + x[b, t])
            rows.append(h)
        return torch.stack(rows)


class ThroughAView(Net):
    """Writes to a view of the result, and counts the steps in a buffer."""

    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("steps", torch.zeros(()))

    def forward(self, x):
        out = torch.zeros(x.shape[0], 2, x.shape[1], 4)
        part = out[:, 1]
        for t in range(x.shape[1]):
            part[:, t] = x[:, t] * 2
            self.steps += 1
        return out, self.steps * 1


class FixedLoops(Net):
    """Loops over dynamic and fixed sizes, and uses range as a class."""

    def forward(self, x):
        assert isinstance(range(3), range) and list(range(2, 0, -1)) == [2, 1]
        outs = [x[:, t] for t in range(x.shape[1])]
        for k, weight in enumerate(zip((1.0, 2.0), [3, 4], strict=True)):
            outs = [*outs, outs[-1] * weight[k] + len(weight)]
        return torch.stack(outs, 1)


class ListOfNumbers(Net):
    """Converts lists of numbers to tensors."""

    def forward(self, x):
        indices = torch.tensor(list(range(x.shape[1] + 2)), dtype=torch.float32)
        reversed_indices = torch.tensor(list(range(x.shape[1]))[::-1], device=x.device)
        return indices, x * reversed_indices[None, :, None]


ANY_LENGTH = [
    ListOfNumbers,
    ListOfSteps, WrittenInPlace, Accumulated, Backwards, IteratesRows, Zipped, Reversed,
    ConcatenatesRows, LoopsInLayers, StrideTwo, ReadsLast, Nested, ThroughAView, FixedLoops,
]  # fmt: skip


class StartsWithNone(Net):
    def forward(self, x):
        h, outs = None, []
        for t in range(x.shape[1]):
            h = self.cell(x[:, t]) if h is None else self.cell(x[:, t], h)
            outs.append(h)
        return torch.stack(outs, 1), h


class ReadsPrevious(Net):
    """Branches on the index: the first step has no previous row."""

    def forward(self, x):
        outs = []
        for t in range(x.shape[1]):
            outs.append(x[:, t] - x[:, t - 1] if t > 0 else x[:, t])
        return torch.stack(outs, 1)


class ReadsFirst(Net):
    def forward(self, x):
        outs = []
        for t in range(x.shape[1]):
            outs.append(torch.sin(x[:, t]))
        return outs[0]


class BroadcastsState(Net):
    """Starts with a state that has other sizes than the carried state."""

    def forward(self, x):
        h = torch.zeros(1, 4)
        for t in range(x.shape[1]):
            h = h * 0.5 + x[:, t]
        return h


class CarriesFirst(Net):
    """Every step reads a tensor of the first step."""

    def forward(self, x):
        first, outs = None, []
        for t in range(x.shape[1]):
            y = torch.sin(x[:, t])
            first = y if first is None else first
            outs.append(y * first)
        return torch.stack(outs, 1)


class SharedStart(Net):
    """Nested loops whose steps read the tensor that both states start with."""

    def forward(self, x):
        rows, start = [], x[0, 0]
        for b in range(x.shape[0]):
            h = g = start
            first_row = None
            for t in range(x.shape[1]):
                y = torch.sin(x[b, t])
                first_row = y if first_row is None else first_row
                h, g = torch.tanh(h + y * first_row), g - y + start
            rows.append(h * g)
        return torch.stack(rows)


FIRST_STEP_SEPARATE = [
    StartsWithNone, ReadsPrevious, ReadsFirst, BroadcastsState, CarriesFirst, SharedStart,
]  # fmt: skip


def operators(graph) -> list[str]:
    """Return the operators of a graph and its subgraphs."""
    names = []
    for node in graph.node:
        names.append(node.op_type)
        for attribute in node.attribute:
            if attribute.HasField("g"):
                names += operators(attribute.g)
    return names


def check_sizes(program, module, sizes) -> None:
    for batch, length in sizes:
        x = torch.rand(batch, length, 4)
        with torch.no_grad():
            torch.testing.assert_close(program(x), copy.deepcopy(module)(x))


# these run only in sweeps
SLOW = {Accumulated, Backwards, ConcatenatesRows, StrideTwo, ReadsLast, FixedLoops, Zipped}
parametrize_any_length = pytest.mark.parametrize(
    "cls",
    [pytest.param(c, id=c.__name__, marks=[pytest.mark.slow] * (c in SLOW)) for c in ANY_LENGTH],
)


@pytest.mark.alternates(parts=3)
@parametrize_any_length
def test_rolled(cls) -> None:
    module = cls()
    program = export(module, (torch.rand(2, 6, 4),), dynamic_shapes=SHAPES, export_options=LOOPS)
    assert "Scan" in operators(program.model_proto.graph)
    check_sizes(program, module, SIZES)


@pytest.mark.alternates(parts=3)
@pytest.mark.parametrize("cls", FIRST_STEP_SEPARATE, ids=lambda cls: cls.__name__)
def test_the_first_step_is_apart(cls) -> None:
    module = cls()
    program = export(module, (torch.rand(2, 6, 4),), dynamic_shapes=SHAPES, export_options=LOOPS)
    assert any("first step peeled" in step for step in program.report.steps)
    check_sizes(program, module, SIZES)


class Breaks(Net):
    def forward(self, x):
        for t in range(x.shape[1]):
            y = x[:, t]
            if t is not None:
                break
        return y


class Grows(Net):
    def forward(self, x):
        h = x[:, 0]
        for t in range(x.shape[1]):
            h = torch.cat([h, x[:, t]])
        return h


class CountsSteps(Net):
    def forward(self, x):
        steps, h = 0, x[:, 0]
        for t in range(x.shape[1]):
            steps, h = steps + 1, h + x[:, t]
        return h * steps


class ReadsListLength(Net):
    def forward(self, x):
        outs = []
        for t in range(x.shape[1]):
            outs.append(x[:, t])
        return torch.stack(outs, 1) * len(outs)


class ReadsSecond(Net):
    def forward(self, x):
        outs = []
        for t in range(x.shape[1]):
            outs.append(torch.sin(x[:, t]))
        return outs[1]


class TakesNext(Net):
    def forward(self, x):
        index = next(iter(range(x.shape[1])))
        return x[:, index]


class WritesAfterLoop(Net):
    def forward(self, x):
        outs = [torch.sin(x[:, t]) for t in range(x.shape[1])]
        outs[-1] += 1
        return torch.stack(outs, 1)


class CountsRows(Net):
    """Carries a number."""

    def forward(self, x):
        out, start = torch.zeros(x.shape[0] * x.shape[1], 4), 0
        for t in range(x.shape[1]):
            out[start : start + x.shape[0]] = x[:, t]
            start = start + x.shape[0]
        return out


class AppendsConstant(Net):
    def forward(self, x):
        outs = []
        for _ in range(x.shape[1]):
            outs.append(x[:, 0])
        return torch.stack(outs, 1)


class BranchesOnIndex(Net):
    def forward(self, x):
        h = x[:, 0]
        for t in range(x.shape[1]):
            if t % 2 == 0:
                h = h + x[:, t]
        return h


class BranchesAfterSecond(Net):
    """Branches on an index that a step after a peeled first one may have."""

    def forward(self, x):
        return torch.stack([x[:, t] * (2 if t > 1 else 3) for t in range(x.shape[1])], 1)


class BranchesOnData(Net):
    """Fails in the first step, peeled or not."""

    def __init__(self) -> None:
        super().__init__()
        self.runs = iter(range(9))

    def forward(self, x):
        next(self.runs)  # ends captures without end
        return torch.stack([x[:, t] if x[0, t, 0] > 0 else -x[:, t] for t in range(x.shape[1])])


class TwoLengths(Net):
    def forward(self, x):
        return torch.stack([a.sum() + b.sum() for a, b in zip(x, x.unbind(1), strict=False)])


class SwapsStates(Net):
    """Carries one state over two steps."""

    def forward(self, x):
        a, b = x[:, 0], x[:, 0] * 2
        for t in range(x.shape[1]):
            a, b = b + x[:, t], a
        return a, b


class NoLoop(Net):
    def forward(self, x):
        return x * 2


REFUSED = {
    Breaks: "left early",
    Grows: "carried to the next step is float32",
    CountsSteps: "leaves behind in Python",
    ReadsListLength: "leaves behind in Python",
    ReadsSecond: "which is not the last",
    TakesNext: "left early",
    WritesAfterLoop: "a tensor that it puts into a list changes",
    CountsRows: "cannot become one scan",
    AppendsConstant: "leaves behind in Python",
    BranchesOnIndex: "data-dependent",
    BranchesAfterSecond: "data-dependent",
    BranchesOnData: "data-dependent",
    TwoLengths: "may not have the same length",
    SwapsStates: "step 2 differs from step 1",
    NoLoop: "no loop over a dynamic size",
}


@pytest.mark.alternates(parts=2)
@pytest.mark.parametrize("cls", REFUSED, ids=lambda cls: cls.__name__)
def test_refused(cls) -> None:
    with pytest.raises(ExportError, match=REFUSED[cls]):
        to_onnx(cls(), (torch.rand(2, 6, 4),), dynamic_shapes=SHAPES, export_options=LOOPS)
    assert not {"range", "zip", "enumerate", "len"} & set(globals())


def test_a_sparse_constant_is_not_compared_between_steps() -> None:
    sparse = torch.eye(4).to_sparse()
    model = Counting(lambda x, _: torch.stack([r @ sparse.to_dense() for r in x.unbind(1)], 1))
    with pytest.raises(FunctionNotFoundError, match="aten::to_dense"):
        to_onnx(model, (torch.rand(2, 6, 4),), dynamic_shapes=SHAPES, export_options=LOOPS)


def _different_operators(x, counter):
    h = x[:, 0]
    for _ in range(x.shape[1]):
        h = torch.relu(h) if next(counter) % 2 else torch.tanh(h)
    return h


def _extra_tensors(x, counter):
    h = x[:, 0]
    for _ in range(x.shape[1]):
        h = torch.relu(h + 1) if next(counter) % 2 else h + 1
    return h


def _different_order(x, counter):
    h = x[:, 0]
    for _ in range(x.shape[1]):
        a, b = h * 2, h * 2
        h = torch.atan2(a, a if next(counter) % 2 else b)
    return h


def _different_arguments(x, counter):
    h = x[:, 0]
    for _ in range(x.shape[1]):
        h = h.clamp(0.0) if next(counter) % 2 else h.clamp(0.0, 4.0)
    return h


def _different_branches(x, counter):
    h = x[:, 0]
    for _ in range(x.shape[1]):
        more = torch.sin if next(counter) % 2 else torch.cos
        h = torch.cond(h.sum() > 0, lambda h, more=more: more(h), torch.neg, (h,))
    return h


def _shared_start(x, counter):
    a, b = x[:, 0], x[:, 0] + 1
    for t in range(x.shape[1]):
        h, a = a + b, torch.sin(x[:, t])
        b = a
    return h


def _different_third_step(x, counter):
    h, g = x[:, 0], x[:, 0]
    for _ in range(x.shape[1]):
        source = g if next(counter) % 3 == 0 else h
        h, g = source + 1, source * 2
    return h


def _growing_slice(x, counter):
    h, part = x[:, 0], None
    for t in range(x.shape[1]):
        part = x[:, : t + 1]
        h = h + part.sum(1)
    return h, part


def _number_after_loop(x, counter):
    h, number = x[:, 0], 0
    for t in range(x.shape[1]):
        h, number = h + 1, x[:, t].sum().item()
    return h * number


def _rows_of_unequal_sizes(x, counter):
    rows = []
    for t in range(x.shape[1]):
        rows.append(x[:, t, : 1 + next(counter) % 2])
    return torch.cat(rows, 1)


def _slice_of_rows(x, counter):
    return torch.stack([row * 2 for row in x.unbind(1)[1:]], 1)


def _free_stride(x, counter):
    h = x[:, 0]
    for t in range(0, 12, x.shape[1]):
        h = h + t
    return h


def _out(x, counter):
    out = torch.empty(x.shape[1], x.shape[0], 4)
    return torch.stack([x[:, t] * 2 for t in range(x.shape[1])], out=out)


def _different_fifth_step(x, counter):
    h = x[:, 0]
    for _ in range(x.shape[1]):
        h = h * 7 if next(counter) == 5 else h + 1
    return h


REFUSED_STEPS = {
    _different_operators: "step 2 differs from step 1: relu.default, then tanh.default",
    _extra_tensors: "it makes 3 tensors, then 2",
    _different_order: "it uses values in another order",
    _different_arguments: "clamp.default has other arguments",
    _different_branches: "an inner loop or branch differs",
    _shared_start: r"(?s)fails at .*length=1, where the module does not: .*create a tensor",
    _different_third_step: "step 3 differs from step 2: it takes",
    _growing_slice: "the rows of its steps are float32",
    _number_after_loop: "of its last step is read afterwards",
    _rows_of_unequal_sizes: "the tensors that it appends to a list differ in shape",
    _slice_of_rows: "a slice of a sequence of dynamic size, at .*in _slice_of_rows",
    _free_stride: "range with a dynamic step, at .*in _free_stride",
    _out: "out= with a list that a loop over a dynamic size fills: .*in _out",
    _different_fifth_step: (
        "with its loops rolled, Counting differs from the module at batch=3, length=8"
    ),
}


class Counting(torch.nn.Module):
    """A model whose steps may differ by a counter in Python."""

    def __init__(self, function) -> None:
        super().__init__()
        self.function = function

    def forward(self, x):
        return self.function(x, itertools.count())


@pytest.mark.alternates(parts=5)
@pytest.mark.parametrize("function", REFUSED_STEPS, ids=lambda function: function.__name__)
def test_steps_that_are_not_alike_are_refused(function) -> None:
    args = (torch.rand(2, 6, 4),)
    with pytest.raises(ExportError, match=REFUSED_STEPS[function]):
        to_onnx(Counting(function), args, dynamic_shapes=SHAPES, export_options=LOOPS)


def test_the_line_is_named() -> None:
    with pytest.raises(ExportError, match=r"h = torch\.cat\(\[h, x\[:, t\]\]\)"):
        to_onnx(Grows(), (torch.rand(2, 6, 4),), dynamic_shapes=SHAPES, export_options=LOOPS)


def test_a_fallback_finds_it() -> None:
    _, builder = to_onnx(
        ListOfSteps(),
        (torch.rand(2, 6, 4),),
        dynamic_shapes=SHAPES,
        export_options=ExportOptions(fallback=True),
        return_builder=True,
    )
    assert builder.record.strategy == "rolled loops"
    assert any(
        step.startswith("rolled: 1 loop at test_loop_rerolling.py:")
        for step in builder.record.steps
    )
    assert any("compared with the module at batch=3, length=8" in s for s in builder.record.steps)


class WrittenAndRead(Net):
    """Reads a tensor that it writes, and writes only a part of another."""

    def forward(self, x):
        read_back, partial = torch.ones_like(x), torch.ones(x.shape[0], x.shape[1] + 1, 4)
        for t in range(x.shape[1]):
            read_back[:, t] = x[:, t] + read_back.mean(1)
            partial[:, t] = x[:, t]
        return read_back, partial


@pytest.mark.parametrize(("cls", "scatters"), [(WrittenInPlace, 0), (WrittenAndRead, 2)])
def test_rows_that_are_written_and_not_read_are_results(cls, scatters) -> None:
    module = cls()
    program = export(module, (torch.rand(2, 6, 4),), dynamic_shapes=SHAPES, export_options=LOOPS)
    op_types = operators(program.model_proto.graph)
    assert sum("Scatter" in op_type or op_type == "Where" for op_type in op_types) == scatters
    check_sizes(program, module, SIZES)


def test_one_step_in_the_example() -> None:
    module = ListOfSteps()
    program = export(module, (torch.rand(2, 1, 4),), dynamic_shapes=SHAPES, export_options=LOOPS)
    check_sizes(program, module, SIZES)


def test_one_of_two_options() -> None:
    with pytest.raises(OptionError, match="tracing or loops"):
        ExportOptions(tracing=True, loops=True)


class Rowwise(torch.nn.Module):
    """A loop over a data-dependent number of groups, each with its own rows."""

    def forward(self, x, groups):
        out = torch.zeros_like(x)
        present = torch.nn.functional.one_hot(groups, 4).sum(0).nonzero()
        for group in present:
            (rows,) = torch.where(groups == group[0])
            out.index_add_(0, rows, x[rows] * group[0])
        return out


def test_rows_that_depend_on_data() -> None:
    module, x = Rowwise(), torch.rand(5, 3)
    program = export(module, (x, torch.tensor([0, 2, 2, 3, 0])), export_options=LOOPS)
    for groups in ([1, 1, 1, 1, 1], [3, 2, 1, 0, 1]):
        torch.testing.assert_close(
            program(x, torch.tensor(groups)), module(x, torch.tensor(groups))
        )


class Asserts(Net):
    def forward(self, x):
        h = self.start(x)
        for t in range(x.shape[1]):
            h = self.cell(x[:, t], h)
            torch._assert_async((h.abs() < 2).all(), "a state is large")
        return h


def test_what_a_step_asserts_is_in_the_account() -> None:
    module = Asserts()
    program = export(module, (torch.rand(2, 6, 4),), dynamic_shapes=SHAPES, export_options=LOOPS)
    (assertion,) = program.report.assertions
    assert assertion.startswith("a state is large")
    check_sizes(program, module, SIZES)

"""ExportOptions(loops=True): Python loops over a dynamic size, which torch.export fixes to that of
the example, become one step of a Scan; what cannot be one step is refused with its line."""

from __future__ import annotations

import copy
import itertools

import pytest
import torch

from ortable import ExportOptions, export, to_onnx
from ortable.errors import ExportError, OptionError

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
    """Writes into the carried tensor itself, and reads the index as a number."""

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
        again = []
        for t in range(x.shape[1] - 1, -1, -1):
            again.append(x[:, t].sum(1))
        return torch.stack(outs, -1), torch.stack(again)


class Rows(Net):
    def forward(self, x):
        h = self.start(x)
        for row in x.transpose(0, 1).unbind():
            h = self.cell(row, h)
        other = [row.sum() for row in x.unbind(1)]
        return h, torch.stack(other)


class Zipped(Net):
    def forward(self, x):
        outs = []
        for i, (a, b) in enumerate(zip(x.unbind(1), torch.sin(x).unbind(1), strict=True)):
            outs += [a * i, b]
        return torch.stack(outs, 1), torch.cat(outs, 1)


class Reversed(Net):
    """Lists that are turned round."""

    def forward(self, x):
        front, outs = [], []
        for t in range(x.shape[1]):
            front.insert(0, torch.cos(x[:, t]))
            outs += [x[:, t] * 2, x[:, t] * 3]
        return torch.stack(front, 1), torch.cat(outs[::-1], 1), torch.stack([*front, outs[-1]])


class Joined(Net):
    """A list that begins with something else, and tensors of two rows for each step."""

    def forward(self, x):
        outs = [x[:, 0]]
        for t in range(x.shape[1]):
            outs.append(torch.cat([x[:, t], x[:, t] * 2]))
        outs.append(x[:, -1])
        return torch.cat(outs, 0)


class Several(Net):
    """Loops after each other, and in layers: the second one reads what the first one made."""

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


class Half(Net):
    """Strides, and an end that is computed."""

    def forward(self, x):
        outs = []
        for t in range(0, x.shape[1], 2):
            outs.append(x[:, t] * 2)
        return torch.stack(outs, 1)


class LastOne(Net):
    """A value that is not carried is read after the loop."""

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
    """What is written to is a part of what is returned; the buffer counts."""

    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("seen", torch.zeros(()))

    def forward(self, x):
        out = torch.zeros(x.shape[0], 2, x.shape[1], 4)
        part = out[:, 1]
        for t in range(x.shape[1]):
            part[:, t] = x[:, t] * 2
            self.seen += 1
        return out, self.seen * 1


class Untouched(Net):
    """Not every loop is over a free size, and range is still a class."""

    def forward(self, x):
        assert isinstance(range(3), range) and list(range(2, 0, -1)) == [2, 1]
        outs = [x[:, t] for t in range(x.shape[1])]
        for k, weight in enumerate(zip((1.0, 2.0), [3, 4], strict=True)):
            outs = [*outs, outs[-1] * weight[k] + len(weight)]
        return torch.stack(outs, 1)


class Numbers(Net):
    """A list of numbers becomes a tensor."""

    def forward(self, x):
        places = torch.tensor(list(range(x.shape[1] + 2)), dtype=torch.float32)
        backwards = torch.tensor(list(range(x.shape[1]))[::-1], device=x.device)
        return places, x * backwards[None, :, None]


ANY_LENGTH = [
    Numbers,
    ListOfSteps, WrittenInPlace, Accumulated, Backwards, Rows, Zipped, Reversed, Joined, Several,
    Half, LastOne, Nested, ThroughAView, Untouched,
]  # fmt: skip


class NoStateYet(Net):
    def forward(self, x):
        h, outs = None, []
        for t in range(x.shape[1]):
            h = self.cell(x[:, t]) if h is None else self.cell(x[:, t], h)
            outs.append(h)
        return torch.stack(outs, 1), h


class Before(Net):
    """The index decides, in the first step."""

    def forward(self, x):
        outs = []
        for t in range(x.shape[1]):
            outs.append(x[:, t] - x[:, t - 1] if t > 0 else x[:, t])
        return torch.stack(outs, 1)


class FirstOfThem(Net):
    def forward(self, x):
        outs = []
        for t in range(x.shape[1]):
            outs.append(torch.sin(x[:, t]))
        return outs[0]


class Widened(Net):
    """What it begins with has other sizes."""

    def forward(self, x):
        h = torch.zeros(1, 4)
        for t in range(x.shape[1]):
            h = h * 0.5 + x[:, t]
        return h


class KeptOnce(Net):
    """The first step's tensor is read by all of them."""

    def forward(self, x):
        kept, outs = None, []
        for t in range(x.shape[1]):
            y = torch.sin(x[:, t])
            kept = y if kept is None else kept
            outs.append(y * kept)
        return torch.stack(outs, 1)


class Twins(Net):
    """Loops that may have no further step, inside of others; what two variables begin with is
    read by every step."""

    def forward(self, x):
        rows, first = [], x[0, 0]
        for b in range(x.shape[0]):
            h = g = first
            kept = None
            for t in range(x.shape[1]):
                y = torch.sin(x[b, t])
                kept = y if kept is None else kept
                h, g = torch.tanh(h + y * kept), g - y + first
            rows.append(h * g)
        return torch.stack(rows)


FIRST_APART = [NoStateYet, Before, FirstOfThem, Widened, KeptOnce, Twins]


def operators(graph) -> list[str]:
    """The operators of a graph and of the bodies inside."""
    found = []
    for node in graph.node:
        found.append(node.op_type)
        for attribute in node.attribute:
            if attribute.HasField("g"):
                found += operators(attribute.g)
    return found


def same(program, module, sizes) -> None:
    for batch, length in sizes:
        x = torch.rand(batch, length, 4)
        with torch.no_grad():
            torch.testing.assert_close(program(x), copy.deepcopy(module)(x))


SLOW = {Accumulated, Backwards, Joined, Half, LastOne, Untouched, Zipped}  # run with the sweeps
any_length = pytest.mark.parametrize(
    "cls",
    [pytest.param(c, id=c.__name__, marks=[pytest.mark.slow] * (c in SLOW)) for c in ANY_LENGTH],
)


@pytest.mark.alternates(parts=3)
@any_length
def test_rolled(cls) -> None:
    module = cls()
    program = export(module, (torch.rand(2, 6, 4),), dynamic_shapes=SHAPES, export_options=LOOPS)
    assert "Scan" in operators(program.model_proto.graph)
    same(program, module, SIZES)


@pytest.mark.alternates(parts=3)
@pytest.mark.parametrize("cls", FIRST_APART, ids=lambda cls: cls.__name__)
def test_the_first_step_is_apart(cls) -> None:
    module = cls()
    program = export(module, (torch.rand(2, 6, 4),), dynamic_shapes=SHAPES, export_options=LOOPS)
    assert any("first step peeled" in step for step in program.report.steps)
    same(program, module, SIZES)


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


class Counts(Net):
    def forward(self, x):
        steps, h = 0, x[:, 0]
        for t in range(x.shape[1]):
            steps, h = steps + 1, h + x[:, t]
        return h * steps


class Lengths(Net):
    def forward(self, x):
        outs = []
        for t in range(x.shape[1]):
            outs.append(x[:, t])
        return torch.stack(outs, 1) * len(outs)


class SecondOfThem(Net):
    def forward(self, x):
        outs = []
        for t in range(x.shape[1]):
            outs.append(torch.sin(x[:, t]))
        return outs[1]


class NextOne(Net):
    def forward(self, x):
        index = next(iter(range(x.shape[1])))
        return x[:, index]


class ChangedLater(Net):
    def forward(self, x):
        outs = [torch.sin(x[:, t]) for t in range(x.shape[1])]
        outs[-1] += 1
        return torch.stack(outs, 1)


class CountsRows(Net):
    """A number that is carried."""

    def forward(self, x):
        out, start = torch.zeros(x.shape[0] * x.shape[1], 4), 0
        for t in range(x.shape[1]):
            out[start : start + x.shape[0]] = x[:, t]
            start = start + x.shape[0]
        return out


class SameAgain(Net):
    def forward(self, x):
        outs = []
        for _ in range(x.shape[1]):
            outs.append(x[:, 0])
        return torch.stack(outs, 1)


class Decides(Net):
    def forward(self, x):
        h = x[:, 0]
        for t in range(x.shape[1]):
            if t % 2 == 0:
                h = h + x[:, t]
        return h


class TwoLengths(Net):
    def forward(self, x):
        return torch.stack([a.sum() + b.sum() for a, b in zip(x, x.unbind(1), strict=False)])


class Swapped(Net):
    """One of them is of two steps before."""

    def forward(self, x):
        a, b = x[:, 0], x[:, 0] * 2
        for t in range(x.shape[1]):
            a, b = b + x[:, t], a
        return a, b


class Fixed(Net):
    def forward(self, x):
        return x * 2


REFUSED = {
    Breaks: "left early",
    Grows: "carried to the next step is float32",
    Counts: "leaves behind in Python",
    Lengths: "leaves behind in Python",
    SecondOfThem: "which is not the last",
    NextOne: "left early",
    ChangedLater: "a tensor that it puts into a list changes",
    CountsRows: "cannot become one scan",
    SameAgain: "leaves behind in Python",
    Decides: "data-dependent",
    TwoLengths: "may not have the same length",
    Swapped: "step 2 differs from step 1",
    Fixed: "no loop over a dynamic size",
}


@pytest.mark.alternates(parts=2)
@pytest.mark.parametrize("cls", REFUSED, ids=lambda cls: cls.__name__)
def test_refused(cls) -> None:
    with pytest.raises(ExportError, match=REFUSED[cls]):
        to_onnx(cls(), (torch.rand(2, 6, 4),), dynamic_shapes=SHAPES, export_options=LOOPS)
    assert not {"range", "zip", "enumerate", "len"} & set(globals())


def _kinds(x, n):
    h = x[:, 0]
    for _ in range(x.shape[1]):
        h = torch.relu(h) if next(n) % 2 else torch.tanh(h)
    return h


def _more_tensors(x, n):
    h = x[:, 0]
    for _ in range(x.shape[1]):
        h = torch.relu(h + 1) if next(n) % 2 else h + 1
    return h


def _other_order(x, n):
    h = x[:, 0]
    for _ in range(x.shape[1]):
        a, b = h * 2, h * 2
        h = torch.atan2(a, a if next(n) % 2 else b)
    return h


def _other_arguments(x, n):
    h = x[:, 0]
    for _ in range(x.shape[1]):
        h = h.clamp(0.0) if next(n) % 2 else h.clamp(0.0, 4.0)
    return h


def _another_branch(x, n):
    h = x[:, 0]
    for _ in range(x.shape[1]):
        more = torch.sin if next(n) % 2 else torch.cos
        h = torch.cond(h.sum() > 0, lambda h, more=more: more(h), torch.neg, (h,))
    return h


def _two_beginnings(x, n):
    a, b = x[:, 0], x[:, 0] + 1
    for t in range(x.shape[1]):
        h, a = a + b, torch.sin(x[:, t])
        b = a
    return h


def _every_third(x, n):
    h, g = x[:, 0], x[:, 0]
    for _ in range(x.shape[1]):
        source = g if next(n) % 3 == 0 else h
        h, g = source + 1, source * 2
    return h


def _growing_rest(x, n):
    h, rest = x[:, 0], None
    for t in range(x.shape[1]):
        rest = x[:, : t + 1]
        h = h + rest.sum(1)
    return h, rest


def _number_afterwards(x, n):
    h, number = x[:, 0], 0
    for t in range(x.shape[1]):
        h, number = h + 1, x[:, t].sum().item()
    return h * number


def _rows_of_two_sizes(x, n):
    rows = []
    for t in range(x.shape[1]):
        rows.append(x[:, t, : 1 + next(n) % 2])
    return torch.cat(rows, 1)


def _slice_of_rows(x, n):
    return torch.stack([row * 2 for row in x.unbind(1)[1:]], 1)


def _free_stride(x, n):
    h = x[:, 0]
    for t in range(0, 12, x.shape[1]):
        h = h + t
    return h


def _out(x, n):
    found = torch.empty(x.shape[1], x.shape[0], 4)
    return torch.stack([x[:, t] * 2 for t in range(x.shape[1])], out=found)


def _fifth(x, n):
    h = x[:, 0]
    for _ in range(x.shape[1]):
        h = h * 7 if next(n) == 5 else h + 1
    return h


REFUSED_STEPS = {
    _kinds: "step 2 differs from step 1: relu.default, then tanh.default",
    _more_tensors: "it makes 3 tensors, then 2",
    _other_order: "it uses values in another order",
    _other_arguments: "clamp.default has other arguments",
    _another_branch: "an inner loop or branch differs",
    _two_beginnings: r"(?s)fails at .*length=1, where the module does not: .*create a tensor",
    _every_third: "step 3 differs from step 2: it takes",
    _growing_rest: "the rows of its steps are float32",
    _number_afterwards: "of its last step is read afterwards",
    _rows_of_two_sizes: "the tensors that it appends to a list differ in shape",
    _slice_of_rows: "a slice of a sequence of dynamic size, at .*in _slice_of_rows",
    _free_stride: "range with a dynamic step, at .*in _free_stride",
    _out: "out= with a list that a loop over a dynamic size fills: .*in _out",
    _fifth: "with its loops rolled, Counting differs from the module at batch=3, length=8",
}


class Counting(torch.nn.Module):
    """Steps that differ by what Python counts."""

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
        step.startswith("rolled: 1 loop at test_rolled_loops.py:") for step in builder.record.steps
    )
    assert any("compared with the module at batch=3, length=8" in s for s in builder.record.steps)


class WrittenAndRead(Net):
    """What is written is read again, and not all of it is written."""

    def forward(self, x):
        whole, more = torch.ones_like(x), torch.ones(x.shape[0], x.shape[1] + 1, 4)
        for t in range(x.shape[1]):
            whole[:, t] = x[:, t] + whole.mean(1)
            more[:, t] = x[:, t]
        return whole, more


@pytest.mark.parametrize(("cls", "scatters"), [(WrittenInPlace, 0), (WrittenAndRead, 2)])
def test_rows_that_are_written_and_not_read_are_results(cls, scatters) -> None:
    module = cls()
    program = export(module, (torch.rand(2, 6, 4),), dynamic_shapes=SHAPES, export_options=LOOPS)
    found = operators(program.model_proto.graph)
    assert sum("Scatter" in each or each == "Where" for each in found) == scatters
    same(program, module, SIZES)


def test_one_step_in_the_example() -> None:
    module = ListOfSteps()
    program = export(module, (torch.rand(2, 1, 4),), dynamic_shapes=SHAPES, export_options=LOOPS)
    same(program, module, SIZES)


def test_one_of_two_options() -> None:
    with pytest.raises(OptionError, match="tracing or loops"):
        ExportOptions(tracing=True, loops=True)


class Rowwise(torch.nn.Module):
    """A number of rows that depends on data, of which each chooses rows of its own."""

    def forward(self, x, groups):
        out = torch.zeros_like(x)
        found = torch.nn.functional.one_hot(groups, 4).sum(0).nonzero()
        for group in found:
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
    (said,) = program.report.assertions
    assert said.startswith("a state is large")
    same(program, module, SIZES)

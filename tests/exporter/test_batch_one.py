"""Exports from an example of batch 1, which are proved or refused for sizes 1 and 0."""

from __future__ import annotations

import copy
import re
from typing import Any

import pytest
import torch
from torch.export import Dim
from torch.utils import _pytree as pytree

import ortable
from ortable.errors import ExportError, InputError
from ortable.exporter.capture import graph_at_sizes, small_sizes
from ortable.exporter.capture.graph_at_sizes import FailingNodeError

from .batch_one_models import CASES, Pair
from .program_helpers import module_of

pytestmark = pytest.mark.alternates(parts=3)

KINDS: dict[str, Any] = {
    "name": lambda name: name,
    "Dim": Dim,
    "DYNAMIC": lambda _: Dim.DYNAMIC,
    "AUTO": lambda _: Dim.AUTO,
}


def _mark(dynamic: Any, kind: str) -> Any:
    """Replace each name by a mark of this kind, the same mark for the same name."""
    marks: dict[str, Any] = {}

    def mark(leaf: Any) -> Any:
        return marks.setdefault(leaf, KINDS[kind](leaf)) if isinstance(leaf, str) else leaf

    return pytree.tree_map(mark, dynamic)


def _check(program: Any, module: torch.nn.Module, call: Any) -> None:
    """Check that the program and the module return the same, or both refuse the call."""
    args, kwargs = copy.deepcopy(call)
    try:
        with torch.no_grad():
            expected = module(*args, **kwargs)
    except RuntimeError as error:
        message = str(error).splitlines()[0]
        with pytest.raises(
            InputError, match=re.escape(f"at 0 the module raises RuntimeError: {message}")
        ):
            program(*call[0], **call[1])
        return
    args, kwargs = copy.deepcopy(call)
    torch.testing.assert_close(program(*args, **kwargs), expected)


@pytest.mark.alternates(parts=5)
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("name", CASES)
def test_an_export_of_batch_one_equals_eager_at_others(name: str, kind: str) -> None:
    torch.manual_seed(0)
    case = CASES[name]()
    case.module.eval()
    call = case.call(1)
    original = copy.deepcopy(call)
    program = ortable.export(
        case.module, *call, dynamic_shapes=_mark(case.dynamic, kind), validate=True
    )
    for tensor, copied in zip(pytree.tree_leaves(call), pytree.tree_leaves(original), strict=True):
        assert torch.equal(tensor, copied)  # The export does not modify the arguments.
    for batch in case.batches:
        _check(program, case.module, case.call(batch))


def _branch(self, x):
    if x.shape[0] == 1:
        return x * 2
    return x * 3


def _number(self, x):
    return x * (2 if x.shape[0] == 1 else 3)


def _other_tensor(self, x, y):
    return (x if x.shape[0] == 1 else y) * 2


def _squeeze(self, x):
    return x.squeeze() * 2


def _view(self, x):
    return x.view(x.shape[0], -1) * 2


def _empty(self, x):
    if x.shape[0] == 0:
        return x.new_ones(4)
    return x.sum(0)


def _largest(self, x):
    return x.amax(0)


def _export_function(forward: Any, size: int, mark: Any = "batch", count: int = 1) -> Any:
    args = tuple(torch.randn(size, 4) for _ in range(count))
    return ortable.export(module_of(forward), args, dynamic_shapes=tuple([{0: mark}] * count))


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize(
    ("forward", "count", "size", "line"),
    [
        (_branch, 1, 1, "return x \\* 2"),
        (_number, 1, 1, "return x \\* \\(2 if"),
        (_other_tensor, 2, 1, "return \\(x if x.shape"),
        (_squeeze, 1, 1, "return x.squeeze"),
        (_view, 1, 0, "cannot reshape tensor of 0 elements.*return x.view"),
        (_empty, 1, 0, "return x.new_ones"),
        (_largest, 1, 0, "amax.*return x.amax"),
    ],
)
def test_a_small_size_at_which_the_module_differs_is_refused_with_its_line(
    forward, count, size, line, kind
) -> None:
    program = _export_function(forward, 3, KINDS[kind]("batch"), count)
    for batch in (2, 5):
        _check(
            program, module_of(forward), (tuple(torch.randn(batch, 4) for _ in range(count)), {})
        )
    with pytest.raises(InputError, match=f"takes {size + 1} or more there: at {size} .*{line}"):
        program(*(torch.randn(size, 4) for _ in range(count)))


@pytest.mark.parametrize("kind", KINDS)
def test_an_example_of_two_takes_one_and_none(kind: str) -> None:
    case = CASES["attention"]()
    call = case.call(2)
    program = ortable.export(case.module.eval(), *call, dynamic_shapes=_mark(case.dynamic, kind))
    for batch in (1, 0, 4):
        _check(program, case.module, case.call(batch))


def test_a_branch_on_the_size_of_the_example_keeps_the_side_of_the_example() -> None:
    with pytest.warns(UserWarning, match=r"batch == 1[\s\S]*if x.shape\[0\] == 1"):
        program = _export_function(_branch, 1)
    _check(program, module_of(_branch), ((torch.randn(1, 4),), {}))
    with pytest.raises(InputError, match=r"batch == 1 \(test_batch_one.py"):
        program(torch.randn(2, 4))


def test_an_example_that_differs_from_all_other_sizes_is_refused() -> None:
    with pytest.raises(ExportError, match=r"batch=1.*return x.squeeze"):
        _export_function(_squeeze, 1)


def test_a_branch_on_one_has_both_sides_with_a_fallback() -> None:
    module = module_of(_branch)
    program = ortable.export(
        module,
        (torch.randn(1, 4),),
        dynamic_shapes=({0: "batch"},),
        export_options=ortable.ExportOptions(fallback=True, guards="ignore"),
    )
    _check(program, module, ((torch.randn(1, 4),), {}))


def test_tensors_that_belong_together_without_a_name_grow_together() -> None:
    """Unnamed dimensions that must be equal are enlarged together."""
    module = module_of(lambda self, x, y: x + y)
    for mark in (Dim.DYNAMIC, Dim.AUTO):
        args = (torch.randn(1, 4), torch.randn(1, 4))
        program = ortable.export(module, args, dynamic_shapes=({0: mark}, {0: mark}))
        for batch in (1, 2, 5, 0):
            _check(program, module, ((torch.randn(batch, 4), torch.randn(batch, 4)), {}))
        with pytest.raises(InputError, match="one size"):
            program(torch.randn(1, 4), torch.randn(5, 4))


def _write_scalar(self, x):
    y = x.clone()
    y[:2] = 1.0
    return y


def _write_last_rows(self, x):
    y = x.clone()
    y[-2:, 0] = torch.ones(1)
    return y


def _write_flat(self, x):
    y = x.clone()
    y.view(-1)[:5] = 1.0
    return y


def _write_transposed(self, x):
    y = x.clone()
    y.t()[0, :2] = 1.0
    return y


def _write_argument(self, x):
    x[:2] = 1.0
    return x * 1


def _scatter_slice(self, x):
    return torch.slice_scatter(x, torch.ones(2, 4), 0, 0, 2)


def _scatter_row(self, x):
    return torch.select_scatter(x, torch.ones(4), 0, 1)


@pytest.mark.parametrize(
    "forward",
    [
        _write_scalar, _write_last_rows, _write_flat, _write_transposed, _write_argument,
        _scatter_slice, _scatter_row,
    ],
)  # fmt: skip
def test_a_write_of_two_rows_is_refused_for_one(forward: Any) -> None:
    """A record of calls does not show the shape of the view that ``y[:2] = 1`` writes to."""
    program = _export_function(forward, 5)
    for batch in (2, 4):
        x = torch.randn(batch, 4)
        torch.testing.assert_close(program(x.clone()), module_of(forward)(x.clone()))
    for batch in (1, 0):
        with pytest.raises(InputError, match=f"is {batch}; the model takes 2 or more.* at 1 "):
            program(torch.randn(batch, 4))


def test_what_a_composite_operator_hides_is_refused() -> None:
    program = _export_function(lambda self, x: torch.trapezoid(x, dim=0), 5)
    torch.testing.assert_close(program(torch.randn(1, 4)), torch.zeros(4))
    with pytest.raises(InputError, match=r"takes 1 or more there: at 0 aten.select.int raises"):
        program(torch.randn(0, 4))


def test_what_a_composite_operator_leaves_out_for_small_sizes_is_not_refused() -> None:
    """At 0 local_response_norm returns early, and torch's view of its graph is ambiguous."""

    def norm(self, x, k):
        return torch.nn.functional.local_response_norm(x, 3) * torch.tensor(k)

    args = torch.randn(3, 4, 6, 6), 3
    program = ortable.export(module_of(norm), args, dynamic_shapes=({0: "batch"}, "k"))
    for batch in (5, 1, 0):
        _check(program, module_of(norm), ((torch.randn(batch, 4, 6, 6), 4), {}))


def test_writes_of_whole_axes_and_of_one_row_take_one() -> None:
    def write_parts(self, x):
        y = x.clone()
        y[0:1] = 1.0
        y[:, 1] = 2.0
        y[1:] *= 2
        return y.softmax(1)

    program = _export_function(write_parts, 5)
    for batch in (1, 3):
        _check(program, module_of(write_parts), ((torch.randn(batch, 4),), {}))


def test_axes_that_the_model_fixes_stay_where_torch_may_choose() -> None:
    """With Dim.AUTO, dimensions that the model fixes stay static."""
    module = torch.nn.Conv2d(1, 2, 3, padding=1)
    program = ortable.export(
        module, (torch.randn(1, 1, 8, 8),), dynamic_shapes=(dict.fromkeys(range(4), Dim.AUTO),)
    )
    for shape in ((1, 1, 8, 8), (3, 1, 5, 9), (0, 1, 8, 8)):
        _check(program, module, ((torch.randn(shape),), {}))


def test_sums_of_names_and_empty_tensors_grow_together() -> None:
    module = module_of(lambda self, x, past, mask: torch.cat([past, x], 1) * mask[:, :, None])
    shapes = {
        "x": {0: "batch", 1: "new"},
        "past": {0: "batch", 1: "old"},
        "mask": {0: "batch", 1: "old + new"},
    }

    def call(batch: int, old: int, new: int) -> Any:
        tensors = torch.randn(batch, new, 3), torch.randn(batch, old, 3)
        return (*tensors, torch.ones(batch, old + new)), {}

    program = ortable.export(module, *call(1, 0, 1), dynamic_shapes=shapes)
    for sizes in ((1, 0, 1), (2, 3, 4), (1, 5, 1), (3, 1, 0), (0, 2, 2)):
        _check(program, module, call(*sizes))


def test_containers_and_derived_dimensions_grow() -> None:
    half = Dim("half")
    module = module_of(lambda self, parts: parts["a"][::2] + parts["b"][0])
    parts = {"a": torch.randn(2, 3), "b": [torch.randn(1, 3)]}
    program = ortable.export(
        module, (parts,), dynamic_shapes={"parts": {"a": {0: 2 * half}, "b": [{0: half}]}}
    )
    for size in (1, 2, 5):
        _check(
            program, module, (({"a": torch.randn(2 * size, 3), "b": [torch.randn(size, 3)]},), {})
        )
    assert parts["a"].shape == (2, 3)


def test_integers_keep_values_that_the_model_takes() -> None:
    module = torch.nn.Embedding(4, 3)
    program = ortable.export(
        module, (torch.full((1, 1), 3),), dynamic_shapes=({0: "batch", 1: "length"},)
    )
    for shape in ((1, 1), (2, 5), (0, 3)):
        _check(program, module, ((torch.randint(0, 4, shape),), {}))


@pytest.mark.parametrize("options", [{"strict": True}, {"fallback": True}, {"tracing": True}])
def test_the_other_ways_to_a_program(options: dict[str, Any]) -> None:
    """Strict mode, fallback and tracing prove small sizes as well."""
    module = CASES["attention"]().module.eval()
    program = ortable.export(
        module,
        (torch.randn(1, 5, 16),),
        dynamic_shapes={"x": {0: "batch"}},
        export_options=ortable.ExportOptions(**options),
    )
    for batch in (1, 2, 5, 0):
        _check(program, module, ((torch.randn(batch, 5, 16),), {}))


@pytest.mark.parametrize("mark", [Dim.DYNAMIC, Dim.AUTO])
def test_a_program_of_torch_takes_small_sizes_where_they_hold(mark: Any) -> None:
    layer = torch.nn.TransformerEncoderLayer(16, 2, 32, batch_first=True).eval()
    exported = torch.export.export(layer, (torch.randn(3, 5, 16),), dynamic_shapes=({0: mark},))
    program = ortable.export(exported)
    for batch in (1, 0, 4):
        _check(program, layer, ((torch.randn(batch, 5, 16),), {}))
    squeezing = torch.export.export(
        module_of(_squeeze), (torch.randn(3, 4),), dynamic_shapes=({0: mark},)
    )
    with pytest.raises(InputError, match=r"at 1 a result of aten.squeeze.default has shape \[4\]"):
        ortable.export(squeezing)(torch.randn(1, 4))


def test_a_range_of_the_caller_stays() -> None:
    """The range of an explicit Dim is not extended to small sizes."""
    for mark in (Dim("batch", min=2, max=9), Dim.DYNAMIC(min=2, max=9)):
        program = _export_function(_view, 3, mark)
        with pytest.raises(InputError, match="takes 2 to 9"):
            program(torch.randn(1, 4))
    program = _export_function(_view, 1, Dim("batch", min=1, max=2))
    for batch in (1, 2):
        _check(program, module_of(_view), ((torch.randn(batch, 4),), {}))


def test_the_report_and_the_metadata_say_the_smallest_size(tmp_path) -> None:
    file = tmp_path / "report.md"
    model = ortable.to_onnx(
        module_of(_view), (torch.randn(1, 4),), dynamic_shapes=({0: "batch"},), report=file
    )
    assert re.search(r"\| batch +\| 1 +\|", file.read_text())
    smallest = {entry.key: entry.value for entry in model.metadata_props}["ortable.smallest_sizes"]
    assert smallest.startswith("batch is 1 or more: at 0 the module raises RuntimeError")


def test_weights_without_data() -> None:
    with torch.device("meta"):
        module = CASES["attention"]().module.eval()
    program = ortable.export(
        module, (torch.randn(1, 5, 16, device="meta"),), dynamic_shapes={"x": {0: "batch"}}
    )
    shape = program.model_proto.graph.input[0].type.tensor_type.shape
    assert shape.dim[0].dim_param == "batch"


def test_nested_inputs_are_named_by_their_dataclass() -> None:
    case = CASES["dataclass"]()
    program = ortable.export(case.module.eval(), *case.call(1), dynamic_shapes=case.dynamic)
    with pytest.raises(InputError, match=r"'pair.right' \(input 'pair_right'\) is 3"):
        program(Pair(torch.randn(2, 5, 16), torch.randn(3, 5, 16)))


def test_no_size_is_tried_that_ends_the_process() -> None:
    """torch's grouped attention divides by the number of heads, which crashes at a size of 0.

    Its graph takes other numbers of heads, and refuses none.
    """

    class Grouped(torch.nn.Module):
        def forward(self, q: torch.Tensor, k: torch.Tensor, v: torch.Tensor) -> torch.Tensor:
            return torch.ops.aten._scaled_dot_product_attention_math.default(
                q, k, v, is_causal=True, enable_gqa=True
            )[0]

    def make_heads(batch: int, heads: int, groups: int, length: int) -> tuple[torch.Tensor, ...]:
        return tuple(torch.randn(batch, n, length, 8) for n in (heads, groups, groups))

    auto = tuple(tuple(torch.export.Dim.AUTO for _ in range(4)) for _ in range(3))
    exported = torch.export.export(Grouped(), make_heads(2, 6, 2, 4), dynamic_shapes=auto)
    program = ortable.export(exported)
    for sizes in ((2, 6, 2, 4), (3, 8, 4, 5), (1, 4, 1, 1), (2, 2, 2, 3)):
        heads = make_heads(*sizes)
        torch.testing.assert_close(program(*heads), Grouped()(*heads))
    with pytest.raises(InputError, match="dimension 1 of 'q' is 0"):
        program(*make_heads(2, 0, 1, 3))


def test_kernels_of_gradients_run_at_no_other_size(monkeypatch: pytest.MonkeyPatch) -> None:
    """Gradient kernels do not check sizes, and write out of bounds."""

    class Gradient(torch.nn.Module):
        def forward(self, x, norms, norms2):
            return torch.ops.aten._weight_norm_interface_backward(x, x, norms, norms2, 1)

    def check(*args: Any) -> None:
        raise FailingNodeError(None, "fake tensors lack something")

    def run(*args: Any) -> None:
        raise AssertionError("a kernel ran")

    monkeypatch.setattr(small_sizes.GraphAtSizes, "check_shapes", check)
    monkeypatch.setattr(small_sizes, "check_graph", run)
    call = torch.rand(3, 4), torch.rand(1, 4), torch.rand(1, 4)
    shapes = tuple({0: Dim.AUTO, 1: Dim.AUTO} for _ in call)
    ortable.export(torch.export.export(Gradient(), call, dynamic_shapes=(*shapes,)))


def test_layers_that_are_equal_are_proved_once(monkeypatch: pytest.MonkeyPatch) -> None:
    layers = [torch.nn.TransformerEncoderLayer(16, 2, 32, batch_first=True) for _ in range(3)]
    shapes = ({0: Dim.AUTO},)
    runs: list[str] = []
    run_node = graph_at_sizes.GraphAtSizes._run_node

    def run_and_record(self: Any, node: Any, known: Any) -> Any:
        runs.append(str(node.target))
        return run_node(self, node, known)

    monkeypatch.setattr(graph_at_sizes, "_CACHE", {})
    monkeypatch.setattr(graph_at_sizes.GraphAtSizes, "_run_node", run_and_record)
    run_counts = []
    for count in (1, 3, 3):
        module = torch.nn.Sequential(*layers[:count]).eval()
        exported = torch.export.export(module, (torch.randn(3, 5, 16),), dynamic_shapes=shapes)
        program = ortable.export(exported)
        _check(program, module, ((torch.randn(1, 5, 16),), {}))
        run_counts.append(len(runs))
    assert 0 < run_counts[0] == run_counts[1] == run_counts[2]


@pytest.mark.filterwarnings("ignore:")
def test_no_size_is_tried_at_which_an_input_would_have_a_negative_one() -> None:
    class Dilated(torch.nn.Module):
        def forward(self, x: torch.Tensor, weight: torch.Tensor) -> torch.Tensor:
            return torch.nn.functional.conv3d(x, weight, dilation=2)

    # the result has a size of 1, so torch makes the sizes of x 2 * s - 1, which is -1 at s=0
    x, weight = torch.randn(1, 1, 5, 5, 5), torch.randn(1, 1, 3, 3, 3)
    auto = dict.fromkeys(range(5), torch.export.Dim.AUTO)
    program = ortable.export(Dilated(), (x, weight), dynamic_shapes=(auto, auto), validate=True)
    torch.testing.assert_close(program(x, weight), Dilated()(x, weight), rtol=1e-4, atol=1e-4)

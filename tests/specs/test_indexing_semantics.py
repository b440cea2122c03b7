"""Python's [] in graphs of torch functions, as_strided, and views as another dtype equal torch."""

from __future__ import annotations

import operator
from typing import Any

import pytest
import torch

import ortable
from ortable import dtypes
from ortable.builder import GraphBuilder
from ortable.errors import UnsupportedCase
from ortable.interpreter.interpreter import DynamoInterpreter
from ortable.lowerings.indexing import lower_getitem
from ortable.testing.entries import run_onnx

X = torch.arange(120, dtype=torch.float32).reshape(2, 3, 4, 5)
ROWS = torch.tensor([0, -1])
COLUMNS = torch.tensor([[2], [0], [1]])
MASK = torch.tensor([True, False, True])


@pytest.mark.parametrize(
    "index",
    [
        1,
        -1,
        slice(None, 0),
        slice(1, None, 2),
        (slice(None), slice(-2, None)),
        (..., 0),
        (0, ..., slice(1, -1)),
        (None, 1, None, ..., None),
        (1, slice(None), 2),
        True,
        (slice(None), False),
        [1, 0],
        (slice(None), [0, 2, 2], [1, 0, 3]),
        ROWS,
        (slice(None), ROWS),
        (ROWS, slice(None), COLUMNS),
        (slice(None), COLUMNS, ROWS),
        (0, slice(None), ROWS),
        (slice(None), ROWS, 1),
        (..., ROWS),
        (slice(None), MASK),
        (ROWS, MASK),
        (..., MASK, slice(None), 0),
        torch.tensor(1),
        (torch.tensor(1), slice(None), ROWS),
        X > 60,
        (X[..., 0] > 60,),
        (0, X[0] > 30),
        [],
        [[0, 1], [2, 0]],
        [(0, 1), 2],
        [[0, 1]],
        [slice(None), 0],
        [None, 1],
        [..., 2],
        [torch.tensor(1), torch.tensor(2)],
        [ROWS, 1],
        ([[0, 1], [1, 0]], 2),
        [[0, 1] for _ in range(40)],
        range(2),
        [range(2), 1],
        (range(2), 1),
        ((0, 1), slice(None), (2, 1)),
        (range(0), 1),
    ],
    ids=lambda index: str(index)[:40],
)
@pytest.mark.filterwarnings("ignore:Using a non-tuple sequence")
def test_python_indexing_equals_torch(index: Any) -> None:
    expected = X[index]
    graph = GraphBuilder(18)
    x = graph.make_tensor_input("x", dtypes.float32, tuple(X.shape))
    y = lower_getitem(graph, None, x, _add_tensors(graph, index))  # type: ignore[arg-type]
    graph.make_node("Identity", [y], ["y"])
    graph.make_tensor_output("y", dtypes.float32, None)
    (result,) = run_onnx(graph.to_onnx(), {"x": X})
    torch.testing.assert_close(result, expected, rtol=0, atol=0)


def _add_tensors(graph: GraphBuilder, index: Any) -> Any:
    if isinstance(index, (tuple, list)):
        return type(index)(_add_tensors(graph, item) for item in index)
    if isinstance(index, slice):
        return slice(*(_add_tensors(graph, x) for x in (index.start, index.stop, index.step)))
    return graph.make_initializer("", index) if isinstance(index, torch.Tensor) else index


def _run(module: torch.nn.Module, *args: torch.Tensor, opset: int = 18) -> list[torch.Tensor]:
    program = torch.export.export(module, args)
    builder = GraphBuilder(opset)
    interpreter = DynamoInterpreter(builder)
    interpreter.run(program.graph_module)
    builder.remove_unused()
    names = [record.name for record in interpreter.inputs if record.name is not None]
    return run_onnx(builder.to_onnx(), dict(zip(names, args, strict=True)))


_INDEX, _MASK = torch.tensor(1), torch.tensor(True)


@pytest.mark.parametrize(
    ("index", "message"),
    [
        (([_INDEX, _INDEX],), "a list of tensors or dynamic sizes as an index; use torch.stack"),
        ((_MASK,), "indexing by a 0-d bool mask; use torch.where"),
        ((slice(None), _MASK), "indexing by a 0-d bool mask"),
        (
            slice(_INDEX, None),
            "a slice with a tensor as start, stop or step; use torch.narrow, or .item()",
        ),
        (
            slice(None, None, _INDEX),
            "a slice with a tensor as start, stop or step; use torch.narrow",
        ),
        (1.5, "a float as an index; torch takes integers and bools only"),
        (X[0, 0], "a float as an index; torch takes integers and bools only"),
    ],
)
def test_an_index_that_getitem_cannot_keep_is_refused(index: Any, message: str) -> None:
    graph = GraphBuilder(18)
    x = graph.make_tensor_input("x", dtypes.float32, tuple(X.shape))
    with pytest.raises(UnsupportedCase, match=message):
        lower_getitem(graph, None, x, _add_tensors(graph, index))  # type: ignore[arg-type]


class StridedView(torch.nn.Module):
    """Reads the memory of a view of its input: ``view(x)`` and the arguments of as_strided."""

    def __init__(self, view: Any, *layout: Any) -> None:
        super().__init__()
        self.view, self.layout = view, layout

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return torch.as_strided(self.view(x), *self.layout)


STRIDED_VIEWS = {
    "transposed": (lambda x: x.t(), (3, 2), (1, 4), 1),
    "gaps": (lambda x: x[1:, :2], (2, 2), (1, 1)),
    "before the view": (lambda x: x[1:].detach(), (2, 2), (4, 1), 0),
    "expanded": (lambda x: x[:1].expand(3, 4), (2, 5), (0, 1), 0),
    "diagonal": (lambda x: x.diagonal(), (2,), (6,)),
    "a part of several": (lambda x: x.chunk(2, 1)[1], (3, 2), (4, 1)),
    "nested": (lambda x: x.as_strided((2, 2), (4, 1), 5), (2, 2), (1, 4)),
    "of a result": (lambda x: (x + 1)[:, 1:], (2, 3), (3, 1), 2),
    "a copy": (lambda x: x.t().reshape(-1), (3, 2), (2, 1), 3),
}


@pytest.mark.parametrize("name", STRIDED_VIEWS)
def test_as_strided_reads_the_memory_that_the_view_belongs_to(name: str) -> None:
    x, model = torch.arange(12.0).reshape(3, 4), StridedView(*STRIDED_VIEWS[name])
    (result,) = _run(model, x)
    torch.testing.assert_close(result, model(x), rtol=0, atol=0)


def test_as_strided_of_a_view_of_dynamic_size_reads_before_it() -> None:
    model = StridedView(lambda x: x[1:].t(), (3, 2), (1, 4), 1)
    program = ortable.export(model, (torch.ones(3, 4),), dynamic_shapes=({0: "n"},))
    x = torch.arange(20.0).reshape(5, 4)
    torch.testing.assert_close(program(x), model(x), rtol=0, atol=0)


def test_as_strided_of_an_input_with_gaps_is_refused() -> None:
    with pytest.raises(Exception, match="gaps or overlaps"):
        _run(StridedView(lambda x: x, (2, 2), (1, 1)), torch.arange(12.0).reshape(3, 4)[:, :2])


def test_as_strided_before_an_input_is_refused() -> None:
    x = torch.arange(12.0).reshape(3, 4)[1:]
    with pytest.raises(UnsupportedCase, match="outside its input"):
        _run(StridedView(lambda x: x, (2, 2), (4, 1), 0), x)


def test_as_strided_of_a_dynamic_input_that_is_not_contiguous_is_refused() -> None:
    message = "aten::as_strided of a dynamic shape that is not contiguous: make its sizes static"
    with pytest.raises(UnsupportedCase, match=message):
        ortable.export(
            StridedView(lambda x: x, (3, 2), (1, 4), 1),
            (torch.ones(4, 3).t(),),
            dynamic_shapes=({0: "n"},),
        )


def test_getitem_of_a_sequence_of_results_adds_no_node() -> None:
    graph = torch.fx.Graph()
    x = graph.placeholder("x")
    x.meta["val"] = torch.empty(4, 2)
    parts = graph.call_function(torch.ops.aten.split.Tensor, (x, 2))
    parts.meta["val"] = (torch.empty(2, 2), torch.empty(2, 2))
    last = graph.call_function(operator.getitem, (parts, 1))
    last.meta["val"] = torch.empty(2, 2)
    graph.output((last,))
    builder = GraphBuilder(18)
    DynamoInterpreter(builder).run(torch.fx.GraphModule(torch.nn.Module(), graph))
    assert [node.op_type for node in builder.nodes] == ["Split", "Identity"]

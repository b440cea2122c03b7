"""Calls of OnnxProgram: equality with the exported module, and errors for wrong arguments."""

from __future__ import annotations

import copy
import dataclasses
from collections import OrderedDict, namedtuple
from pathlib import Path
from typing import Any

import pytest
import torch
from torch.export import Dim

import ortable
from ortable import OnnxProgram, export
from ortable.errors import (
    ExportError,
    InputError,
)

from .program_helpers import Small, X, assert_like, check, module_of

# -- calls


def test_a_program_is_called_like_its_module() -> None:
    module = Small()
    program = export(module, X)
    assert isinstance(program, OnnxProgram)
    result = check(module, program, *X)
    assert not result.requires_grad
    check(module, program, x=X[0])


@dataclasses.dataclass
class Pair:
    left: torch.Tensor
    right: torch.Tensor


Point = namedtuple("Point", ["x", "y"])


def test_containers_come_in_and_go_out_as_they_are() -> None:
    torch.export.register_dataclass(Pair)

    def forward(self, pair, nested, point, *, mask=None, extra=None):
        total = pair.left + nested["a"][0] @ nested["b"]
        return {
            "pair": Pair(total, pair.right * 2),
            "list": [total.sum(), (point.x, None)],
            "point": Point(point.y, total > 0),
            "ordered": OrderedDict(z=total, a=extra["e"]),
        }

    module = module_of(forward)
    square = torch.eye(3) * 2
    args = (Pair(X[0], X[0] + 1), {"a": [X[0]], "b": square}, Point(X[0], -X[0]))
    kwargs = {"extra": {"e": torch.arange(3)}}
    program = export(module, args, kwargs)
    result = check(module, program, *args, **kwargs)
    assert isinstance(result["pair"], Pair) and isinstance(result["point"], Point)
    # another order, arguments by name, and an explicit default
    nested = {"b": square, "a": [X[0]]}
    check(module, program, args[0], mask=None, extra=kwargs["extra"], point=args[2], nested=nested)


def test_outputs_of_transformers_come_back_as_their_classes() -> None:
    import transformers

    outputs = transformers.modeling_outputs

    def forward(self, x):
        return outputs.BaseModelOutput(last_hidden_state=x * 2, hidden_states=(x, x + 1))

    module = module_of(forward)
    program = export(module, X)
    result = check(module, program, *X)
    assert torch.equal(result.last_hidden_state, X[0] * 2)
    assert result.attentions is None and result[0] is result.last_hidden_state


def test_caches_are_taken_and_returned() -> None:
    import transformers

    def make_cache(length: int) -> Any:
        cache = transformers.DynamicCache()
        for layer in range(2):
            states = torch.arange(2.0 * length * 4).reshape(1, 2, length, 4) + layer
            cache.update(states, states * 2, layer)
        return cache

    def forward(self, x, past):
        for layer in range(2):
            past.update(x, x + layer, layer)
        return x.sum(), past

    x = torch.randn(1, 2, 1, 4)
    module = module_of(forward)
    shapes = {"x": None, "past": {2: "length"}}
    program = export(module, (x, make_cache(3)), dynamic_shapes=shapes)
    for length in (3, 8):
        expected = module(x, make_cache(length))
        total, past = program(x, past=make_cache(length))
        assert isinstance(past, transformers.DynamicCache)
        torch.testing.assert_close(total, expected[0])
        for layer, eager in zip(past.layers, expected[1].layers, strict=True):
            assert torch.equal(layer.keys, eager.keys) and torch.equal(layer.values, eager.values)
    with pytest.raises(InputError, match="lacks 'past"):
        program(x, transformers.DynamicCache())


def test_a_language_model_with_its_cache() -> None:
    import transformers

    config = transformers.LlamaConfig(
        hidden_size=32, intermediate_size=64, num_hidden_layers=2, num_attention_heads=4,
        num_key_value_heads=2, vocab_size=50, max_position_embeddings=64,
    )  # fmt: skip
    torch.manual_seed(0)
    model = transformers.LlamaForCausalLM(config).eval()

    def make_call(new: int, past: int) -> dict[str, Any]:
        cache = transformers.DynamicCache(config=config)
        for layer in range(2):
            cache.update(torch.randn(1, 2, past, 8), torch.randn(1, 2, past, 8), layer)
        return {
            "input_ids": torch.randint(0, 50, (1, new)),
            "attention_mask": torch.ones(1, past + new, dtype=torch.int64),
            "past_key_values": cache,
            "use_cache": True,
        }

    shapes = {
        "input_ids": {1: "new"}, "attention_mask": {1: "past + new"},
        "past_key_values": {2: "past"}, "use_cache": None,
    }  # fmt: skip
    program = export(model, (), make_call(3, 5), dynamic_shapes=shapes)
    for sizes in ((3, 5), (1, 9)):
        kwargs = make_call(*sizes)
        with torch.no_grad():
            expected = model(**copy.deepcopy(kwargs))
        result = program(**kwargs)
        assert type(result) is type(expected)
        torch.testing.assert_close(result.logits, expected.logits, rtol=1e-4, atol=1e-5)
        assert isinstance(result.past_key_values, transformers.DynamicCache)
        torch.testing.assert_close(
            result.past_key_values.layers[1].keys, expected.past_key_values.layers[1].keys
        )
    with pytest.raises(InputError, match=r"'new \+ past' is 8 in this call"):
        program(**{**make_call(3, 5), "attention_mask": torch.ones(1, 9, dtype=torch.int64)})


def test_other_sizes_of_dynamic_dimensions() -> None:
    module = Small()
    program = export(module, X, dynamic_shapes={"x": {0: "batch"}})
    for rows in (4, 1, 9, 0):
        check(module, program, torch.randn(rows, 3))


def test_sizes_of_one_dimension_are_one_size() -> None:
    """Torch and ONNX Runtime accept unequal sizes: each tensor is summed separately."""
    module = module_of(lambda self, x, y: x.sum(0) + y.sum(0))
    batch = Dim("batch")
    shapes = {"x": {0: batch}, "y": {0: batch}}
    program = export(module, (torch.randn(3, 4), torch.randn(3, 4)), dynamic_shapes=shapes)
    check(module, program, torch.randn(5, 4), torch.randn(5, 4))
    with pytest.raises(InputError, match=r"dimension 0 of 'y' is 5.* 'x' is 3.* one size"):
        program(torch.randn(3, 4), torch.randn(5, 4))


def test_dimensions_that_are_expressions() -> None:
    half = Dim("half", min=1)
    module = module_of(lambda self, x, y: x.reshape(-1, 2).sum(1) + y)
    shapes = {"x": {0: 2 * half}, "y": {0: half}}
    program = export(module, (torch.randn(6), torch.randn(3)), dynamic_shapes=shapes)
    check(module, program, torch.randn(10), torch.randn(5))
    with pytest.raises(InputError, match=r"dimension 0 of 'x' is 9; .* 2\*half there, which is 10"):
        program(torch.randn(9), torch.randn(5))


def test_a_named_sum_is_a_promise() -> None:
    module = module_of(lambda self, mask, past, x: mask[:, -1:] + past.sum() + x)
    args = (torch.randn(1, 5), torch.randn(1, 3), torch.randn(1, 2))
    shapes = {"mask": {1: "past + new"}, "past": {1: "past"}, "x": {1: "new"}}
    program = export(module, args, dynamic_shapes=shapes)
    check(module, program, torch.randn(1, 9), torch.randn(1, 5), torch.randn(1, 4))
    with pytest.raises(InputError, match="past"):
        program(torch.randn(1, 8), torch.randn(1, 5), torch.randn(1, 4))


@pytest.mark.parametrize(
    ("name", "rows", "text"),
    [
        ("n", 4, "dimension 0 of 'y' is 6, and another dimension of the name 'n' is 5"),
        ("2*n", 8, r"'2\*n' is 10 in this call, and its dimension is 6"),
        ("n//2", 2, "'n//2' is 2 in this call, and its dimension is 6"),
    ],
)
def test_names_are_promises_that_the_code_need_not_know(name: str, rows: int, text: str) -> None:
    module = module_of(lambda self, x, y: (x * 2, y + 1))
    shapes = {"x": {0: "n"}, "y": {0: name}}
    program = export(module, (torch.randn(4, 3), torch.randn(rows, 2)), dynamic_shapes=shapes)
    check(module, program, torch.randn(6, 3), torch.randn(6 * rows // 4, 2))
    with pytest.raises(InputError, match=text):
        program(torch.randn(5, 3), torch.randn(6, 2))


def test_numbers_and_constants_are_returned_as_they_are() -> None:
    def forward(self, x, scale=2.0, flag=True, mode="add", n=3, nothing=None):
        y = x * scale if flag else x
        rows = x.shape[0]
        return (y + n, n, 1.5, True, None, rows, rows * 2, float("inf"))

    module = module_of(forward)
    program = export(module, X, dynamic_shapes={"x": {0: "rows"}})
    check(module, program, *X)
    result = check(module, program, torch.randn(7, 3), 2.0, True, n=3)
    assert result[5:7] == (7, 14) and type(result[5]) is int
    for kwargs, message in (
        ({"scale": 3.0}, "'scale' is 3.0, and the example of the export left it out.* 2.0"),
        ({"n": 4}, "'n' is 4"),
        ({"flag": 1}, "'flag' is 1"),
        ({"nothing": X[0]}, r"'nothing' is a tensor, float32 \[4, 3\]"),
    ):
        with pytest.raises(InputError, match=message):
            program(*X, **kwargs)


def test_constants_of_the_example_are_constants() -> None:
    module = module_of(lambda self, x, scale, mode: x * scale if mode == "mul" else x + scale)
    program = export(module, (*X, 2, "mul"))
    check(module, program, *X, 2, "mul")
    for args, message in (
        ((3, "mul"), "'scale' is 3, and the model was exported with the constant 2"),
        ((2.0, "mul"), "'scale' is 2.0"),
        ((True, "mul"), "'scale' is True"),
        ((2, "add"), "'mode' is 'add'"),
        ((torch.tensor(2), "mul"), r"'scale' is a tensor, int64 \[\]"),
    ):
        with pytest.raises(InputError, match=message):
            program(*X, *args)


def test_integers_that_are_inputs() -> None:
    module = module_of(lambda self, x, n: (x + n, n, n * 2))
    program = export(module, (*X, 5), dynamic_shapes={"x": None, "n": Dim.DYNAMIC})
    for n in (5, 9):
        check(module, program, *X, n)
    for value in (True, 5.0, torch.tensor(5), "5"):
        with pytest.raises(InputError, match="'n' is an int, not"):
            program(*X, value)


def test_a_program_without_tensors_to_compute() -> None:
    module = module_of(lambda self, x: (x, None, {"n": 3}))
    program = export(module, X)
    x = X[0].clone()
    result = program(x)
    assert result[0] is x and result[1:] == (None, {"n": 3})


DTYPES = (
    torch.float16, torch.bfloat16, torch.float64, torch.int8, torch.uint8, torch.int16,
    torch.int32, torch.int64, torch.bool,
)  # fmt: skip


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
@pytest.mark.parametrize("shape", [(2, 3), (0, 3), ()], ids=str)
def test_dtypes_and_empty_tensors(dtype: torch.dtype, shape: tuple[int, ...]) -> None:
    module = module_of(lambda self, x: (torch.cat([x.reshape(-1), x.reshape(-1)]), x.unsqueeze(0)))
    x = torch.ones(shape).to(dtype)
    check(module, export(module, (x,)), x)


def test_float8_goes_in_and_comes_out() -> None:
    module = module_of(lambda self, x: x.to(torch.float32).to(torch.float8_e4m3fn))
    x = torch.tensor([[0.5, -2.0, 448.0]]).to(torch.float8_e4m3fn)
    result = export(module, (x,), target_opset=19)(x)
    assert result.dtype == torch.float8_e4m3fn
    assert torch.equal(result.to(torch.float32), x.to(torch.float32))


def test_complex_tensors_are_complex_again() -> None:
    module = module_of(lambda self, z, x: (z * z, torch.complex(x, x + 1), z.abs(), z))
    z = torch.complex(torch.randn(2, 3), torch.randn(2, 3))
    program = export(module, (z, torch.randn(2, 3)))
    check(module, program, z.conj(), torch.randn(2, 3))
    with pytest.raises(InputError, match=r"'z' is float32 .*complex64"):
        program(z.real, torch.randn(2, 3))


def test_views_and_tensors_with_gradients_are_taken() -> None:
    module = Small()
    program = export(module, X)
    x = torch.randn(3, 4, requires_grad=True)
    expected = module(x.t())
    torch.testing.assert_close(program(x.t()), expected.detach())
    check(module, program, torch.randn(8, 6)[::2, ::2])
    with torch.inference_mode():
        check(module, program, torch.randn(4, 3))


def test_results_do_not_share_memory() -> None:
    module = module_of(lambda self, x: (x.view(-1), self.table, x * 1, x), table=torch.ones(3))
    program = export(module, X)
    results = program(*X)
    copies = [result.clone() for result in results]
    for result in results[:3]:
        result.zero_()
    assert results[3] is X[0] and X[0].any()
    for result, previous in zip(program(*X), copies, strict=True):
        assert torch.equal(result, previous)


def test_results_are_copied_without_the_threads_of_torch() -> None:
    x = torch.randn(64, 1024)  # torch copies so many elements in threads
    program = ortable.export(torch.nn.ReLU(), (x,))
    program(x)
    with torch.profiler.profile() as profile:
        result = program(x)
    operators = {event.key for event in profile.key_averages()}
    assert "aten::empty_strided" in operators or "aten::empty_like" in operators
    assert operators.isdisjoint({"aten::clone", "aten::copy_"})
    assert torch.equal(result, x.relu())


def test_one_tensor_returned_twice_is_one_tensor() -> None:
    def forward(self, x):
        y = x + 1
        return y, {"again": y}

    results = export(module_of(forward), X)(*X)
    assert results[0] is results[1]["again"]


def test_what_forward_writes_is_written() -> None:
    def forward(self, x, cache):
        cache["keys"].copy_(x)
        x.add_(1)
        self.calls.add_(1)
        return x, self.calls * 1

    module = module_of(forward, calls=torch.zeros(1))
    cache = {"keys": torch.zeros(4, 3)}
    program = export(module, (X[0].clone(), cache))
    for _ in range(2):  # each call starts with the buffers of the export
        check(module, program, X[0].clone(), {"keys": torch.zeros(4, 3)})
    x = X[0].clone()
    assert program(x, {"keys": torch.zeros(4, 3)})[0] is x


def test_arguments_that_share_memory_that_forward_writes_to_are_refused() -> None:
    def forward(self, x, y):
        x.add_(1)
        return y * 1

    module = module_of(forward)
    program = export(module, (torch.zeros(3), torch.zeros(3)))
    rows, columns = torch.zeros(7), torch.zeros(3, 2)
    for x, y in (
        (rows[:3], rows[:3]),
        (rows[:3], rows[2:5]),
        (rows[2:5], rows[:3]),
        (columns[:, 0], columns[:, 0]),
    ):
        with pytest.raises(InputError, match=r"'x' and 'y' share memory.* writes to 'x'"):
            program(x, y)
    assert not rows.any()
    for x, y in ((rows[:3], rows[3:6]), (columns[:, 0], columns[:, 1])):
        assert_like(program(x, y), torch.zeros(3))
        assert_like(x.clone(), torch.ones(3))
    with pytest.raises(InputError, match="'x' and 'y' share memory"):
        export(module, (rows[:3],) * 2)
    readers = export(module_of(lambda self, x, y: x + y), (torch.zeros(3), torch.zeros(3)))
    assert_like(readers(rows[4:], rows[4:]), 2 * rows[4:])


def test_variable_arguments() -> None:
    module = module_of(lambda self, x, *rest, **named: x + rest[0] + named["y"] * rest[1])
    program = export(module, (*X, X[0], X[0] + 1), {"y": X[0] + 2})
    check(module, program, X[0] + 3, X[0], X[0], y=X[0])
    with pytest.raises(InputError, match=r"lacks 'rest\[1\]'"):
        program(X[0], X[0], y=X[0])
    with pytest.raises(InputError, match="it has 'z'"):
        program(X[0], X[0], X[0], y=X[0], z=X[0])


def test_exported_programs_and_graphs_are_called_too() -> None:
    module = module_of(lambda self, x, *, scale: {"y": x * scale})
    args, kwargs = X, {"scale": torch.tensor(3.0)}
    shapes = {"x": {0: Dim("n")}, "scale": None}
    exported = torch.export.export(module, args, kwargs, dynamic_shapes=shapes)
    program = export(exported)
    check(module, program, torch.randn(6, 3), scale=torch.tensor(2.0))
    check(module, export(exported, args, kwargs), *args, **kwargs)
    flat_program = export(exported.run_decompositions().graph_module)
    assert_like(flat_program(*X, torch.tensor(3.0)), (X[0] * 3,))
    assert flat_program.exported_program is None and program.exported_program is not None


def test_keywords_of_a_program_come_in_any_order() -> None:
    module = module_of(lambda self, x, *, b, a: {"r": x - a * 2 + b})
    exported = torch.export.export(module, X, {"a": X[0] + 1, "b": X[0] + 5})
    program = export(exported, X, {"b": X[0], "a": X[0] * 2})
    for kwargs in ({"b": X[0], "a": X[0] * 3}, {"a": X[0] * 3, "b": X[0]}):
        check(module, program, *X, **kwargs)
        assert program.validate(*X, **kwargs)
    assert program.validate()


def test_the_module_of_a_program_has_its_containers() -> None:
    module = module_of(lambda self, x, y: {"a": torch.relu(x) + y, "b": [x]})
    args = (X[0], X[0] + 1)
    graph = torch.export.export(module, args).module()
    check(module, export(graph, args), X[0] - 1, X[0] + 1)
    traced = torch.fx.symbolic_trace(module)
    result = export(traced, args)(y=X[0], x=X[0] - 1)  # returns torch.fx's subclass of dict
    expected = module(X[0] - 1, X[0])
    assert_like([result["a"], *result["b"]], [expected["a"], *expected["b"]])


def test_a_graph_without_an_example_returns_its_containers() -> None:
    graph = torch.fx.Graph()
    x = graph.placeholder("x")
    y = graph.call_function(torch.relu, (x,))
    x.meta["val"] = y.meta["val"] = X[0]
    graph.output({"b": [y, (x, None)], "a": Point(y, {"c": x})})
    result = export(torch.fx.GraphModule({}, graph))(-X[0])
    positive = torch.relu(-X[0])
    assert_like(result, {"b": [positive, (-X[0], None)], "a": Point(positive, {"c": -X[0]})})


def test_sizes_that_depend_on_data_and_numbers_of_them() -> None:
    def forward(self, x):
        count = (x > 0).sum().item()
        return torch.nonzero(x > 0), count, x.shape[0] / 3, x.shape[0] > 5

    module = module_of(forward)
    program = export(module, X, dynamic_shapes={"x": {0: "n"}})
    for rows in (4, 9):
        results = check(module, program, torch.randn(rows, 3))
        assert [type(result) for result in results[1:]] == [int, float, bool]


def test_branches_are_followed() -> None:
    def forward(self, x, c):
        return {"z": x * 2 if c["k"].sum() > 0 else x * 3}

    options = ortable.ExportOptions(tracing=True)
    program = export(module_of(forward), (*X, {"k": X[0]}), export_options=options)
    for sign in (1, -1):
        check(module_of(forward), program, *X, {"k": X[0] * sign})


def test_a_saved_program_is_called_like_its_module(tmp_path: Path) -> None:
    module = module_of(lambda self, x, pair: (x + pair["a"], pair["b"]))
    args = (*X, {"a": X[0], "b": X[0] + 1})
    torch.export.save(torch.export.export(module, args), tmp_path / "m.pt2")
    check(module, export(tmp_path / "m.pt2"), *args)


# -- invalid calls


def test_wrong_inputs_are_named() -> None:
    module = module_of(lambda self, x, pair: x + pair["left"].sum())
    args = (*X, {"left": torch.randn(2, 2)})
    program = export(module, args, dynamic_shapes={"x": {0: "batch"}, "pair": {"left": None}})
    left = args[1]
    for call, message in (
        ((), "lacks 'x', 'pair"),
        ((X[0],), r"lacks 'pair\['left'\]'"),
        ((X[0], {}), r"lacks 'pair\['left'\]', with which"),
        ((X[0], {**left, "right": X[0]}), r"it has 'pair\['right'\]', without which"),
        ((X[0], left, 3), "3 positional arguments, the model takes 2"),
        ((X[0].double(), left), r"'x' is float64 \[4, 3\]; the model takes float32 \[batch, 3\]"),
        ((X[0].int(), left), r"give x.to\(torch.float32\)"),
        ((X[0][0], left), "of rank 1"),
        ((X[0][:, :2], left), "dimension 1 of 'x' is 2; .* takes 3 there"),
        ((X[0].numpy(), left), "not a ndarray; convert it with torch.from_numpy"),
        ((3.0, left), "'x' is a tensor, .* not 3.0"),
        ((None, left), "not None"),
        ((X[0].to("meta"), left), "without data"),
        ((X[0].to_sparse(), left), "layout torch.sparse_coo"),
        ((X[0], {"left": torch.randn(2, 3)}), r"1 of 'pair\['left'\]' \(input 'pair_left'\)"),
    ):  # fmt: skip
        with pytest.raises(InputError, match=message):
            program(*call)
    with pytest.raises(InputError, match="'x' is given by position and by name"):
        program(X[0], left, x=X[0])
    assert program._session is None  # invalid calls create no session


def test_sizes_that_the_model_does_not_hold_for_are_refused() -> None:
    def forward(self, x, y):
        return (x * 2 if x.shape[0] % 4 == 0 else x * 3) + y

    module, args = module_of(forward), (torch.randn(4), torch.randn(4))
    shapes = {"x": {0: "n"}, "y": {0: "n"}}
    with pytest.warns(UserWarning, match="holds only"):
        program = export(module, args, dynamic_shapes=shapes)
    check(module, program, torch.randn(8), torch.randn(8))
    with pytest.raises(InputError, match=r"n % 4 == 0.*; this call has n=6"):
        program(torch.randn(6), torch.randn(6))
    with pytest.raises(InputError, match="dimension 0 of 'y' is 4, and dimension 0 of 'x' is 8"):
        program(torch.randn(8), torch.randn(4))
    options = ortable.ExportOptions(guards="ignore")
    export(module, args, dynamic_shapes=shapes, export_options=options)(
        torch.randn(6), torch.randn(6)
    )


def test_ranges_of_dimensions_hold() -> None:
    module = Small()
    program = export(module, X, dynamic_shapes={"x": {0: Dim("batch", min=3, max=8)}})
    check(module, program, torch.randn(8, 3))
    for rows in (2, 9):
        with pytest.raises(InputError, match=f"'x' is {rows}; the model takes 3 to 8"):
            program(torch.randn(rows, 3))


def test_onnxruntimes_errors_are_ours() -> None:
    module = module_of(lambda self, x, i: x[i])
    program = export(module, (*X, torch.tensor([0, 1])))
    with pytest.raises(ExportError, match="could not run the model"):
        program(*X, torch.tensor([0, 100]))

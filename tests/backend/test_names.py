"""Names of inputs, results and nodes in graphs of torch.compile; equal graphs share conversions."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import nn

import ortable
from ortable.backend.cache import memory

pytestmark = pytest.mark.usefixtures("fresh_dynamo")


class Block(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.fc = nn.Linear(4, 4)
        self.register_buffer("scale", torch.full((4,), 2.0))

    def forward(self, x: torch.Tensor, *, mask: torch.Tensor) -> torch.Tensor:
        return torch.relu(self.fc(x)) * self.scale + mask


class Model(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.layers = nn.ModuleList([Block(), Block()])

    def forward(self, x: torch.Tensor, batch: dict[str, torch.Tensor]) -> torch.Tensor:
        for layer in self.layers:
            x = layer(x, mask=batch["mask"])
        return x


def get_records(model: Any, *args: Any, backward: bool = False, **options: Any) -> list[Any]:
    storage: dict[str, Any] = {}
    compiled = torch.compile(
        model, backend="ortable", options={"storage": storage, **options}, fullgraph=True
    )
    with torch.set_grad_enabled(backward):
        result = compiled(*args)
        if backward:
            result.sum().backward()
    return storage["instance"]


def get_input_names(record: Any) -> list[str]:
    return [value.name for value in record.onnx.graph.input]


WEIGHTS = [
    "layers.0.fc.weight",
    "layers.0.fc.bias",
    "layers.0.scale",
    "layers.1.fc.weight",
    "layers.1.fc.bias",
    "layers.1.scale",
]


def make_arguments() -> tuple[torch.Tensor, dict[str, torch.Tensor]]:
    return torch.rand(3, 4), {"mask": torch.rand(3, 4)}


def test_inputs_are_called_as_in_the_model_and_the_function() -> None:
    model = Model()
    (record,) = get_records(model, *make_arguments())
    assert set(get_input_names(record)) == {*WEIGHTS, "x", "batch.mask"}
    assert set(get_input_names(record)) - {"x", "batch.mask"} == set(model.state_dict())
    assert set(record.frozen) == set(WEIGHTS)
    assert [role.name for role in record.inputs] == get_input_names(record)
    assert [value.name for value in record.onnx.graph.output] == ["output_0"]


def test_results_and_nodes_of_forward_and_backward() -> None:
    forward, backward = get_records(Model(), *make_arguments(), backward=True)
    assert set(WEIGHTS) <= set(get_input_names(forward))
    assert "tangents_1" in get_input_names(backward)
    for record in (forward, backward):
        names = [node.name for node in record.onnx.graph.node]
        assert len(set(names)) == len(names) and all(names)
        results = [name for node in record.onnx.graph.node for name in node.output]
        assert not any(name.startswith("_onx_") for name in results)
        assert not any(name.startswith(("arg", "primals_")) for name in get_input_names(record))
    assert any(name.startswith("layers.0.fc/") for name in names)  # nodes of the backward graph


def test_dimensions_keep_their_names() -> None:
    storage: dict[str, Any] = {}
    compiled = torch.compile(
        lambda x, n: x[:, : x.shape[1] // 2] * n, backend="ortable", dynamic=True,
        options={"storage": storage},
    )  # fmt: skip
    compiled(torch.rand(6, 4), torch.rand(1))
    names = get_input_names(storage["instance"][0])
    assert "x" in names and "n" in names
    assert any(name.startswith("input_dim_") for name in names)


def test_weights_of_two_models_say_which() -> None:
    first, second = nn.Linear(4, 4), nn.Linear(4, 4)

    def add_two_layers(x: torch.Tensor) -> torch.Tensor:
        return first(x) + second(x)

    (record,) = get_records(add_two_layers, torch.rand(2, 4))
    names = get_input_names(record)
    assert len(set(names)) == 5 and "x" in names
    assert sum("first" in name for name in names) == 2, names
    assert sum("second" in name for name in names) == 2, names


def test_an_argument_that_is_called_as_an_output_has_a_name_of_its_own() -> None:
    def fn(output_0: torch.Tensor, relu: torch.Tensor) -> torch.Tensor:
        return torch.relu(output_0).exp() + relu

    (record,) = get_records(fn, torch.rand(3), torch.rand(3))
    assert [value.name for value in record.onnx.graph.output] == ["output_0"]
    torch._dynamo.reset()
    a, b = torch.rand(3), torch.rand(3)
    torch.testing.assert_close(torch.compile(fn, backend="ortable")(a, b), fn(a, b))


def test_a_partition_names_what_it_takes() -> None:
    def fn(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        bits = torch.bernoulli(torch.sigmoid(x) * y)
        return torch.relu(bits @ y) + torch.exp(x)

    args = torch.rand(40, 40), torch.rand(40, 40)
    input_names = [
        get_input_names(record) for record in get_records(fn, *args) if record.onnx is not None
    ]
    names = {name for partition_names in input_names for name in partition_names}
    assert {"x", "y"} <= names and not any(name.startswith("input") for name in names)


def test_equal_layers_share_one_conversion_and_it_has_the_names_of_the_first() -> None:
    memory.clear_caches()

    class TwoLayers(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.first, self.second = nn.Linear(4, 4), nn.Linear(4, 4)

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            x = self.first(x).exp()
            torch._dynamo.graph_break()
            return self.second(x).exp()

    storage: dict[str, Any] = {}
    model, x = TwoLayers(), torch.rand(3, 4)
    compiled = torch.compile(model, backend="ortable", options={"storage": storage})
    with torch.no_grad():
        torch.testing.assert_close(compiled(x), model(x))
    first_record, second_record = storage["instance"]
    assert (first_record.cache, second_record.cache) == ("miss", "memory")
    assert get_input_names(first_record) == get_input_names(second_record)
    assert first_record.frozen == second_record.frozen == ("first.weight", "first.bias")


def test_sessions_of_equal_conversions_with_other_names_are_not_mixed_up() -> None:
    memory.clear_caches()
    weight = nn.Parameter(torch.rand(4, 4))

    class Product(nn.Module):
        def __init__(self, name: str) -> None:
            super().__init__()
            self.name = name
            setattr(self, name, weight)

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return torch.relu(x @ getattr(self, self.name))

    x = torch.rand(3, 4)
    compiled_models = []
    for name in ("one", "other"):
        torch._dynamo.reset()
        model = Product(name)
        compiled = torch.compile(model, backend="ortable")
        with torch.no_grad():
            torch.testing.assert_close(compiled(x), model(x))
        compiled_models.append(compiled)  # keeps the session alive
        memory.conversions.clear()
    with torch.no_grad():
        for compiled in compiled_models:
            torch.testing.assert_close(compiled(x), torch.relu(x @ weight))


def test_a_wiring_of_the_users_own_counts_its_inputs() -> None:
    from torch._dynamo.backends.common import aot_autograd

    storage: dict[str, Any] = {}

    def compile_graph(gm: Any, args: Any) -> Any:
        return ortable.onnx_custom_backend(gm, args, storage=storage)

    compiled = torch.compile(nn.Linear(4, 2), backend=aot_autograd(fw_compiler=compile_graph))
    with torch.no_grad():
        compiled(torch.rand(3, 4))
    assert get_input_names(storage["instance"][0]) == ["input0", "input1", "input2"]

"""Names in the graphs behind torch.compile: inputs as parameters, buffers and arguments, results as
the nodes of torch's graph; equal graphs share conversions whatever they are called."""

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


def records(model: Any, *args: Any, backward: bool = False, **options: Any) -> list[Any]:
    storage: dict[str, Any] = {}
    run = torch.compile(
        model, backend="ortable", options={"storage": storage, **options}, fullgraph=True
    )
    with torch.set_grad_enabled(backward):
        result = run(*args)
        if backward:
            result.sum().backward()
    return storage["instance"]


def inputs_of(record: Any) -> list[str]:
    return [value.name for value in record.onnx.graph.input]


WEIGHTS = [
    "layers.0.fc.weight",
    "layers.0.fc.bias",
    "layers.0.scale",
    "layers.1.fc.weight",
    "layers.1.fc.bias",
    "layers.1.scale",
]


def call() -> tuple[torch.Tensor, dict[str, torch.Tensor]]:
    return torch.rand(3, 4), {"mask": torch.rand(3, 4)}


def test_inputs_are_called_as_in_the_model_and_the_function() -> None:
    model = Model()
    (record,) = records(model, *call())
    assert set(inputs_of(record)) == {*WEIGHTS, "x", "batch.mask"}
    assert set(inputs_of(record)) - {"x", "batch.mask"} == set(model.state_dict())
    assert set(record.frozen) == set(WEIGHTS)
    assert [role.name for role in record.inputs] == inputs_of(record)
    assert [value.name for value in record.onnx.graph.output] == ["output_0"]


def test_results_and_nodes_of_forward_and_backward() -> None:
    forward, backward = records(Model(), *call(), backward=True)
    assert set(WEIGHTS) <= set(inputs_of(forward))
    assert "tangents_1" in inputs_of(backward)
    for record in (forward, backward):
        names = [node.name for node in record.onnx.graph.node]
        assert len(set(names)) == len(names) and all(names)
        results = [name for node in record.onnx.graph.node for name in node.output]
        assert not any(name.startswith("_onx_") for name in results)
        assert not any(name.startswith(("arg", "primals_")) for name in inputs_of(record))
    assert any(name.startswith("layers.0.fc/") for name in names)  # of the backward


def test_dimensions_keep_their_names() -> None:
    storage: dict[str, Any] = {}
    run = torch.compile(
        lambda x, n: x[:, : x.shape[1] // 2] * n, backend="ortable", dynamic=True,
        options={"storage": storage},
    )  # fmt: skip
    run(torch.rand(6, 4), torch.rand(1))
    names = inputs_of(storage["instance"][0])
    assert "x" in names and "n" in names
    assert any(name.startswith("input_dim_") for name in names)


def test_weights_of_two_models_say_which() -> None:
    first, second = nn.Linear(4, 4), nn.Linear(4, 4)

    def both(x: torch.Tensor) -> torch.Tensor:
        return first(x) + second(x)

    (record,) = records(both, torch.rand(2, 4))
    names = inputs_of(record)
    assert len(set(names)) == 5 and "x" in names
    assert sum("first" in name for name in names) == 2, names
    assert sum("second" in name for name in names) == 2, names


def test_an_argument_that_is_called_as_an_output_has_a_name_of_its_own() -> None:
    def fn(output_0: torch.Tensor, relu: torch.Tensor) -> torch.Tensor:
        return torch.relu(output_0).exp() + relu

    (record,) = records(fn, torch.rand(3), torch.rand(3))
    assert [value.name for value in record.onnx.graph.output] == ["output_0"]
    torch._dynamo.reset()
    a, b = torch.rand(3), torch.rand(3)
    torch.testing.assert_close(torch.compile(fn, backend="ortable")(a, b), fn(a, b))


def test_a_partition_names_what_it_takes() -> None:
    def fn(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        drawn = torch.bernoulli(torch.sigmoid(x) * y)
        return torch.relu(drawn @ y) + torch.exp(x)

    args = torch.rand(40, 40), torch.rand(40, 40)
    found = [inputs_of(record) for record in records(fn, *args) if record.onnx is not None]
    names = {name for each in found for name in each}
    assert {"x", "y"} <= names and not any(name.startswith("input") for name in names)


def test_equal_layers_share_one_conversion_and_it_has_the_names_of_the_first() -> None:
    memory.clear_caches()

    class Two(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.first, self.second = nn.Linear(4, 4), nn.Linear(4, 4)

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            x = self.first(x).exp()
            torch._dynamo.graph_break()
            return self.second(x).exp()

    storage: dict[str, Any] = {}
    model, x = Two(), torch.rand(3, 4)
    run = torch.compile(model, backend="ortable", options={"storage": storage})
    with torch.no_grad():
        torch.testing.assert_close(run(x), model(x))
    one, other = storage["instance"]
    assert (one.cache, other.cache) == ("miss", "memory")
    assert inputs_of(one) == inputs_of(other)
    assert one.frozen == other.frozen == ("first.weight", "first.bias")


def test_sessions_of_equal_conversions_with_other_names_are_not_mixed_up() -> None:
    memory.clear_caches()
    weight = nn.Parameter(torch.rand(4, 4))

    class Holder(nn.Module):
        def __init__(self, name: str) -> None:
            super().__init__()
            self.name = name
            setattr(self, name, weight)

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return torch.relu(x @ getattr(self, self.name))

    x = torch.rand(3, 4)
    kept = []
    for name in ("one", "other"):
        torch._dynamo.reset()
        model = Holder(name)
        run = torch.compile(model, backend="ortable")
        with torch.no_grad():
            torch.testing.assert_close(run(x), model(x))
        kept.append(run)  # its session stays in use
        memory.conversions.clear()  # the conversion does not
    with torch.no_grad():
        for run in kept:
            torch.testing.assert_close(run(x), torch.relu(x @ weight))


def test_a_wiring_of_the_users_own_counts_its_inputs() -> None:
    from torch._dynamo.backends.common import aot_autograd

    storage: dict[str, Any] = {}

    def compiler(gm: Any, args: Any) -> Any:
        return ortable.onnx_custom_backend(gm, args, storage=storage)

    run = torch.compile(nn.Linear(4, 2), backend=aot_autograd(fw_compiler=compiler))
    with torch.no_grad():
        run(torch.rand(3, 4))
    assert inputs_of(storage["instance"][0]) == ["input0", "input1", "input2"]

"""Option `weights` of the backend: codes, changed weights, and refusals."""

from __future__ import annotations

import pytest
import torch

import ortable
from ortable.errors import OptionError

from .models import NAMES, build, count_products, distance, linears, operators
from .test_export import IDS, net


def compile_model(model: torch.nn.Module, weights, **other_options):
    """Return the compiled model and the storage with the records of its graphs."""
    torch._dynamo.reset()
    storage: dict = {}
    options = {"weights": weights, "storage": storage, **other_options}
    return torch.compile(model, backend="ortable", options=options), storage


@pytest.mark.alternates(parts=4)
@pytest.mark.parametrize("kind", ["int4", "int8"])
@pytest.mark.parametrize("name", NAMES)
def test_every_linear_layer_reads_codes(name, kind) -> None:
    model, kwargs = build(name)
    run, storage = compile_model(model, kind)
    with torch.no_grad():
        result, expected = run(**kwargs)[0], model(**kwargs)[0]
        assert torch.equal(result, run(**kwargs)[0])
    assert distance(result, expected) < {"int4": 0.3, "int8": 0.03}[kind]
    records = [r for r in storage["instance"] if r.weights]
    assert sum(count_products(r.weights["onnx"]) for r in records) == linears(model)


def test_a_compiled_model_computes_what_an_export_does() -> None:
    model = net()
    run, _ = compile_model(model, "int4")
    program = ortable.export(model, (IDS,), target="onnxruntime", weights="int4")
    with torch.no_grad():
        torch.testing.assert_close(run(IDS), program(IDS), rtol=1e-4, atol=1e-5)


def test_a_model_that_is_compiled_twice_is_told_twice_what_was_rounded() -> None:
    model, records = net(), []
    runs = [compile_model(model, "int4") for _ in range(2)]
    for run, storage in runs:
        with torch.no_grad():
            run(IDS)
        records.append(storage["instance"][0])
    first, second = (record.weights for record in records)
    assert first["rounded"] and first["rounded"] == second["rounded"]
    assert operators(second["onnx"]) == operators(first["onnx"])


def test_a_changed_weight_is_rounded_again() -> None:
    model = net()
    run, _ = compile_model(model, "int8")
    with torch.no_grad():
        for _ in range(4):
            assert distance(run(IDS), model(IDS)) < 0.02
            model.down.weight.add_(0.5)
        old_result = run(IDS)
        model.load_state_dict({k: -v for k, v in model.state_dict().items()})
        assert distance(run(IDS), model(IDS)) < 0.02
        assert not torch.equal(old_result, run(IDS))


def test_large_constants_of_the_graph_stay_what_they_are() -> None:
    """The kernel of a step with a cache of 512 positions needs a constant table of positions."""
    layer = torch.nn.Linear(64, 64)
    cache, x = torch.zeros(1, 8, 512, 8), torch.randn(1, 1, 64)

    def step(x: torch.Tensor, cache: torch.Tensor, start: torch.Tensor) -> torch.Tensor:
        rows = layer(x).view(1, 1, 8, 8).transpose(1, 2)
        cache.index_copy_(2, start, rows)
        mask = torch.arange(512)[None] <= start[:, None]
        return torch.nn.functional.scaled_dot_product_attention(rows, cache, cache, mask)

    run, storage = compile_model(step, "int8")
    with torch.no_grad():
        for position in range(3):
            start, eager_cache = torch.tensor([position]), cache.clone()
            result, expected = run(x, cache, start), step(x, eager_cache, start)
            assert distance(result, expected) < 0.02
    (record,) = [r for r in storage["instance"] if r.weights]
    assert operators(record.weights["onnx"])["GroupQueryAttention"] == 1


def test_some_weights_stay() -> None:
    run, storage = compile_model(net(), {"kind": "int4", "exclude": ["up.*"], "group_size": 16})
    with torch.no_grad():
        run(IDS)
    (record,) = storage["instance"]
    assert {weight.name for weight in record.weights["rounded"]} == {"table.weight", "down.weight"}
    assert {weight.group_size for weight in record.weights["rounded"]} == {16}


def test_gradients_are_refused() -> None:
    model = net()
    run, _ = compile_model(model, "int4")
    with pytest.raises(
        torch._dynamo.exc.BackendCompilerFailed, match="'weights' quantizes or casts"
    ):
        run(IDS)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"weights": "int2"}, "Option 'weights': weights is None, 'keep'"),
        ({"weights": "int4", "freeze": "off"}, "Remove one of the two"),
        ({"weights": "int4", "autotune": True}, "Remove one of the two"),
    ],
)
def test_options_that_contradict_each_other(options, message) -> None:
    with pytest.raises(OptionError, match=message):
        ortable.OrtOptions(**options)


def test_a_graph_without_weights_runs() -> None:
    run, storage = compile_model(torch.nn.ReLU(), "int4")
    x = torch.randn(3)
    with torch.no_grad():
        assert torch.equal(run(x), x.relu())
    assert not storage["instance"][0].weights


def test_two_kinds_of_one_model_do_not_share_a_session() -> None:
    model = net()
    errors = []
    with torch.no_grad():
        for kind in ("int8", "int4", None):
            run, _ = compile_model(model, kind)
            errors.append(distance(run(IDS), model(IDS)))
    assert errors[2] < 1e-5 < errors[0] < errors[1]


def test_the_options_travel_to_other_processes() -> None:
    from ortable.backend.precompile.pack import deserialize_options, serialize_options

    options = ortable.OrtOptions(weights={"kind": "int4", "exclude": ["a"]})
    assert deserialize_options(serialize_options(options)).weights == options.weights

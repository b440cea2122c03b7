"""DenseNet-121 on 16x3x128x128 with torch.compile, in eval mode and in training mode."""

from __future__ import annotations

import copy
import io
from contextlib import redirect_stdout

import pytest
import torch

from benchmarks.models.densenet import DenseNet, densenet121

pytestmark = [pytest.mark.usefixtures("fresh_dynamo")]

BUFFERS = ("running_mean", "running_var", "num_batches_tracked")


@pytest.fixture(scope="module")
def model() -> DenseNet:
    """Make a model in training mode. Tests copy it, since training updates running statistics."""
    torch.manual_seed(0)
    return densenet121()


@pytest.fixture(scope="module")
def images() -> torch.Tensor:
    torch.manual_seed(1)
    return torch.randn(16, 3, 128, 128)


def assert_equal_to_eager(actual: torch.Tensor, expected: torch.Tensor, tolerance: float) -> None:
    assert actual.dtype == expected.dtype
    assert actual.shape == expected.shape
    difference = (actual.detach() - expected.detach()).abs().max().item()
    assert difference < tolerance


def test_the_model_has_torchvisions_parameters(model: DenseNet) -> None:
    state = model.state_dict()
    assert sum(p.numel() for p in model.parameters()) == 7_978_856
    assert len(state) == 727
    assert state["features.conv0.weight"].shape == (64, 3, 7, 7)
    assert state["features.denseblock3.denselayer24.conv2.weight"].shape == (32, 128, 3, 3)
    assert state["features.transition3.conv.weight"].shape == (512, 1024, 1, 1)
    assert state["features.norm5.running_var"].shape == (1024,)
    assert state["classifier.weight"].shape == (1000, 1024)


def test_a_backend_that_prints_the_graph_sees_the_whole_model(
    model: DenseNet, images: torch.Tensor
) -> None:
    calls: list[int] = []

    def custom_backend(gm: torch.fx.GraphModule, example_inputs: list[torch.Tensor]):
        print("custom backend called with FX graph:")
        gm.graph.print_tabular()
        calls.append(sum(node.op == "call_function" for node in gm.graph.nodes))
        return gm.forward

    eager = copy.deepcopy(model).eval()
    output = io.StringIO()
    with torch.no_grad(), redirect_stdout(output):
        result = torch.compile(copy.deepcopy(eager), backend=custom_backend)(images)
        expected = eager(images)
    assert len(calls) == 1
    assert calls[0] > 400
    assert output.getvalue().startswith("custom backend called with FX graph:\nopcode ")
    assert_equal_to_eager(result, expected, 1e-6)


@pytest.mark.slow
def test_eval_mode_equals_eager(model: DenseNet, images: torch.Tensor) -> None:
    eager = copy.deepcopy(model).eval()
    compiled = torch.compile(copy.deepcopy(eager), backend="ortable", fullgraph=True)
    with torch.no_grad():
        expected = eager(images)
        assert_equal_to_eager(compiled(images), expected, 1e-4)
        # The second call runs the same session on other inputs.
        other = images.flip(0)
        assert_equal_to_eager(compiled(other), eager(other), 1e-4)


@pytest.mark.slow
def test_train_mode_with_grad_equals_eager_and_updates_the_statistics(
    model: DenseNet, images: torch.Tensor
) -> None:
    eager, model_copy = copy.deepcopy(model), copy.deepcopy(model)
    initial_state = {name: value.clone() for name, value in eager.state_dict().items()}
    compiled = torch.compile(model_copy, backend="ortable", fullgraph=True)
    result, expected = compiled(images), eager(images)
    assert result.requires_grad
    assert_equal_to_eager(result, expected, 1e-3)

    state = model_copy.state_dict()
    statistics = [name for name in state if name.endswith(BUFFERS)]
    assert len(statistics) == 3 * 121
    for name in statistics:
        reference = eager.state_dict()[name]
        assert not torch.equal(reference, initial_state[name]), f"eager did not update {name}"
        torch.testing.assert_close(
            state[name], reference, rtol=1e-4, atol=2e-6, msg=lambda text, n=name: f"{n}: {text}"
        )

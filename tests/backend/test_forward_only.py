"""Eval-mode modules with gradients enabled run as inference until a call is differentiated."""

from __future__ import annotations

import copy
import gc
import logging
import weakref

import pytest
import torch
from torch import nn
from torch.utils.checkpoint import checkpoint

from tests.backend.against_eager import assert_close, loss_of

CALLS = 8  # enough calls to switch to inference


@pytest.fixture
def make_pair():
    """Return a function that makes a compiled module, the module itself and an eager copy."""

    def make(model=None, **options):
        model = (model or Net()).eval()
        options = {"hints": False, **options}
        eager = copy.deepcopy(model)
        return torch.compile(model, backend="ortable", options=options), model, eager

    return make


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.first = nn.Linear(4, 8)
        self.norm = nn.LayerNorm(8)
        self.last = nn.Linear(8, 3)

    def forward(self, x):
        return self.last(torch.nn.functional.gelu(self.norm(self.first(x))))


def is_inference(result):
    return type(result.grad_fn).__name__ == "_InferenceFunctionBackward"


def run_forwards(run, eager, x, calls=CALLS):
    """Make calls that are not differentiated; return whether the last one ran as inference."""
    for _ in range(calls):
        result = run(x)
        assert_close(result, eager(x))
        assert result.requires_grad
        ran_inference = is_inference(result)
        del result
    return ran_inference


def get_gradients(fn, model, x):
    model.zero_grad()
    loss_of(fn(x)).backward()
    return [p.grad for p in model.parameters()]


def test_weights_become_constants(make_pair, backends):
    run, _, eager = make_pair()
    assert run_forwards(run, eager, torch.randn(2, 4))
    forward, inference = backends
    assert forward.compiled.kind == "forward" and not forward.held
    assert inference.compiled.kind == "inference" and len(inference.held) == 1
    assert len(inference.compiled.outputs) == 1 < len(forward.compiled.outputs)


def test_a_backward_after_many_forwards_is_right(make_pair, caplog):
    run, model, eager = make_pair()
    x = torch.randn(2, 4)
    with caplog.at_level(logging.INFO, logger="ortable"):
        assert run_forwards(run, eager, x)
        assert_close(get_gradients(run, model, x), get_gradients(eager, eager, x))
    assert not is_inference(run(x))  # from here on, tensors for the backward are saved
    assert_close(get_gradients(run, model, x), get_gradients(eager, eager, x))
    lines = [record.message for record in caplog.records if "forward_only" in record.name]
    assert (
        len(lines) == 2
        and "not differentiated" in lines[0]
        and "runs as a forward graph" in lines[1]
    )


def test_changed_weights_are_seen_at_once(make_pair):
    run, model, eager = make_pair()
    x = torch.randn(2, 4)
    assert run_forwards(run, eager, x)
    for change in (lambda w: w.mul_(-1.5), lambda w: w.data.add_(0.25), lambda w: w.zero_()):
        for module in (model, eager):
            with torch.no_grad():
                change(module.first.weight)
        assert_close(run(x), eager(x))
        assert run_forwards(run, eager, x)


@pytest.mark.alternates(parts=2)
@pytest.mark.parametrize("previous_calls", [0, 1, 3, CALLS])
def test_training_after_forwards_sees_each_step(make_pair, previous_calls):
    run, model, eager = make_pair()
    x = torch.randn(5, 4)
    run_forwards(run, eager, x, previous_calls) if previous_calls else None
    optimizers = [torch.optim.Adam(net.parameters(), lr=0.05) for net in (model, eager)]
    for _ in range(5):
        for fn, module, optimizer in zip((run, eager), (model, eager), optimizers, strict=True):
            get_gradients(fn, module, x)
            optimizer.step()
        assert_close([*model.parameters()], [*eager.parameters()])


def test_training_from_the_start_is_never_inferred(make_pair, backends):
    run, model, eager = make_pair()
    x = torch.randn(2, 4)
    for _ in range(CALLS):
        assert_close(get_gradients(run, model, x), get_gradients(eager, eager, x))
    assert sorted(backend.compiled.kind for backend in backends) == ["backward", "forward"]


def test_results_that_wait_for_a_backward_are_not_dropped(make_pair, backends):
    """Several calls precede one backward."""
    run, model, eager = make_pair()
    x = torch.randn(2, 4)
    sums = [sum(loss_of(fn(x + i)) for i in range(CALLS)) for fn in (run, eager)]
    assert len(backends) == 1
    for loss in sums:
        loss.backward()
    assert_close([p.grad for p in model.parameters()], [p.grad for p in eager.parameters()])


def test_a_loop_holds_the_last_result_while_it_makes_the_next_one(make_pair):
    """The results before and after the switch to inference can both be differentiated."""
    run, model, eager = make_pair()
    batch = out = None
    for _ in range(CALLS):
        previous = batch, out
        batch = torch.randn(2, 4)
        out = run(batch)
        assert_close(out, eager(batch))
        if is_inference(out):
            break
    assert is_inference(out) and not is_inference(previous[1])
    for x, result in (previous, (batch, out)):
        model.zero_grad()
        eager.zero_grad()
        loss_of(result).backward()
        loss_of(eager(x)).backward()
        assert_close([p.grad for p in model.parameters()], [p.grad for p in eager.parameters()])


def test_two_inputs_of_one_block_in_a_checkpoint(make_pair):
    """A checkpoint counts saved tensors of both calls, so the graph must not change in between."""
    run, model, eager = make_pair()
    a, b = torch.randn(2, 4), torch.randn(2, 4)

    def call_twice(fn, left, right):
        first = fn(left)
        results.clear()  # drops the third result that is not differentiated
        return first + fn(right)

    run(a), run(a)
    results = [run(a)]
    got = checkpoint(call_twice, run, a, b, use_reentrant=False)
    expected = call_twice(eager, a, b)
    for result in (got, expected):
        loss_of(result).backward()
    assert_close([p.grad for p in model.parameters()], [p.grad for p in eager.parameters()])


@pytest.mark.parametrize("rate", [0.0, 0.5])
def test_attention_without_dropout_draws_nothing(make_pair, backends, rate):
    class Attention(nn.Module):
        def __init__(self):
            super().__init__()
            self.linear = nn.Linear(4, 12)

        def forward(self, x):
            parts = [part[:, None] for part in self.linear(x).chunk(3, -1)]
            mixed = nn.functional.scaled_dot_product_attention(*parts)
            return nn.functional.dropout(mixed, rate, rate > 0)

    run, _, eager = make_pair(Attention())
    x = torch.randn(2, 5, 4)
    for call in range(CALLS):
        torch.manual_seed(call)
        expected = eager(x)
        torch.manual_seed(call)
        assert_close(run(x), expected)
    kinds = [backend.compiled.kind for backend in backends]
    assert kinds == (["forward", "inference"] if rate == 0 else ["forward"])


def test_a_graph_that_runs_in_partitions(backends):
    """The forward runs convolutions in torch; the inference graph runs whole in ONNX Runtime."""

    class Mixed(nn.Module):
        def __init__(self):
            super().__init__()
            self.first, self.last = nn.Conv2d(3, 8, 3, padding=1), nn.Conv2d(8, 4, 3)
            self.mlp = nn.Sequential(nn.Linear(64, 2048), nn.GELU(), nn.Linear(2048, 64))

        def forward(self, x):
            return self.last(torch.relu(self.mlp(self.first(x))))

    model = Mixed().eval()
    eager = copy.deepcopy(model)
    run = torch.compile(model, backend="ortable", fullgraph=True, options={"hints": False})
    x = torch.randn(2, 3, 64, 64)
    for _ in range(CALLS):
        with torch.no_grad():
            expected = eager(x)
        torch.testing.assert_close(run(x).detach(), expected, rtol=1e-4, atol=1e-5)
    assert any(backend.compiled.is_partition for backend in backends)
    assert backends[-1].compiled.kind == "inference" and not backends[-1].compiled.is_partition
    assert is_inference(run(x))
    for fn in (run, eager):
        fn(x).square().mean().backward()
    gradients, eager_gradients = (
        [p.grad for p in module.parameters()] for module in (model, eager)
    )
    torch.testing.assert_close(gradients, eager_gradients, rtol=1e-3, atol=1e-5)


def test_several_inferred_results_in_one_backward(make_pair):
    run, model, eager = make_pair()
    x = torch.randn(2, 4)
    assert run_forwards(run, eager, x)
    sums = [sum(loss_of(fn(x + i)) for i in range(3)) for fn in (run, eager)]
    for loss in sums:
        loss.backward()
    assert_close([p.grad for p in model.parameters()], [p.grad for p in eager.parameters()])
    assert not is_inference(run(x))


def test_retain_graph_and_a_second_backward(make_pair):
    run, model, eager = make_pair()
    x = torch.randn(2, 4)
    assert run_forwards(run, eager, x)
    for fn in (run, eager):
        loss = loss_of(fn(x))
        loss.backward(retain_graph=True)
        loss.backward()
        with pytest.raises(RuntimeError, match="second time"):
            loss.backward()
    assert_close([p.grad for p in model.parameters()], [p.grad for p in eager.parameters()])


def test_weights_written_before_the_backward_are_an_error(make_pair):
    run, model, eager = make_pair()
    x = torch.randn(2, 4)
    assert run_forwards(run, eager, x)
    loss = loss_of(run(x))
    with torch.no_grad():
        model.first.weight.mul_(2)
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        loss.backward()
    assert_close(run(x), copy.deepcopy(model)(x))


def test_weights_written_through_data_before_the_backward_are_an_error(make_pair):
    run, model, eager = make_pair()
    x = torch.randn(2, 4, requires_grad=True)
    assert run_forwards(run, eager, x)
    loss = loss_of(run(x))
    model.first.bias.data.add_(1)
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        loss.backward()
    model.first.bias.data.sub_(1)
    assert_close(get_gradients(run, model, x), get_gradients(eager, eager, x))


def test_results_of_calls_share_the_sample_of_unchanged_weights(make_pair):
    run, model, eager = make_pair()
    x = torch.randn(2, 4)
    assert run_forwards(run, eager, x)
    nodes = [run(x).grad_fn for _ in range(2)]
    model.first.bias.data.add_(1)
    nodes.append(run(x).grad_fn)
    samples = [node.weight_sample for node in nodes]
    assert samples[0] is samples[1] and samples[0] != samples[2]


def test_weights_without_memory_before_the_backward_are_an_error(make_pair):
    """Nothing reads the weights after their memory is gone."""
    run, model, eager = make_pair()
    x = torch.randn(2, 4)
    assert run_forwards(run, eager, x)
    loss = loss_of(run(x))
    model.first.weight.untyped_storage().resize_(0)
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        loss.backward()


def test_a_result_written_before_the_backward_has_the_right_gradient():
    """The backward recomputes the forward, so no error is needed as in torch, which saves exp."""
    run = torch.compile(torch.exp, backend="ortable", options={"hints": False})
    x = torch.randn(3, requires_grad=True)
    assert run_forwards(run, torch.exp, x)
    result = run(x)
    with torch.no_grad():
        result.mul_(3)
    (gradient,) = torch.autograd.grad(result.sum(), x)
    assert_close(gradient, torch.exp(x))


def test_an_error_of_the_graph_for_inference_is_no_reason_to_leave_it():
    table = torch.nn.Embedding(4, 3)
    run = torch.compile(table, backend="ortable")
    assert run_forwards(run, table, torch.tensor([1, 2]))
    for _ in range(2):
        with pytest.raises(IndexError, match="index out of range in self"):
            run(torch.tensor([1, 9]))
    assert run_forwards(run, table, torch.tensor([1, 2]), calls=1)


def test_an_argument_written_before_the_backward_is_an_error(make_pair):
    run, _, eager = make_pair()
    x = torch.randn(2, 4)
    assert run_forwards(run, eager, x)
    loss = loss_of(run(x))
    x.add_(1)
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        loss.backward()


def test_some_gradients_only(make_pair):
    run, model, eager = make_pair()
    x = torch.randn(2, 4)
    assert run_forwards(run, eager, x)
    got = torch.autograd.grad(loss_of(run(x)), [model.first.weight, model.last.bias])
    expected = torch.autograd.grad(loss_of(eager(x)), [eager.first.weight, eager.last.bias])
    assert_close(got, expected)


def test_frozen_parameters_and_several_results(make_pair):
    class SeveralResults(Net):
        def forward(self, x, ids):
            hidden = torch.tanh(self.first(x))
            return hidden.argmax(1), self.last(hidden), hidden[ids]

    model = SeveralResults()
    model.first.requires_grad_(False)
    run, model, eager = make_pair(model)
    x, ids = torch.randn(3, 4), torch.tensor([2, 0])
    for _ in range(CALLS):
        got, expected = run(x, ids), eager(x, ids)
        assert_close(got, expected)
        assert [r.requires_grad for r in got] == [r.requires_grad for r in expected]
    for fn in (run, eager):
        sum(loss_of(result) for result in fn(x, ids) if result.requires_grad).backward()
    assert_close(model.last.weight.grad, eager.last.weight.grad)
    assert model.first.weight.grad is None


def test_tied_weights_get_the_sum(make_pair):
    class Tied(nn.Module):
        def __init__(self):
            super().__init__()
            self.a, self.b = nn.Linear(4, 4), nn.Linear(4, 4)
            self.b.weight = self.a.weight

        def forward(self, x):
            return self.b(torch.tanh(self.a(x)))

    run, model, eager = make_pair(Tied())
    x = torch.randn(2, 4)
    run_forwards(run, eager, x)
    assert_close(get_gradients(run, model, x), get_gradients(eager, eager, x))


def test_sizes_may_differ(make_pair):
    run, model, eager = make_pair()
    for rows in (2, 3, 5, 7, 4, 6, 8, 9):
        x = torch.randn(rows, 4)
        torch._dynamo.maybe_mark_dynamic(x, 0)
        assert_close(run(x), eager(x))
    assert is_inference(run(x))
    x = torch.randn(11, 4)
    assert_close(get_gradients(run, model, x), get_gradients(eager, eager, x))


@pytest.mark.alternates(parts=2)
@pytest.mark.parametrize("early_stop", [True, False])
@pytest.mark.parametrize("previous_calls", [0, CALLS])
def test_checkpoints_around_compiled_blocks(previous_calls, early_stop):
    """A forward that runs again in the backward saves the same tensors as before."""
    torch.manual_seed(0)
    blocks = nn.ModuleList(Net() for _ in range(3)).eval()
    for module in blocks:
        module.last = nn.Linear(8, 4)
    eager = copy.deepcopy(blocks)
    block = torch.compile(lambda net, x: net(x), backend="ortable", options={"hints": False})
    x = torch.randn(2, 4)

    def run(x):
        for module in blocks:
            x = checkpoint(block, module, x, use_reentrant=False)
        return x

    def run_eager(x):
        for module in eager:
            x = module(x)
        return x

    with torch.utils.checkpoint.set_checkpoint_early_stop(early_stop):
        for _ in range(previous_calls):
            assert_close(run(x), run_eager(x))
        for _ in range(3):
            assert_close(get_gradients(run, blocks, x), get_gradients(run_eager, eager, x))


def test_compiled_autograd(make_pair):
    run, model, eager = make_pair()
    x = torch.randn(2, 4)
    assert run_forwards(run, eager, x)
    expected = get_gradients(eager, eager, x)
    for _ in range(2):
        with torch._dynamo.compiled_autograd._enable(torch.compile(backend="eager")):
            got = get_gradients(run, model, x)
        assert_close(got, expected)
        torch._dynamo.reset()


def test_no_second_derivative_without_an_error(make_pair):
    run, _, _ = make_pair()
    x = torch.randn(2, 4, requires_grad=True)
    for _ in range(CALLS):
        run(x)
    (gradient,) = torch.autograd.grad(loss_of(run(x)), x, create_graph=True)
    with pytest.raises(RuntimeError, match="double backward"):
        gradient.sum().backward()


def test_graphs_that_write_or_draw_stay_as_they_are(make_pair, backends):
    class CountAndDrop(nn.Module):
        def __init__(self):
            super().__init__()
            self.linear = nn.Linear(4, 4)
            self.register_buffer("count", torch.zeros(()))

        def forward(self, x):
            self.count += 1
            return nn.functional.dropout(self.linear(x), 0.5, True)

    run, model, eager = make_pair(CountAndDrop())
    for call in range(CALLS):
        torch.manual_seed(call)
        expected = eager(torch.ones(2, 4))
        torch.manual_seed(call)
        assert_close(run(torch.ones(2, 4)), expected)
    assert model.count == eager.count == CALLS
    assert all(backend.compiled.kind == "forward" for backend in backends)


def test_freeze_off_keeps_the_forward_graph(make_pair, backends):
    run, _, eager = make_pair(freeze="off")
    assert not run_forwards(run, eager, torch.randn(2, 4)) and len(backends) == 1


def test_arguments_made_under_inference_mode(make_pair):
    """Autograd cannot save such arguments; a call that need not save them raises no error."""
    model = Net()
    model.first.requires_grad_(False)
    model.norm.requires_grad_(False)
    run, _, eager = make_pair(model)
    with torch.inference_mode():
        x = torch.randn(2, 4)
    for _ in range(CALLS):
        assert_close(run(x), eager(x))


def test_what_is_left_behind_goes_with_the_model(make_pair, backends):
    run, _, eager = make_pair()
    x = torch.randn(2, 4)
    assert run_forwards(run, eager, x)
    inference_backend = weakref.ref(backends[1])
    loss_of(run(x)).backward()
    run(x)
    backends.clear()
    gc.collect()
    assert inference_backend() is None  # the inference session ends at the first backward


def test_a_network_of_convolutions_that_torch_trains_is_evaluated_by_onnx_runtime():
    """No operator of the forward graph is worth a session, but the whole inference graph is."""
    model = nn.Sequential(nn.Conv2d(3, 4, 3), nn.GroupNorm(2, 4), nn.SiLU(), nn.Conv2d(4, 2, 3))
    storage = {}
    run = torch.compile(model, backend="ortable", fullgraph=True, options={"storage": storage})
    x = torch.randn(2, 3, 8, 8)
    for _ in range(6):
        torch.testing.assert_close(run(x), model(x), rtol=1e-4, atol=1e-5)
    records = [(record["kind"], record["onnx"] is not None) for record in storage["instance"]]
    assert records == [("forward", False), ("inference", True)]
    expected = torch.autograd.grad(model(x).square().sum(), [*model.parameters()])
    got = torch.autograd.grad(run(x).square().sum(), [*model.parameters()])
    torch.testing.assert_close(got, expected, rtol=1e-4, atol=1e-4)
    with torch.no_grad():
        model[0].weight.mul_(2)
    for _ in range(2):
        torch.testing.assert_close(run(x), model(x), rtol=1e-4, atol=1e-4)


def test_a_network_of_convolutions_that_trains_stays_in_torch():
    model = nn.Sequential(nn.Conv2d(3, 4, 3), nn.GroupNorm(2, 4), nn.SiLU(), nn.Conv2d(4, 2, 3))
    storage = {}
    run = torch.compile(model, backend="ortable", fullgraph=True, options={"storage": storage})
    for _ in range(5):
        run(torch.randn(2, 3, 8, 8)).sum().backward()
    assert [record["kind"] for record in storage["instance"]] == ["forward"]

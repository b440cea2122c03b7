"""The diabetes training loop, static and dynamic, has eager's losses and few sessions."""

from __future__ import annotations

import pytest

from . import script

pytestmark = pytest.mark.usefixtures("fresh_dynamo")


@pytest.fixture(scope="module")
def example():
    return script("train_diabetes")


@pytest.fixture(scope="module")
def eager(example):
    return example.train(example.initial_model())


@pytest.mark.parametrize(("dynamic", "sessions"), [(False, 4), (True, 2)])
def test_losses_equal_eager(example, eager, dynamic, sessions):
    storage = {}
    compiled = example.train(example.compiled_model(dynamic, storage))
    assert compiled.first == pytest.approx(eager.first, rel=1e-5)
    assert compiled.epochs == pytest.approx(eager.epochs, rel=1e-3)
    assert eager.epochs[-1] < eager.epochs[0]
    assert len(storage["instance"]) == sessions


def test_calls_do_not_make_the_record_grow(example):
    storage = {}
    model = example.compiled_model(True, storage)
    example.train(model, epochs=1)
    keys = [sorted(record) for record in storage["instance"]]
    timings = [dict(record["timings"]) for record in storage["instance"]]
    example.train(model, epochs=1)
    assert [sorted(record) for record in storage["instance"]] == keys
    assert [dict(record["timings"]) for record in storage["instance"]] == timings


def test_the_example_reports_success(example, capsys):
    assert example.main() == 0
    out = capsys.readouterr().out
    assert "4 sessions were created" in out and "2 sessions were created" in out
    assert "Gemm(" in out and "-> output_0" in out


def test_a_wrong_loss_is_noticed(example):
    losses = example.Losses(1.0, (2.0, 3.0))
    assert example.report(losses, losses)
    assert not example.report(losses, example.Losses(1.0001, (2.0, 3.0)))
    assert not example.report(losses, example.Losses(1.0, (2.0, 3.01)))

"""Sessions run on torch's current CUDA stream, so that no synchronization with torch is needed."""

from __future__ import annotations

import pytest
import torch

from tests.backend.threads import in_threads
from tests.cuda.against_eager import compiled

SIZE = 1 << 20
CYCLES = 20_000_000  # about 10 ms, longer than issuing a call takes


def step(x):
    return x * 2 + 1


def make_delayed(value, size=SIZE):
    """Return a tensor that is written after a delay on the current stream."""
    tensor = torch.zeros(size, device="cuda")
    torch.cuda._sleep(CYCLES)
    return tensor.fill_(value)


@pytest.fixture
def run():
    function = compiled(step)
    function(torch.zeros(SIZE, device="cuda"))
    torch.cuda.synchronize()
    return function


def test_a_call_on_the_default_stream_waits_for_its_argument(run):
    for value in range(5):
        result = run(make_delayed(float(value)))
        assert result.sum().item() == SIZE * (2 * value + 1)


def test_a_stream_made_by_the_user():
    stream = torch.cuda.Stream()
    with torch.cuda.stream(stream):
        function = compiled(step)
        for value in range(5):
            result = function(make_delayed(float(value)))
            total = result.sum()
            assert total.item() == SIZE * (2 * value + 1)


def test_calls_from_several_streams_of_a_session_made_on_another(run):
    streams = [torch.cuda.Stream() for _ in range(3)]
    totals = []
    for turn in range(12):
        stream = streams[turn % 3]
        with torch.cuda.stream(stream):
            totals.append((turn, stream, run(make_delayed(float(turn))).sum()))
    for turn, stream, total in totals:
        stream.synchronize()
        assert total.item() == SIZE * (2 * turn + 1), turn


def test_events_between_streams(run):
    producer, consumer = torch.cuda.Stream(), torch.cuda.Stream()
    for value in range(5):
        with torch.cuda.stream(producer):
            result = run(make_delayed(float(value)))
            event = torch.cuda.Event()
            event.record()
        with torch.cuda.stream(consumer):
            event.wait()
            total = result.sum()
        consumer.synchronize()
        assert total.item() == SIZE * (2 * value + 1)


def test_memory_of_results_is_not_reused_while_torch_reads_it(run):
    """A result is freed while a stream still has to read it, and the next call reuses memory."""
    totals = []
    for value in range(20):
        result = run(torch.full((SIZE,), float(value), device="cuda"))
        torch.cuda._sleep(CYCLES // 10)
        totals.append(result.sum())
        del result
    for value, total in enumerate(totals):
        assert total.item() == SIZE * (2 * value + 1), value


def test_memory_of_arguments_is_not_reused_while_the_session_reads_it(run):
    totals = []
    for value in range(20):
        result = run(make_delayed(float(value)))
        junk = torch.full((SIZE,), -1.0, device="cuda")  # may reuse the memory of the argument
        totals.append(result.sum())
        del junk
    for value, total in enumerate(totals):
        assert total.item() == SIZE * (2 * value + 1), value


def test_threads_with_streams_of_their_own(run):
    failures = []

    def work(number):
        with torch.cuda.stream(torch.cuda.Stream()):
            for turn in range(10):
                value = float(number * 100 + turn)
                total = run(torch.full((SIZE,), value, device="cuda")).double().sum().item()
                if total != SIZE * (2 * value + 1):
                    failures.append((number, turn, total))

    in_threads(4, work)
    assert failures == []

"""Measure what threads that call one model at once get: requests per second, and latencies."""

from __future__ import annotations

import argparse
import statistics
import threading
import time
from collections.abc import Callable
from typing import Any

import torch

import ortable
from benchmarks import candidates
from benchmarks.measure import reason

PAUSE = 0.05  # seconds before a candidate, in which threads of the previous one go to sleep
COUNTS = (1, 2, 8, 32)


class Encoder(torch.nn.Module):
    """Four layers of a transformer on a batch of one: about a millisecond on one thread."""

    def __init__(self) -> None:
        super().__init__()
        layer = torch.nn.TransformerEncoderLayer(
            128, 4, 512, activation="gelu", batch_first=True, norm_first=True
        )
        self.layers = torch.nn.TransformerEncoder(layer, 4, enable_nested_tensor=False)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.layers(x)


def make_calls() -> tuple[dict[str, candidates.Candidate], dict[str, str]]:
    """Return the candidates, each with one thread a call, and the errors of those that fail."""
    candidates.prepare(1, with_inductor=candidates.has_compiler())
    model, arguments = Encoder().eval(), (torch.randn(1, 64, 128),)
    with torch.no_grad():
        program = ortable.export(model, arguments, target="onnxruntime")
    program.initialize_inference_session(session_options={"intra_op_num_threads": 1})
    makers: dict[str, Callable[[], candidates.Candidate]] = {
        "bare session": lambda: candidates.exported(model, arguments, 1),
        "ortable": lambda: candidates.ortable(model, arguments),
        "exported program": lambda: lambda: program(*arguments),
        "eager": lambda: candidates.eager(model, arguments),
    }
    if candidates.has_compiler():
        makers["inductor"] = lambda: candidates.inductor(model, arguments)
    calls, errors = {}, {}
    for label, make in makers.items():
        try:
            calls[label] = make()
            for _ in range(10):
                calls[label]()
        except Exception as error:  # the table has a cell for it
            errors[label] = reason(error)
    return calls, errors


def measure_all(options: argparse.Namespace) -> dict[str, Any]:
    """Measure all candidates in turns; the rates and latencies are medians over the rounds."""
    calls, errors = make_calls()
    rounds: dict[tuple[str, int], list[tuple[float, float, float]]] = {}
    for _ in range(options.rounds):
        for count in COUNTS:
            for label, call in calls.items():
                time.sleep(PAUSE)
                result = call_at_once(call, count, options.seconds)
                rounds.setdefault((label, count), []).append(result)
    rows = []
    for (label, count), results in rounds.items():
        rate, p50, p99 = map(statistics.median, zip(*results, strict=True))
        rows.append({"label": label, "threads": count, "rate": rate, "p50": p50, "p99": p99})
    return {"rows": rows, "errors": errors}


def call_at_once(
    call: candidates.Candidate, threads: int, seconds: float
) -> tuple[float, float, float]:
    """Call from several threads for a while.

    Returns:
        Requests per second, and the median and the 99th percentile of the latency in seconds.
    """
    latencies: list[list[float]] = [[] for _ in range(threads)]
    barrier = threading.Barrier(threads + 1)
    stop = threading.Event()

    def serve(own_latencies: list[float]) -> None:
        torch.set_num_threads(1)  # a setting of each thread
        barrier.wait()
        while not stop.is_set():
            begin = time.perf_counter()
            call()
            own_latencies.append(time.perf_counter() - begin)

    workers = [threading.Thread(target=serve, args=(own,)) for own in latencies]
    for worker in workers:
        worker.start()
    barrier.wait()
    begin = time.perf_counter()
    time.sleep(seconds)
    stop.set()
    for worker in workers:
        worker.join()
    elapsed = time.perf_counter() - begin
    merged = sorted(latency for thread_latencies in latencies for latency in thread_latencies)
    p99 = merged[min(len(merged) - 1, round(0.99 * len(merged)))]
    return len(merged) / elapsed, statistics.median(merged), p99

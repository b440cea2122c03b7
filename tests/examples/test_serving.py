"""The server of examples/serve answers as eager does, in any batch, and rejects invalid requests.

`make test` calls the application directly and sends a few requests over a network. The sweeps send
thousands, also to servers that shut down.
"""

from __future__ import annotations

import asyncio
import contextlib
import http.client
import json
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np
import pytest
import torch
import uvicorn

from tests.rotation import rotation_seed

from . import EXAMPLES, script

SERVE = EXAMPLES / "serve"


app, clients = script("serve/asgi_app"), script("serve/load")


def double(rows: np.ndarray) -> np.ndarray:
    """Return twice the rows, so that a result identifies its row."""
    return rows * 2


def make_rows(number: float, count: int) -> np.ndarray:
    return np.full((count, app.FEATURES), number, np.float32)


# -- the batcher


def run_batcher(work: Callable[[Any], Any], engine: Any = double) -> tuple[Any, list[int]]:
    """Return the result of ``work(batcher)`` and the batch sizes of the calls after warmup."""
    sizes: list[int] = []

    def record_size(rows: np.ndarray) -> np.ndarray:
        sizes.append(len(rows))
        return engine(rows)

    async def run() -> Any:
        batcher = app.Batcher(lambda: record_size)
        await batcher.start()
        del sizes[:]
        result = await work(batcher)
        await asyncio.wait_for(batcher.stop(), 10)
        return result

    return asyncio.run(run()), sizes


def test_requests_are_joined_and_each_gets_its_rows() -> None:
    counts = [1, 3, 8, 8, 8, 8, 2, 5, 1]

    async def work(batcher: Any) -> Any:
        requests = (batcher.answer(make_rows(n, count)) for n, count in enumerate(counts))
        return await asyncio.gather(*requests)

    answers, sizes = run_batcher(work)
    for number, (count, answer) in enumerate(zip(counts, answers, strict=True)):
        np.testing.assert_array_equal(answer, make_rows(2 * number, count))
    # the first batch is 1 + 3 + 8 + 8 + 8; another 8 would exceed the limit
    assert sizes == [28, 16] and max(sizes) <= app.LARGEST_BATCH


def test_who_is_alone_does_not_wait_for_others() -> None:
    async def work(batcher: Any) -> Any:
        return await asyncio.wait_for(batcher.answer(make_rows(1, 2)), 10)

    answer, sizes = run_batcher(work)
    assert answer.shape == (2, app.FEATURES) and sizes == [2]


def test_who_went_away_is_not_computed() -> None:
    async def work(batcher: Any) -> Any:
        cancelled = asyncio.create_task(batcher.answer(make_rows(1, 8)))
        pending = asyncio.create_task(batcher.answer(make_rows(2, 1)))
        await asyncio.sleep(0)
        cancelled.cancel()
        return await asyncio.wait_for(pending, 10)

    answer, sizes = run_batcher(work)
    np.testing.assert_array_equal(answer, make_rows(4, 1))
    assert sum(sizes) == 1


def test_an_engine_that_fails_once() -> None:
    def fail_on_13(rows: np.ndarray) -> np.ndarray:
        if (rows == 13).any():
            raise RuntimeError("out of luck")
        return rows

    async def work(batcher: Any) -> Any:
        with pytest.raises(RuntimeError, match="out of luck"):
            await batcher.answer(make_rows(13, 1))
        return await batcher.answer(make_rows(1, 1))

    answer, _ = run_batcher(work, fail_on_13)
    np.testing.assert_array_equal(answer, make_rows(1, 1))


def test_too_many_are_sent_away_and_the_end_forgets_nobody(monkeypatch: Any) -> None:
    release = threading.Event()

    def wait_on_3_rows(rows: np.ndarray) -> np.ndarray:
        if len(rows) == 3:
            release.wait(10)
        return rows

    async def work(batcher: Any) -> Any:
        first = asyncio.create_task(batcher.answer(make_rows(0, 3)))
        await asyncio.sleep(0.1)  # the engine is running it
        others = [asyncio.create_task(batcher.answer(make_rows(1, 8))) for _ in range(6)]
        await asyncio.sleep(0)
        stopping = asyncio.create_task(batcher.stop())
        await asyncio.sleep(0)
        release.set()
        outcomes = await asyncio.gather(first, *others, return_exceptions=True)
        await asyncio.wait_for(stopping, 10)
        batcher.stop = lambda: asyncio.sleep(0)
        with pytest.raises(app.Refused, match="the server ends"):
            await batcher.answer(make_rows(1, 1))
        return outcomes

    monkeypatch.setattr(app, "WAITING", 4)
    outcomes, sizes = run_batcher(work, wait_on_3_rows)
    refused = [outcome for outcome in outcomes if isinstance(outcome, app.Refused)]
    assert len(refused) == 2 and {outcome.status for outcome in refused} == {503}
    assert [outcome.shape for outcome in outcomes if isinstance(outcome, np.ndarray)] == [
        (3, app.FEATURES),
        *[(8, app.FEATURES)] * 4,
    ]
    assert sizes == [3, 32]


# -- the application, without a network


def call_application(
    messages: list[dict[str, Any]], method: str = "POST"
) -> tuple[int | None, Any]:
    """Call the application with ASGI messages and return the status and body of its response."""
    sent: list[dict[str, Any]] = []

    async def run() -> None:
        application = app.Application(lambda: double)
        phases: asyncio.Queue[str] = asyncio.Queue()
        replies: asyncio.Queue[str] = asyncio.Queue()

        async def receive_phase() -> dict[str, str]:
            return {"type": await phases.get()}

        async def send_reply(message: dict[str, str]) -> None:
            replies.put_nowait(message["type"])

        async def receive() -> dict[str, Any]:
            return messages.pop(0)

        async def send(message: dict[str, Any]) -> None:
            sent.append(message)

        lifespan = asyncio.create_task(application({"type": "lifespan"}, receive_phase, send_reply))
        phases.put_nowait("lifespan.startup")
        assert await replies.get() == "lifespan.startup.complete"
        await application({"type": "http", "method": method, "path": "/predict"}, receive, send)
        phases.put_nowait("lifespan.shutdown")
        assert await replies.get() == "lifespan.shutdown.complete"
        await lifespan

    asyncio.run(run())
    if not sent:
        return None, None
    start, body = sent
    assert dict(start["headers"])[b"content-length"] == str(len(body["body"])).encode()
    return start["status"], json.loads(body["body"])


def make_part(body: bytes, more: bool = False) -> dict[str, Any]:
    return {"type": "http.request", "body": body, "more_body": more}


MALFORMED = [(body, status) for *request, body, status in clients.BAD if request[0] == "POST"]


@pytest.mark.parametrize(("body", "status"), MALFORMED, ids=range(len(MALFORMED)))
def test_malformed_requests(body: bytes, status: int) -> None:
    assert call_application([make_part(body)])[0] == status


def test_a_body_in_parts() -> None:
    body = json.dumps({"features": make_rows(1, 2).tolist()}).encode()
    status, answer = call_application(
        [make_part(body[:9], True), make_part(body[9:20], True), make_part(body[20:])]
    )
    assert (status, answer) == (200, {"probabilities": make_rows(2, 2).tolist()})


def test_a_caller_who_leaves_while_he_speaks() -> None:
    assert call_application([make_part(b"{", True), {"type": "http.disconnect"}]) == (None, None)


def test_a_body_without_end_is_not_read_to_its_end() -> None:
    parts = [make_part(b"0" * 1000, True) for _ in range(1000)]
    status, _ = call_application(parts)
    assert status == 413 and len(parts) > 900


def test_a_body_that_never_comes(monkeypatch: Any) -> None:
    """A client that sends a part and waits occupies a connection for a limited time."""
    monkeypatch.setattr(app, "BODY_SECONDS", 0.05)

    async def receive() -> dict[str, Any]:
        await asyncio.sleep(0 if parts else 60)
        return parts.pop()

    parts = [make_part(b"{", True)]
    with pytest.raises(app.Refused, match=r"takes more than 0\.05 seconds") as caught:
        asyncio.run(app.read_body(receive))
    assert caught.value.status == 408


def test_an_engine_that_cannot_start() -> None:
    async def run() -> list[dict[str, str]]:
        messages: list[dict[str, str]] = []

        async def receive() -> dict[str, str]:
            return {"type": "lifespan.startup"}

        async def send(message: dict[str, str]) -> None:
            messages.append(message)

        def make_engine() -> Any:
            raise ValueError("there is no such file")

        await app.Application(make_engine)({"type": "lifespan"}, receive, send)
        return messages

    (message,) = asyncio.run(run())
    assert message == {"type": "lifespan.startup.failed", "message": "there is no such file"}


# -- over a network


@contextlib.contextmanager
def serve(application: Any) -> Iterator[str]:
    """Serve the application in a thread and yield its URL."""
    config = uvicorn.Config(application, "127.0.0.1", 0, log_level="warning")
    listener = config.bind_socket()
    server = uvicorn.Server(config)
    thread = threading.Thread(target=server.run, args=([listener],), daemon=True)
    thread.start()
    try:
        deadline = time.monotonic() + 60
        while not server.started and thread.is_alive() and time.monotonic() < deadline:
            time.sleep(0.01)
        assert server.started
        yield f"http://127.0.0.1:{listener.getsockname()[1]}"
    finally:
        server.should_exit = True
        thread.join(30)
        assert not thread.is_alive()


def test_answers_of_an_exported_model_are_eager_s() -> None:
    with serve(app.exported()) as url:
        report = clients.load(url, 60, clients=4, seed=rotation_seed(), bad=3)
        assert clients.main(["--url", url, "--requests", "10", "--clients", "2"]) == 0
    assert report.wrong == ()
    assert (report.answered, report.refused) == (40, 20) and report.calls <= 40
    assert report.refused >= len(clients.BAD)


def test_a_wrong_answer_is_found() -> None:
    def roll_rows(rows: np.ndarray) -> np.ndarray:
        with torch.no_grad():
            return np.roll(app.classifier()(torch.from_numpy(rows)).numpy(), 1, axis=0)

    with serve(app.Application(lambda: roll_rows)) as url:
        report = clients.load(url, 20, clients=2)
    assert len(report.wrong) > 10


@pytest.mark.slow
@pytest.mark.parametrize("engine", ["exported", "compiled"])
def test_two_thousand_requests(engine: str) -> None:
    """Other clients disconnect early, some of them after half a request."""
    with clients.server(engine) as url, ThreadPoolExecutor(1) as pool:
        done = threading.Event()
        disconnects = pool.submit(_disconnect_early, url, done)
        try:
            report = clients.load(url, 2000, clients=12, seed=rotation_seed())
        finally:
            done.set()
        assert disconnects.result() > 10
    assert report.wrong == ()
    assert (report.answered, report.refused) == (1800, 200)
    assert report.calls < report.answered, "no requests were batched"


def _disconnect_early(url: str, done: threading.Event) -> int:
    host, port = url.removeprefix("http://").split(":")
    body = json.dumps({"features": make_rows(1, 8).tolist()}).encode()
    post = b"POST /predict HTTP/1.1\r\nhost: x\r\ncontent-length: %d\r\n\r\n%s" % (len(body), body)
    count = 0
    while not done.wait(0.02):
        with socket.create_connection((host, int(port)), timeout=10) as connection:
            connection.sendall(post[: len(post) if count % 2 else len(post) // 2])
        count += 1
    return count


@pytest.mark.slow
@pytest.mark.parametrize("engine", ["exported", "compiled"])
def test_several_workers(engine: str) -> None:
    """Each worker process that uvicorn spawns has its own session."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    command = ["--app-dir", str(SERVE), "--factory", f"asgi_app:{engine}", "--workers", "2"]
    with subprocess.Popen(
        [sys.executable, "-m", "uvicorn", *command, "--port", str(port), "--log-level", "error"],
        text=True,
    ) as process:
        try:
            url = f"http://127.0.0.1:{port}"
            clients.wait_until_ready(url, process)
            report = clients.load(url, 400, clients=8, seed=rotation_seed())
        finally:
            process.terminate()
    assert report.wrong == () and report.answered == 360


@pytest.mark.slow
def test_requests_that_are_there_when_the_server_ends() -> None:
    """Accepted requests get correct answers at shutdown, and others a connection error."""
    script = SERVE / "asgi_app.py"
    model, x = app.classifier(), torch.ones(2, app.FEATURES)
    with torch.no_grad():
        expected = model(x)
    body = json.dumps({"features": x.tolist()}).encode()
    answers: list[Any] = []

    def send_requests(url: str) -> None:
        with contextlib.suppress(OSError, http.client.HTTPException):  # the server has shut down
            while True:
                connection = clients._connection(url)
                answers.append(connection("POST", "/predict", body))

    with subprocess.Popen(
        [sys.executable, str(script), "--port", "0"], stdout=subprocess.PIPE, text=True
    ) as process:
        assert process.stdout is not None
        url = process.stdout.readline().strip()
        clients.wait_until_ready(url, process)
        with ThreadPoolExecutor(8) as pool:
            futures = [pool.submit(send_requests, url) for _ in range(8)]
            time.sleep(1)
            process.send_signal(signal.SIGTERM)
            assert process.wait(20) in (0, -signal.SIGTERM)
            for future in futures:
                future.result(20)
    assert len(answers) > 20
    for status, answer in answers:
        assert status in (200, 503), answer
        if status == 200:
            torch.testing.assert_close(torch.tensor(answer["probabilities"]), expected)

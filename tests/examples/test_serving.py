"""The server of examples/serve: every answer equals eager's, whoever else was in the batch; what
makes no sense is told so. In `make test` the application is called without a network and with a
few requests over one; the sweeps send thousands, to processes that end meanwhile."""

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

from tests.rotation import turn

from . import EXAMPLES, script

SERVE = EXAMPLES / "serve"


app, clients = script("serve/asgi_app"), script("serve/load")


def double(rows: np.ndarray) -> np.ndarray:
    """An engine that says which rows it got."""
    return rows * 2


def rows_of(number: float, count: int) -> np.ndarray:
    return np.full((count, app.FEATURES), number, np.float32)


# -- the batcher


def batched(work: Callable[[Any], Any], engine: Any = double) -> tuple[Any, list[int]]:
    """What ``work(batcher)`` returns, and the sizes of the calls after the warm ones."""
    sizes: list[int] = []

    def noted(rows: np.ndarray) -> np.ndarray:
        sizes.append(len(rows))
        return engine(rows)

    async def run() -> Any:
        batcher = app.Batcher(lambda: noted)
        await batcher.start()
        del sizes[:]
        found = await work(batcher)
        await asyncio.wait_for(batcher.stop(), 10)
        return found

    return asyncio.run(run()), sizes


def test_requests_are_joined_and_each_gets_its_rows() -> None:
    counts = [1, 3, 8, 8, 8, 8, 2, 5, 1]

    async def work(batcher: Any) -> Any:
        asked = (batcher.answer(rows_of(n, count)) for n, count in enumerate(counts))
        return await asyncio.gather(*asked)

    answers, sizes = batched(work)
    for number, (count, got) in enumerate(zip(counts, answers, strict=True)):
        np.testing.assert_array_equal(got, rows_of(2 * number, count))
    # 1 + 3 + 8 + 8 + 8, and the 8 after it would be too many
    assert sizes == [28, 16] and max(sizes) <= app.LARGEST_BATCH


def test_who_is_alone_does_not_wait_for_others() -> None:
    async def work(batcher: Any) -> Any:
        return await asyncio.wait_for(batcher.answer(rows_of(1, 2)), 10)

    got, sizes = batched(work)
    assert got.shape == (2, app.FEATURES) and sizes == [2]


def test_who_went_away_is_not_computed() -> None:
    async def work(batcher: Any) -> Any:
        gone = asyncio.create_task(batcher.answer(rows_of(1, 8)))
        stays = asyncio.create_task(batcher.answer(rows_of(2, 1)))
        await asyncio.sleep(0)
        gone.cancel()
        return await asyncio.wait_for(stays, 10)

    got, sizes = batched(work)
    np.testing.assert_array_equal(got, rows_of(4, 1))
    assert sum(sizes) == 1


def test_an_engine_that_fails_once() -> None:
    def fails(rows: np.ndarray) -> np.ndarray:
        if (rows == 13).any():
            raise RuntimeError("out of luck")
        return rows

    async def work(batcher: Any) -> Any:
        with pytest.raises(RuntimeError, match="out of luck"):
            await batcher.answer(rows_of(13, 1))
        return await batcher.answer(rows_of(1, 1))

    got, _ = batched(work, fails)
    np.testing.assert_array_equal(got, rows_of(1, 1))


def test_too_many_are_sent_away_and_the_end_forgets_nobody(monkeypatch: Any) -> None:
    waits = threading.Event()

    def slow(rows: np.ndarray) -> np.ndarray:
        if len(rows) == 3:
            waits.wait(10)
        return rows

    async def work(batcher: Any) -> Any:
        first = asyncio.create_task(batcher.answer(rows_of(0, 3)))
        await asyncio.sleep(0.1)  # it is with the engine
        others = [asyncio.create_task(batcher.answer(rows_of(1, 8))) for _ in range(6)]
        await asyncio.sleep(0)
        ending = asyncio.create_task(batcher.stop())
        await asyncio.sleep(0)
        waits.set()
        told = await asyncio.gather(first, *others, return_exceptions=True)
        await asyncio.wait_for(ending, 10)
        batcher.stop = lambda: asyncio.sleep(0)
        with pytest.raises(app.Refused, match="the server ends"):
            await batcher.answer(rows_of(1, 1))
        return told

    monkeypatch.setattr(app, "WAITING", 4)
    told, sizes = batched(work, slow)
    refused = [each for each in told if isinstance(each, app.Refused)]
    assert len(refused) == 2 and {each.status for each in refused} == {503}
    assert [each.shape for each in told if isinstance(each, np.ndarray)] == [
        (3, app.FEATURES),
        *[(8, app.FEATURES)] * 4,
    ]
    assert sizes == [3, 32]


# -- the application, without a network


def called(messages: list[dict[str, Any]], method: str = "POST") -> tuple[int | None, Any]:
    """The status and the body that the application sends for these messages of ASGI."""
    sent: list[dict[str, Any]] = []

    async def run() -> None:
        application = app.Application(lambda: double)
        phases: asyncio.Queue[str] = asyncio.Queue()
        said: asyncio.Queue[str] = asyncio.Queue()

        async def phase() -> dict[str, str]:
            return {"type": await phases.get()}

        async def tell(message: dict[str, str]) -> None:
            said.put_nowait(message["type"])

        async def receive() -> dict[str, Any]:
            return messages.pop(0)

        async def send(message: dict[str, Any]) -> None:
            sent.append(message)

        lifespan = asyncio.create_task(application({"type": "lifespan"}, phase, tell))
        phases.put_nowait("lifespan.startup")
        assert await said.get() == "lifespan.startup.complete"
        await application({"type": "http", "method": method, "path": "/predict"}, receive, send)
        phases.put_nowait("lifespan.shutdown")
        assert await said.get() == "lifespan.shutdown.complete"
        await lifespan

    asyncio.run(run())
    if not sent:
        return None, None
    start, body = sent
    assert dict(start["headers"])[b"content-length"] == str(len(body["body"])).encode()
    return start["status"], json.loads(body["body"])


def part(body: bytes, more: bool = False) -> dict[str, Any]:
    return {"type": "http.request", "body": body, "more_body": more}


def test_a_body_in_parts() -> None:
    body = json.dumps({"features": rows_of(1, 2).tolist()}).encode()
    status, said = called([part(body[:9], True), part(body[9:20], True), part(body[20:])])
    assert (status, said) == (200, {"probabilities": rows_of(2, 2).tolist()})


def test_a_caller_who_leaves_while_he_speaks() -> None:
    assert called([part(b"{", True), {"type": "http.disconnect"}]) == (None, None)


def test_a_body_without_end_is_not_read_to_its_end() -> None:
    parts = [part(b"0" * 1000, True) for _ in range(1000)]
    status, _ = called(parts)
    assert status == 413 and len(parts) > 900


def test_an_engine_that_cannot_start() -> None:
    async def run() -> list[dict[str, str]]:
        told: list[dict[str, str]] = []

        async def receive() -> dict[str, str]:
            return {"type": "lifespan.startup"}

        async def send(message: dict[str, str]) -> None:
            told.append(message)

        def make() -> Any:
            raise ValueError("there is no such file")

        await app.Application(make)({"type": "lifespan"}, receive, send)
        return told

    (message,) = asyncio.run(run())
    assert message == {"type": "lifespan.startup.failed", "message": "there is no such file"}


# -- over a network


@contextlib.contextmanager
def served(application: Any) -> Iterator[str]:
    """The application in a thread of this process; its address."""
    config = uvicorn.Config(application, "127.0.0.1", 0, log_level="warning")
    bound = config.bind_socket()
    running = uvicorn.Server(config)
    thread = threading.Thread(target=running.run, args=([bound],), daemon=True)
    thread.start()
    try:
        end = time.monotonic() + 60
        while not running.started and thread.is_alive() and time.monotonic() < end:
            time.sleep(0.01)
        assert running.started
        yield f"http://127.0.0.1:{bound.getsockname()[1]}"
    finally:
        running.should_exit = True
        thread.join(30)
        assert not thread.is_alive()


def test_answers_of_an_exported_model_are_eager_s() -> None:
    with served(app.exported()) as url:
        found = clients.load(url, 60, clients=4, seed=turn(), bad=3)
        assert clients.main(["--url", url, "--requests", "10", "--clients", "2"]) == 0
    assert found.wrong == ()
    assert (found.answered, found.refused) == (40, 20) and found.calls <= 40
    assert found.refused >= len(clients.BAD)


def test_a_wrong_answer_is_found() -> None:
    def wrong(rows: np.ndarray) -> np.ndarray:
        with torch.no_grad():
            return np.roll(app.classifier()(torch.from_numpy(rows)).numpy(), 1, axis=0)

    with served(app.Application(lambda: wrong)) as url:
        found = clients.load(url, 20, clients=2)
    assert len(found.wrong) > 10


@pytest.mark.slow
@pytest.mark.parametrize("engine", ["exported", "compiled"])
def test_two_thousand_requests(engine: str) -> None:
    """While others connect, say half of a request and leave."""
    with clients.server(engine) as url, ThreadPoolExecutor(1) as pool:
        done = threading.Event()
        left = pool.submit(_leave, url, done)
        try:
            found = clients.load(url, 2000, clients=12, seed=turn())
        finally:
            done.set()
        assert left.result() > 10
    assert found.wrong == ()
    assert (found.answered, found.refused) == (1800, 200)
    assert found.calls < found.answered, "nothing was joined"


def _leave(url: str, done: threading.Event) -> int:
    host, port = url.removeprefix("http://").split(":")
    body = json.dumps({"features": rows_of(1, 8).tolist()}).encode()
    whole = b"POST /predict HTTP/1.1\r\nhost: x\r\ncontent-length: %d\r\n\r\n%s" % (len(body), body)
    count = 0
    while not done.wait(0.02):
        with socket.create_connection((host, int(port)), timeout=10) as connection:
            connection.sendall(whole[: len(whole) if count % 2 else len(whole) // 2])
        count += 1
    return count


@pytest.mark.slow
@pytest.mark.parametrize("engine", ["exported", "compiled"])
def test_several_workers(engine: str) -> None:
    """Each has a session of its own: uvicorn spawns them."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    command = ["--app-dir", str(SERVE), "--factory", f"asgi_app:{engine}", "--workers", "2"]
    with subprocess.Popen(
        [sys.executable, "-m", "uvicorn", *command, "--port", str(port), "--log-level", "error"],
        text=True,
    ) as process:
        try:
            url = f"http://127.0.0.1:{port}"
            clients.wait_until_ready(url, process)
            found = clients.load(url, 400, clients=8, seed=turn())
        finally:
            process.terminate()
    assert found.wrong == () and found.answered == 360


@pytest.mark.slow
def test_requests_that_are_there_when_the_server_ends() -> None:
    """What the server has taken is answered rightly; what it has not is told so by the network."""
    script = SERVE / "asgi_app.py"
    model, x = app.classifier(), torch.ones(2, app.FEATURES)
    with torch.no_grad():
        expected = model(x)
    body = json.dumps({"features": x.tolist()}).encode()
    answers: list[Any] = []

    def ask(url: str) -> None:
        with contextlib.suppress(OSError, http.client.HTTPException):  # it has ended
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
            asking = [pool.submit(ask, url) for _ in range(8)]
            time.sleep(1)
            process.send_signal(signal.SIGTERM)
            assert process.wait(20) in (0, -signal.SIGTERM)
            for each in asking:
                each.result(20)
    assert len(answers) > 20
    for status, said in answers:
        assert status in (200, 503), said
        if status == 200:
            torch.testing.assert_close(torch.tensor(said["probabilities"]), expected)

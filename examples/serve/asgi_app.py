"""Serve a model over HTTP, with concurrent requests joined into batches.

    python examples/serve/asgi_app.py --port 8000
    curl -d '{"features": [[0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15]]}' \\
        localhost:8000/predict
    python -m uvicorn --app-dir examples/serve --factory asgi_app:exported --workers 2

You learn what a server needs besides the model: a file with a dynamic batch, a warm session before
the first request, batches of requests, error responses to invalid requests, and a shutdown that
answers all pending requests. `--engine compiled` serves a torch.compile model instead of a file.

The application is plain ASGI, Python's protocol between web servers and applications; uvicorn runs
it. Weights are random.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import json
import sys
import tempfile
from collections.abc import Awaitable, Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import onnxruntime
import torch
import uvicorn
from torch import nn

import ortable

FEATURES, CLASSES = 16, 4
LARGEST_REQUEST, LARGEST_BATCH = 8, 32  # rows
MAX_DELAY = 0.002  # seconds that a request waits for others to join its batch
WAITING = 256  # pending requests; more get status 503, because they would time out
LARGEST_BODY = 1 << 16  # bytes
BODY_SECONDS = 10.0  # that a client may take to send a body, which a connection waits for

Engine = Callable[[np.ndarray], np.ndarray]


# -- engines: functions from rows to results


def classifier() -> nn.Module:
    """Build a small network in place of yours; the rows of a batch are independent."""
    torch.manual_seed(0)
    layers = (nn.Linear(FEATURES, 64), nn.GELU(), nn.LayerNorm(64), nn.Linear(64, CLASSES))
    return nn.Sequential(*layers, nn.Softmax(-1)).eval()


def export(path: Path) -> None:
    """Export the model with a dynamic batch; all other sizes are static."""
    program = ortable.export(
        classifier(),
        (torch.randn(2, FEATURES),),
        dynamic_shapes=({0: torch.export.Dim("batch", max=LARGEST_BATCH)},),
        input_names=["features"],
        output_names=["probabilities"],
    )
    program.validate().check()  # equal to eager, also at other batch sizes
    program.save(path)


def onnxruntime_engine(path: Path, threads: int = 1) -> Engine:
    """Make a session of a file with ``threads`` threads, since workers share the cores."""
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = threads
    session = onnxruntime.InferenceSession(path, options, providers=["CPUExecutionProvider"])
    return lambda rows: session.run(["probabilities"], {"features": rows})[0]


def compiled_engine() -> Engine:
    """Compile the model; one graph serves every batch size."""
    compiled = torch.compile(classifier(), backend="ortable", dynamic=True)

    def run(rows: np.ndarray) -> np.ndarray:
        with torch.no_grad():
            return compiled(torch.from_numpy(rows)).numpy()

    return run


def exported_engine() -> Engine:
    """Export the model and open the file; your application would open an existing file."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "model.onnx"
        export(path)
        return onnxruntime_engine(path)


# -- batches of requests


class Refused(Exception):
    """A rejected request, with its HTTP status, reason and headers."""

    def __init__(self, status: int, reason: str, **headers: str) -> None:
        super().__init__(reason)
        self.status, self.headers = status, headers


@dataclass
class Pending:
    """Rows of a request, and the future of their results."""

    rows: np.ndarray
    answer: asyncio.Future[np.ndarray]


@dataclass
class Batcher:
    """Calls an engine with one batch at a time, in a separate thread.

    The event loop can read requests meanwhile, and the engine always runs in the same thread.
    """

    make: Callable[[], Engine]
    calls: int = 0
    rows: int = 0
    ending: bool = False
    _queue: asyncio.Queue[Pending | None] = field(default_factory=lambda: asyncio.Queue(WAITING))
    _thread: ThreadPoolExecutor = field(default_factory=lambda: ThreadPoolExecutor(1))
    _next_request: Pending | None = None  # did not fit into the previous batch

    async def start(self) -> None:
        """Make the engine and warm it up, so that no request waits for a compiler."""

        def make_warm_engine() -> Engine:
            engine = self.make()
            for size in (1, 2, LARGEST_BATCH):
                engine(np.zeros((size, FEATURES), np.float32))
            return engine

        engine = await asyncio.get_running_loop().run_in_executor(self._thread, make_warm_engine)
        self._work = asyncio.create_task(self._run(engine))

    async def stop(self) -> None:
        """Answer pending requests, and reject new ones."""
        self.ending = True
        await self._queue.put(None)
        await self._work
        self._thread.shutdown()

    async def answer(self, rows: np.ndarray) -> np.ndarray:
        """Return the results of these rows."""
        request = Pending(rows, asyncio.get_running_loop().create_future())
        if self.ending or self._queue.full():
            raise Refused(503, "too many requests wait, or the server ends", **{"retry-after": "1"})
        self._queue.put_nowait(request)
        return await request.answer

    async def _run(self, engine: Engine) -> None:
        while batch := await self._collect_batch():
            rows = np.concatenate([request.rows for request in batch])
            self.calls, self.rows = self.calls + 1, self.rows + len(rows)
            loop = asyncio.get_running_loop()
            try:
                results = await loop.run_in_executor(self._thread, engine, rows)
                parts = np.split(results, np.cumsum([len(request.rows) for request in batch])[:-1])
            except Exception as error:  # all requests of this batch fail; the next batch is tried
                for request in batch:
                    if not request.answer.done():
                        request.answer.set_exception(error)
                continue
            for request, part in zip(batch, parts, strict=True):
                if not request.answer.done():  # a client that disconnects cancels its request
                    request.answer.set_result(part)

    async def _collect_batch(self) -> list[Pending]:
        """Return the requests of the next batch; the list is empty at the end."""
        request = self._next_request or await self._queue.get()
        self._next_request, batch = None, []
        rows, deadline = 0, asyncio.get_running_loop().time() + MAX_DELAY
        while request is not None:
            if rows + len(request.rows) > LARGEST_BATCH:
                self._next_request = request
                break
            if not request.answer.done():
                batch.append(request)
                rows += len(request.rows)
            try:
                async with asyncio.timeout_at(deadline if batch else None):
                    request = await self._queue.get()
            except TimeoutError:
                return batch
        if request is None:
            self._queue.put_nowait(None)  # the next call returns an empty batch
        return batch


# -- reading requests


def read_rows(body: bytes) -> np.ndarray:
    """Parse ``{"features": [[...], ...]}`` as a float32 matrix, or raise `Refused`."""
    try:
        data = json.loads(body, parse_constant=_reject_number)
    except (ValueError, RecursionError) as error:  # also raised for bytes that are not UTF-8
        raise Refused(400, f"the body is not JSON: {error}") from None
    if not isinstance(data, dict) or set(data) != {"features"}:
        raise Refused(400, 'the body must be an object with "features" and nothing else')
    rows = data["features"]
    if not isinstance(rows, list) or not 1 <= len(rows) <= LARGEST_REQUEST:
        raise Refused(422, f'"features" must be a list of 1 to {LARGEST_REQUEST} rows')
    for number, row in enumerate(rows):
        if not isinstance(row, list) or len(row) != FEATURES:
            raise Refused(422, f"row {number} must be a list of {FEATURES} numbers")
        for value in row:
            if type(value) not in (int, float) or not abs(value) <= _MAX_NUMBER:
                raise Refused(422, f"row {number} has a value that is not a float32 number")
    return np.array(rows, np.float32)


_MAX_NUMBER = float(np.finfo(np.float32).max)


def _reject_number(name: str) -> float:
    raise ValueError(f"{name} is not a JSON number")


async def read_body(receive: Callable[[], Awaitable[Any]]) -> bytes:
    """Read a whole body, or raise `Refused` if it is too long or takes too long."""
    try:
        async with asyncio.timeout(BODY_SECONDS):
            return await _read_parts(receive)
    except TimeoutError:
        raise Refused(408, f"the body takes more than {BODY_SECONDS} seconds") from None


async def _read_parts(receive: Callable[[], Awaitable[Any]]) -> bytes:
    body, has_more = b"", True
    while has_more:
        message = await receive()
        if message["type"] == "http.disconnect":
            raise ConnectionResetError
        body += message.get("body", b"")
        has_more = message.get("more_body", False)
        if len(body) > LARGEST_BODY:
            raise Refused(413, f"the body has more than {LARGEST_BODY} bytes")
    return body


# -- the application


class Application:
    """ASGI application with `GET /health`, `POST /predict`, startup and shutdown."""

    def __init__(self, make: Callable[[], Engine]) -> None:
        self._make = make
        self._batcher: Batcher | None = None

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        if scope["type"] == "lifespan":
            await self._run_lifespan(receive, send)
        elif scope["type"] == "http":
            with contextlib.suppress(ConnectionResetError):  # the client has disconnected
                try:
                    content = await self._answer(scope["method"], scope["path"], receive)
                    await _send(send, 200, content)
                except Refused as error:
                    await _send(send, error.status, {"error": str(error)}, error.headers)

    async def _answer(self, method: str, path: str, receive: Any) -> dict[str, Any]:
        batcher = self._batcher
        assert batcher is not None, "the server sends lifespan.startup first"
        match method, path:
            case "GET", "/health":
                if batcher.ending:
                    raise Refused(503, "the server ends")
                return {"status": "ready", "calls": batcher.calls, "rows": batcher.rows}
            case "POST", "/predict":
                results = await batcher.answer(read_rows(await read_body(receive)))
                return {"probabilities": results.tolist()}
            case _, "/health" | "/predict":
                allowed = "GET" if path == "/health" else "POST"
                raise Refused(405, f"{path} takes {allowed}", allow=allowed)
        raise Refused(404, "there are GET /health and POST /predict")

    async def _run_lifespan(self, receive: Any, send: Any) -> None:
        await receive()  # lifespan.startup
        try:
            self._batcher = Batcher(self._make)
            await self._batcher.start()
        except Exception as error:  # the server exits with this error
            await send({"type": "lifespan.startup.failed", "message": str(error)})
            return
        await send({"type": "lifespan.startup.complete"})
        await receive()  # lifespan.shutdown, after all connections are closed
        await self._batcher.stop()
        await send({"type": "lifespan.shutdown.complete"})


async def _send(
    send: Any, status: int, content: dict[str, Any], headers: Mapping[str, str] | None = None
) -> None:
    body = json.dumps(content).encode()
    all_headers = {
        "content-type": "application/json",
        "content-length": str(len(body)),
        **(headers or {}),
    }
    lines = [(name.encode(), value.encode()) for name, value in all_headers.items()]
    await send({"type": "http.response.start", "status": status, "headers": lines})
    await send({"type": "http.response.body", "body": body})


def exported() -> Application:
    """Make the application of `uvicorn --factory asgi_app:exported`."""
    return Application(exported_engine)


def compiled() -> Application:
    """Make the application of `uvicorn --factory asgi_app:compiled`."""
    return Application(compiled_engine)


def main(arguments: Sequence[str] | None = None) -> int:
    """Serve until SIGTERM or Ctrl-C."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n\n")[0])
    parser.add_argument("--host", default="127.0.0.1")
    parser.add_argument("--port", type=int, default=8000, help="0 chooses and prints a free port")
    parser.add_argument("--engine", choices=("exported", "compiled"), default="exported")
    options = parser.parse_args(arguments)
    torch.set_num_threads(1)
    application = {"exported": exported, "compiled": compiled}[options.engine]()
    config = uvicorn.Config(
        application,
        options.host,
        options.port,
        log_level="warning",
        limit_concurrency=4 * WAITING,  # connections; more get status 503
    )
    socket = config.bind_socket()
    print(f"http://{options.host}:{socket.getsockname()[1]}", flush=True)
    uvicorn.Server(config).run(sockets=[socket])
    return 0


if __name__ == "__main__":
    sys.exit(main())

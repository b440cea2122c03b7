"""A small server over HTTP in which requests that arrive together become one call of the model.

    python examples/serve/asgi_app.py --port 8000
    curl -d '{"features": [[0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15]]}' \\
        localhost:8000/predict
    python -m uvicorn --app-dir examples/serve --factory asgi_app:exported --workers 2

You learn what stands between a model and its callers: a file whose batch is of free size, sessions
that are warm before the first request, requests joined to batches, answers to those who ask for
nonsense, and an end at which nobody is forgotten. `--engine compiled` serves what torch.compile
made, in place of an exported file.

The application is plain ASGI, the protocol between Python's servers and what they serve; uvicorn
runs it. Weights are random."""

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
DELAY = 0.002  # seconds that a request waits for others
WAITING = 256  # requests; more are sent away, rather than answered when nobody listens any more
LARGEST_BODY = 1 << 16  # bytes

Engine = Callable[[np.ndarray], np.ndarray]


# -- the model, as a function of rows


def classifier() -> nn.Module:
    """A small network in place of yours. Rows of a batch do not see each other."""
    torch.manual_seed(0)
    layers = (nn.Linear(FEATURES, 64), nn.GELU(), nn.LayerNorm(64), nn.Linear(64, CLASSES))
    return nn.Sequential(*layers, nn.Softmax(-1)).eval()


def export(path: Path) -> None:
    """Writes the model with a batch of free size: what is not declared free is fixed."""
    program = ortable.export(
        classifier(),
        (torch.randn(2, FEATURES),),
        dynamic_shapes=({0: torch.export.Dim("batch", max=LARGEST_BATCH)},),
        input_names=["features"],
        output_names=["probabilities"],
    )
    program.validate().check()  # equal to eager, at other batch sizes too
    program.save(path)


def onnxruntime_engine(path: Path, threads: int = 1) -> Engine:
    """A session of a file. Workers that share a machine share its cores: each gets ``threads``."""
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = threads
    session = onnxruntime.InferenceSession(path, options, providers=["CPUExecutionProvider"])
    return lambda rows: session.run(["probabilities"], {"features": rows})[0]


def compiled_engine() -> Engine:
    """A model that torch.compile made; one graph serves every size."""
    compiled = torch.compile(classifier(), backend="ortable", dynamic=True)

    def run(rows: np.ndarray) -> np.ndarray:
        with torch.no_grad():
            return compiled(torch.from_numpy(rows)).numpy()

    return run


def exported_engine() -> Engine:
    """Exports, and opens the file. Yours lies on the disk already."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "model.onnx"
        export(path)
        return onnxruntime_engine(path)


# -- requests that become a batch


class Refused(Exception):
    """A request that is not answered: a status of HTTP, why, and headers that belong to it."""

    def __init__(self, status: int, reason: str, **headers: str) -> None:
        super().__init__(reason)
        self.status, self.headers = status, headers


@dataclass
class Waiting:
    """Rows whose results somebody waits for."""

    rows: np.ndarray
    answer: asyncio.Future[np.ndarray]


@dataclass
class Batcher:
    """Calls an engine, one batch at a time, in a thread of its own: the loop goes on reading
    requests meanwhile, and what compiles or keeps settings a thread meets one thread only."""

    make: Callable[[], Engine]
    calls: int = 0
    rows: int = 0
    ending: bool = False
    _queue: asyncio.Queue[Waiting | None] = field(default_factory=lambda: asyncio.Queue(WAITING))
    _thread: ThreadPoolExecutor = field(default_factory=lambda: ThreadPoolExecutor(1))
    _held: Waiting | None = None  # did not fit into the batch before

    async def start(self) -> None:
        """Makes the engine and calls it, so that no request waits for kernels or a compiler."""

        def warm() -> Engine:
            engine = self.make()
            for size in (1, 2, LARGEST_BATCH):
                engine(np.zeros((size, FEATURES), np.float32))
            return engine

        engine = await asyncio.get_running_loop().run_in_executor(self._thread, warm)
        self._work = asyncio.create_task(self._run(engine))

    async def stop(self) -> None:
        """Answers whoever waits, and takes no more."""
        self.ending = True
        await self._queue.put(None)
        await self._work
        self._thread.shutdown()

    async def answer(self, rows: np.ndarray) -> np.ndarray:
        """The results of these rows."""
        one = Waiting(rows, asyncio.get_running_loop().create_future())
        if self.ending or self._queue.full():
            raise Refused(503, "too many requests wait, or the server ends", **{"retry-after": "1"})
        self._queue.put_nowait(one)
        return await one.answer

    async def _run(self, engine: Engine) -> None:
        while batch := await self._batch():
            joined = np.concatenate([one.rows for one in batch])
            self.calls, self.rows = self.calls + 1, self.rows + len(joined)
            loop = asyncio.get_running_loop()
            try:
                found = await loop.run_in_executor(self._thread, engine, joined)
                parts = np.split(found, np.cumsum([len(one.rows) for one in batch])[:-1])
            except Exception as error:  # those who wait learn of it; the next batch is tried
                for one in batch:
                    if not one.answer.done():
                        one.answer.set_exception(error)
                continue
            for one, part in zip(batch, parts, strict=True):
                if not one.answer.done():  # who went away has cancelled
                    one.answer.set_result(part)

    async def _batch(self) -> list[Waiting]:
        """Who is served next; nobody at the end."""
        first = self._held or await self._queue.get()
        self._held, batch = None, []
        rows, until = 0, asyncio.get_running_loop().time() + DELAY
        while first is not None:
            if rows + len(first.rows) > LARGEST_BATCH:
                self._held = first
                break
            if not first.answer.done():
                batch.append(first)
                rows += len(first.rows)
            try:
                async with asyncio.timeout_at(until if batch else None):
                    first = await self._queue.get()
            except TimeoutError:
                return batch
        if first is None:
            self._queue.put_nowait(None)  # the end is met again, with nobody before it
        return batch


# -- what a request says


def read_rows(body: bytes) -> np.ndarray:
    """``{"features": [[...], ...]}`` as a matrix of float32; refuses whatever is none."""
    try:
        said = json.loads(body, parse_constant=_no_number)
    except (ValueError, RecursionError) as error:  # of bytes that are no text, too
        raise Refused(400, f"the body is no JSON: {error}") from None
    if not isinstance(said, dict) or set(said) != {"features"}:
        raise Refused(400, 'the body must be an object with "features" and nothing else')
    rows = said["features"]
    if not isinstance(rows, list) or not 1 <= len(rows) <= LARGEST_REQUEST:
        raise Refused(422, f'"features" must be a list of 1 to {LARGEST_REQUEST} rows')
    for number, row in enumerate(rows):
        if not isinstance(row, list) or len(row) != FEATURES:
            raise Refused(422, f"row {number} must be a list of {FEATURES} numbers")
        for value in row:
            if type(value) not in (int, float) or not abs(value) <= _LARGEST_NUMBER:
                raise Refused(422, f"row {number} holds what is no number of float32")
    return np.array(rows, np.float32)


_LARGEST_NUMBER = float(np.finfo(np.float32).max)


def _no_number(name: str) -> float:
    raise ValueError(f"{name} is none of JSON's numbers")


async def read_body(receive: Callable[[], Awaitable[Any]]) -> bytes:
    """All of a body, unless it is too long."""
    body, more = b"", True
    while more:
        message = await receive()
        if message["type"] == "http.disconnect":
            raise ConnectionResetError
        body += message.get("body", b"")
        more = message.get("more_body", False)
        if len(body) > LARGEST_BODY:
            raise Refused(413, f"the body has more than {LARGEST_BODY} bytes")
    return body


# -- the application


class Application:
    """ASGI: `GET /health`, `POST /predict`, and the begin and the end of the process."""

    def __init__(self, make: Callable[[], Engine]) -> None:
        self._make = make
        self._batcher: Batcher | None = None

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        if scope["type"] == "lifespan":
            await self._live(receive, send)
        elif scope["type"] == "http":
            with contextlib.suppress(ConnectionResetError):  # nobody is there to be answered
                try:
                    said = await self._answer(scope["method"], scope["path"], receive)
                    await _send(send, 200, said)
                except Refused as refused:
                    await _send(send, refused.status, {"error": str(refused)}, refused.headers)

    async def _answer(self, method: str, path: str, receive: Any) -> dict[str, Any]:
        batcher = self._batcher
        assert batcher is not None, "the server tells of its begin first"
        match method, path:
            case "GET", "/health":
                if batcher.ending:
                    raise Refused(503, "the server ends")
                return {"status": "ready", "calls": batcher.calls, "rows": batcher.rows}
            case "POST", "/predict":
                found = await batcher.answer(read_rows(await read_body(receive)))
                return {"probabilities": found.tolist()}
            case _, "/health" | "/predict":
                allowed = "GET" if path == "/health" else "POST"
                raise Refused(405, f"{path} takes {allowed}", allow=allowed)
        raise Refused(404, "there are GET /health and POST /predict")

    async def _live(self, receive: Any, send: Any) -> None:
        await receive()  # lifespan.startup
        try:
            self._batcher = Batcher(self._make)
            await self._batcher.start()
        except Exception as error:  # the server ends with it
            await send({"type": "lifespan.startup.failed", "message": str(error)})
            return
        await send({"type": "lifespan.startup.complete"})
        await receive()  # lifespan.shutdown: connections have been answered
        await self._batcher.stop()
        await send({"type": "lifespan.shutdown.complete"})


async def _send(
    send: Any, status: int, said: dict[str, Any], headers: Mapping[str, str] | None = None
) -> None:
    body = json.dumps(said).encode()
    told = {"content-type": "application/json", "content-length": str(len(body)), **(headers or {})}
    lines = [(name.encode(), value.encode()) for name, value in told.items()]
    await send({"type": "http.response.start", "status": status, "headers": lines})
    await send({"type": "http.response.body", "body": body})


def exported() -> Application:
    """For `uvicorn --factory asgi_app:exported`."""
    return Application(exported_engine)


def compiled() -> Application:
    """For `uvicorn --factory asgi_app:compiled`."""
    return Application(compiled_engine)


def main(arguments: Sequence[str] | None = None) -> int:
    """Serves until the process is told to end (SIGTERM, Ctrl-C)."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n\n")[0])
    parser.add_argument("--host", default="127.0.0.1")
    parser.add_argument("--port", type=int, default=8000, help="0: a free one, which is printed")
    parser.add_argument("--engine", choices=("exported", "compiled"), default="exported")
    asked = parser.parse_args(arguments)
    torch.set_num_threads(1)
    application = {"exported": exported, "compiled": compiled}[asked.engine]()
    config = uvicorn.Config(application, asked.host, asked.port, log_level="warning")
    socket = config.bind_socket()
    print(f"http://{asked.host}:{socket.getsockname()[1]}", flush=True)
    uvicorn.Server(config).run(sockets=[socket])
    return 0


if __name__ == "__main__":
    sys.exit(main())

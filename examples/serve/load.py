"""Send many requests to the server of asgi_app.py, and compare every answer with eager.

    python examples/serve/load.py                       # starts its own server
    python examples/serve/load.py --engine compiled --requests 2000
    python examples/serve/load.py --url http://127.0.0.1:8000

You learn what a load test of a model checks besides speed: each client gets the results of its own
rows, independent of the other requests in the batch; an invalid request gets a 4xx status; and
requests are joined into batches. Each client is a thread with its own connection. Exits with
status 1 if an answer is wrong.
"""

from __future__ import annotations

import argparse
import contextlib
import http.client
import json
import random
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import urlsplit

import torch

sys.path.insert(0, str(Path(__file__).parent))  # needed when another folder imports this file
from asgi_app import FEATURES, LARGEST_BODY, LARGEST_REQUEST, classifier

GOOD = [0.0] * FEATURES
# Invalid requests: method, path, body, and the expected status.
BAD: tuple[tuple[str, str, bytes, int], ...] = (
    ("POST", "/predict", b"", 400),
    ("POST", "/predict", b"features=1", 400),
    ("POST", "/predict", b"\xff\xfe{}", 400),
    ("POST", "/predict", b"[" * 20_000, 400),
    ("POST", "/predict", json.dumps({"features": [[float("nan")] * FEATURES]}).encode(), 400),
    ("POST", "/predict", b'{"features": [[1' + b"0" * 5000 + b"]]}", 400),
    ("POST", "/predict", json.dumps([GOOD]).encode(), 400),
    ("POST", "/predict", json.dumps({"feature": [GOOD]}).encode(), 400),
    ("POST", "/predict", json.dumps({"features": GOOD}).encode(), 422),
    ("POST", "/predict", json.dumps({"features": []}).encode(), 422),
    ("POST", "/predict", json.dumps({"features": [GOOD] * (LARGEST_REQUEST + 1)}).encode(), 422),
    ("POST", "/predict", json.dumps({"features": [GOOD, GOOD[1:]]}).encode(), 422),
    ("POST", "/predict", json.dumps({"features": [[*GOOD[1:], "0"]]}).encode(), 422),
    ("POST", "/predict", json.dumps({"features": [[*GOOD[1:], True]]}).encode(), 422),
    ("POST", "/predict", json.dumps({"features": [[*GOOD[1:], 1e300]]}).encode(), 422),
    ("POST", "/predict", b'{"features": "' + b"0" * LARGEST_BODY + b'"}', 413),
    ("GET", "/predict", b"", 405),
    ("DELETE", "/health", b"", 405),
    ("GET", "/", b"", 404),
)


@dataclass(frozen=True)
class Outcome:
    """Counts of answered and refused requests, wrong answers, and the server's rows and calls."""

    answered: int
    refused: int
    wrong: tuple[str, ...]
    rows: int
    calls: int
    seconds: float


def load(url: str, requests: int, clients: int = 8, seed: int = 0, bad: int = 10) -> Outcome:
    """Send the requests, one in ``bad`` of them invalid, and check the answers."""
    sizes = random.Random(seed)
    values = torch.Generator().manual_seed(seed)
    work: list[tuple[str, str, bytes, int | torch.Tensor]] = []
    for number in range(requests):
        if number % bad == bad - 1:
            work.append(BAD[(number // bad) % len(BAD)])
        else:
            rows = torch.randn(sizes.randint(1, LARGEST_REQUEST), FEATURES, generator=values)
            body = json.dumps({"features": rows.tolist()}).encode()
            work.append(("POST", "/predict", body, rows))
    model = classifier()

    def client(items: Sequence[tuple[str, str, bytes, int | torch.Tensor]]) -> list[str | None]:
        send, errors = _connection(url), []
        with torch.no_grad():
            for method, path, body, expected in items:
                status, answer = send(method, path, body)
                if isinstance(expected, int):
                    ok = status == expected and bool(answer.get("error"))
                else:
                    ok = status == 200 and _equal(answer["probabilities"], model(expected))
                errors.append(None if ok else f"{method} {path} {body[:80]!r}: {status} {answer}")
        return errors

    before, start = _connection(url)("GET", "/health", b"")[1], time.monotonic()
    with ThreadPoolExecutor(clients) as pool:
        results = list(pool.map(client, [work[index::clients] for index in range(clients)]))
    seconds = time.monotonic() - start
    after = _connection(url)("GET", "/health", b"")[1]
    wrong = tuple(error for errors in results for error in errors if error is not None)
    refused = sum(isinstance(expected, int) for *_, expected in work)
    rows, calls = (after[name] - before[name] for name in ("rows", "calls"))
    return Outcome(len(work) - refused, refused, wrong, rows, calls, seconds)


def _equal(answer: object, expected: torch.Tensor) -> bool:
    result = torch.tensor(answer)
    return result.shape == expected.shape and torch.allclose(result, expected, rtol=1e-5, atol=1e-6)


def _connection(url: str) -> Callable[[str, str, bytes], tuple[int, dict]]:
    """Return a function that sends a request over a persistent connection."""
    address = urlsplit(url)
    assert address.hostname is not None
    connection = http.client.HTTPConnection(address.hostname, address.port, timeout=60)

    def send(method: str, path: str, body: bytes) -> tuple[int, dict]:
        connection.request(method, path, body)
        response = connection.getresponse()
        return response.status, json.loads(response.read())

    return send


@contextlib.contextmanager
def server(engine: str) -> Iterator[str]:
    """Start asgi_app.py in a process, and yield its address when it is ready."""
    script = Path(__file__).with_name("asgi_app.py")
    command = [sys.executable, str(script), "--port", "0", "--engine", engine]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        try:
            url = process.stdout.readline().strip()
            wait_until_ready(url, process)
            yield url
        finally:
            process.terminate()


def wait_until_ready(url: str, process: subprocess.Popen[str]) -> None:
    """Poll ``/health`` until it succeeds, which takes seconds for an exported model."""
    for _ in range(1200):
        with contextlib.suppress(OSError):
            if _connection(url)("GET", "/health", b"")[0] == 200:
                return
        if process.poll() is not None:
            raise RuntimeError(f"the server ended with {process.returncode}")
        time.sleep(0.1)
    raise TimeoutError("the server is not ready after two minutes")


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the test and print its outcome; return 0 if no answer is wrong."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n\n")[0])
    parser.add_argument("--url", help="address of a running server; default: start one")
    parser.add_argument("--engine", choices=("exported", "compiled"), default="exported")
    parser.add_argument("--requests", type=int, default=500)
    parser.add_argument("--clients", type=int, default=8)
    options = parser.parse_args(arguments)
    torch.set_num_threads(1)
    server_context = contextlib.nullcontext(options.url) if options.url else server(options.engine)
    with server_context as url:
        outcome = load(url, options.requests, options.clients)
    print(f"{outcome.answered} requests answered, {outcome.refused} invalid requests refused")
    print(f"{outcome.rows} rows in {outcome.calls} calls of the model")
    print(f"{(outcome.answered + outcome.refused) / outcome.seconds:.0f} requests a second")
    print(f"wrong answers: {len(outcome.wrong)}", *outcome.wrong[:10], sep="\n  ")
    return int(bool(outcome.wrong))


if __name__ == "__main__":
    sys.exit(main())

"""Sends many requests to the server of asgi_app.py and compares every answer with eager's.

    python examples/serve/load.py                       # starts a server of its own
    python examples/serve/load.py --engine compiled --requests 2000
    python examples/serve/load.py --url http://127.0.0.1:8000

You learn what a load test of a model asks beside "how fast": that each caller gets the results of
his own rows, whoever else was in the batch; that a request which makes no sense is told so by a
status of the four hundreds; and that requests did become batches. Clients are threads with a
connection each. Ends with status 1 when an answer is wrong."""

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

sys.path.insert(0, str(Path(__file__).parent))  # where it is imported from elsewhere
from asgi_app import FEATURES, LARGEST_BODY, LARGEST_REQUEST, classifier

GOOD = [0.0] * FEATURES
# What callers send by mistake: method, path, body, and the status that says so.
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
    """What clients were told: answers that fit, answers that do not, statuses of the four hundreds
    for what deserved one, and how many calls the server made of the rows."""

    answered: int
    refused: int
    wrong: tuple[str, ...]
    rows: int
    calls: int
    seconds: float


def load(url: str, requests: int, clients: int = 8, seed: int = 0, bad: int = 10) -> Outcome:
    """Sends them, one of ``bad`` on purpose wrong, and compares."""
    draw = random.Random(seed)
    values = torch.Generator().manual_seed(seed)
    work: list[tuple[str, str, bytes, int | torch.Tensor]] = []
    for number in range(requests):
        if number % bad == bad - 1:
            work.append(BAD[(number // bad) % len(BAD)])
        else:
            rows = torch.randn(draw.randint(1, LARGEST_REQUEST), FEATURES, generator=values)
            body = json.dumps({"features": rows.tolist()}).encode()
            work.append(("POST", "/predict", body, rows))
    model = classifier()

    def client(mine: Sequence[tuple[str, str, bytes, int | torch.Tensor]]) -> list[str | None]:
        ask, said = _connection(url), []
        with torch.no_grad():
            for method, path, body, expected in mine:
                status, answer = ask(method, path, body)
                if isinstance(expected, int):
                    fits = status == expected and bool(answer.get("error"))
                else:
                    fits = status == 200 and _equal(answer["probabilities"], model(expected))
                said.append(None if fits else f"{method} {path} {body[:80]!r}: {status} {answer}")
        return said

    before, started = _connection(url)("GET", "/health", b"")[1], time.monotonic()
    with ThreadPoolExecutor(clients) as pool:
        told = list(pool.map(client, [work[first::clients] for first in range(clients)]))
    seconds = time.monotonic() - started
    after = _connection(url)("GET", "/health", b"")[1]
    wrong = tuple(each for said in told for each in said if each is not None)
    refused = sum(isinstance(expected, int) for *_, expected in work)
    rows, calls = (after[name] - before[name] for name in ("rows", "calls"))
    return Outcome(len(work) - refused, refused, wrong, rows, calls, seconds)


def _equal(found: object, expected: torch.Tensor) -> bool:
    got = torch.tensor(found)
    return got.shape == expected.shape and torch.allclose(got, expected, rtol=1e-5, atol=1e-6)


def _connection(url: str) -> Callable[[str, str, bytes], tuple[int, dict]]:
    """A function that sends a request over a connection that stays open."""
    address = urlsplit(url)
    assert address.hostname is not None
    kept = http.client.HTTPConnection(address.hostname, address.port, timeout=60)

    def ask(method: str, path: str, body: bytes) -> tuple[int, dict]:
        kept.request(method, path, body)
        response = kept.getresponse()
        return response.status, json.loads(response.read())

    return ask


@contextlib.contextmanager
def server(engine: str) -> Iterator[str]:
    """A process of asgi_app.py, ready; its address."""
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
    """Asks for the health until there is an answer; an exported model and a warm session take
    seconds, a compiled one more."""
    for _ in range(1200):
        with contextlib.suppress(OSError):
            if _connection(url)("GET", "/health", b"")[0] == 200:
                return
        if process.poll() is not None:
            raise RuntimeError(f"the server ended with {process.returncode}")
        time.sleep(0.1)
    raise TimeoutError("the server is not ready after two minutes")


def main(arguments: Sequence[str] | None = None) -> int:
    """Prints what was found; 0 when no answer is wrong."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n\n")[0])
    parser.add_argument("--url", help="of a server that runs; without it one is started")
    parser.add_argument("--engine", choices=("exported", "compiled"), default="exported")
    parser.add_argument("--requests", type=int, default=500)
    parser.add_argument("--clients", type=int, default=8)
    asked = parser.parse_args(arguments)
    torch.set_num_threads(1)
    running = contextlib.nullcontext(asked.url) if asked.url else server(asked.engine)
    with running as url:
        found = load(url, asked.requests, asked.clients)
    print(f"{found.answered} requests answered, {found.refused} refused as they deserve")
    print(f"{found.rows} rows in {found.calls} calls of the model")
    print(f"{(found.answered + found.refused) / found.seconds:.0f} requests a second")
    print(f"wrong answers: {len(found.wrong)}", *found.wrong[:10], sep="\n  ")
    return int(bool(found.wrong))


if __name__ == "__main__":
    sys.exit(main())

"""A session on an accelerator, which shares memory and streams with torch. On the CPU nothing
here runs at call time."""

from __future__ import annotations

import functools
from collections.abc import Mapping, Sequence
from typing import Any

import torch

from ortable.compat.providers import CUDA, check_providers

from .providers import SERVES


def session_providers(providers: Sequence[Any], device: str) -> tuple[list[Any], Any]:
    """The providers of a new session, told on which stream of `device` to run, and that stream of
    torch's; None for a graph of the CPU.

    It is torch's current one.  The default stream cannot be handed over: ONNX Runtime takes its
    handle, 0, for none given.  One of torch's pool stands for it, the same for all sessions.
    `user_compute_stream` in the user's options is kept.

    :raises ProviderError: a provider is missing
    """
    check_providers(providers)
    if device == "cpu":
        return list(providers), None
    stream = None
    result: list[Any] = []
    for given in providers:
        name, settings = (given, {}) if isinstance(given, str) else given
        if name in SERVES["cuda"]:
            stream = stream or _home_stream(settings, device)
            settings = {**settings, "user_compute_stream": str(stream.cuda_stream)}
        if name == CUDA:
            # products of float32 are rounded where torch may round its own, which ONNX Runtime does
            # unless told otherwise
            tf32 = torch.backends.cuda.matmul.fp32_precision == "tf32"
            settings = {"use_tf32": "1" if tf32 else "0", **settings}
        result.append((name, dict(settings)) if settings else name)
    return result, stream


def _home_stream(settings: Mapping[str, Any], device: str) -> Any:
    given = int(settings.get("user_compute_stream", 0))
    if given:
        return torch.cuda.ExternalStream(given, device=device)
    current = torch.cuda.current_stream(device)
    return current if current.cuda_stream else _own_stream(device)


@functools.cache
def _own_stream(device: str) -> Any:
    return torch.cuda.Stream(device)


class DeviceRun:
    """Runs a session on its stream, in order with the streams of torch that call it.

    Results are where the graph promises them.  The session waits for the stream that calls, which
    has written the arguments, and for every stream that called before: those may still read results
    whose memory ONNX Runtime has got back, and it reuses memory in the order of its own stream.
    The stream that calls waits for the session.  Where it is the session's own, nothing waits.

    The host waits for each run.  Run option `disable_synchronize_execution_providers` lets it go
    on, but ONNX Runtime 1.31 then keeps the pinned memory of kernels that hand tables of pointers
    to the device (Split, products with vectors) until the session is destroyed, where processes
    aborted.
    """

    def __init__(self, session: Any, stream: Any, devices: Sequence[str]) -> None:
        from ortable.compat.onnxruntime import bound_session, capi, device

        self.capi = capi
        self.bound_session = bound_session
        self.session = session
        self.stream = stream
        self.devices = [device(each) for each in devices]
        self._callers: dict[int, Any] = {}  # streams other than the session's own, by handle

    def __call__(self, feeds: Mapping[str, Any], names: Sequence[str], run_options: Any) -> Any:
        current = torch.cuda.current_stream(self.stream.device)
        own = current.cuda_stream == self.stream.cuda_stream
        if not own:
            self._callers.setdefault(current.cuda_stream, current)
        for caller in list(self._callers.values()):
            self.stream.wait_stream(caller)
        fetched = self._run(feeds, names, run_options)
        if not own:
            current.wait_stream(self.stream)
        return fetched

    def _run(self, feeds: Mapping[str, Any], names: Sequence[str], run_options: Any) -> Any:
        values = self.capi.OrtValueVector()
        values.reserve(len(feeds))
        for value in feeds.values():
            values.push_back(value)
        fetched = self.capi.OrtValueVector()
        self.bound_session(self.session).run_with_ortvaluevector(
            run_options, list(feeds), values, names, fetched, self.devices
        )
        return fetched

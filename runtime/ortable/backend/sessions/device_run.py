"""Run a session on an accelerator that shares memory and streams with torch.

CPU graphs do not use this module in their calls.
"""

from __future__ import annotations

import functools
from collections.abc import Mapping, Sequence
from typing import Any

import torch

from ortable.compat.providers import CUDA, check_providers

from .providers import PROVIDERS_BY_DEVICE


def session_providers(providers: Sequence[Any], device: str) -> tuple[list[Any], Any]:
    """Return the providers of a new session, with a stream in their options, and the stream.

    The stream is `user_compute_stream` of the user's options, otherwise torch's current stream; it
    is None for a CPU graph. The default stream cannot be passed: ONNX Runtime takes its handle, 0,
    for no stream. A stream of torch's pool, the same for all sessions, replaces the default stream.

    Args:
        providers: the providers that run the graph.
        device: the device of the graph.

    Raises:
        ProviderError: if a provider is missing.
    """
    check_providers(providers)
    if device == "cpu":
        return list(providers), None
    stream = None
    result: list[Any] = []
    for provider in providers:
        name, settings = (provider, {}) if isinstance(provider, str) else provider
        if name in PROVIDERS_BY_DEVICE["cuda"]:
            stream = stream or _session_stream(settings, device)
            settings = {**settings, "user_compute_stream": str(stream.cuda_stream)}
        if name == CUDA:
            # ONNX Runtime uses TF32 by default: allow it only if torch does
            allows_tf32 = torch.backends.cuda.matmul.fp32_precision == "tf32"
            settings = {"use_tf32": "1" if allows_tf32 else "0", **settings}
        result.append((name, dict(settings)) if settings else name)
    return result, stream


def _session_stream(settings: Mapping[str, Any], device: str) -> Any:
    handle = int(settings.get("user_compute_stream", 0))
    if handle:
        return torch.cuda.ExternalStream(handle, device=device)
    current = torch.cuda.current_stream(device)
    return current if current.cuda_stream else _pool_stream(device)


@functools.cache
def _pool_stream(device: str) -> Any:
    return torch.cuda.Stream(device)


class DeviceRun:
    """Run a session on its stream, ordered with the calling streams of torch.

    Results are on the devices that the graph declares. The session's stream waits for the calling
    stream, which has written the arguments, and for every earlier calling stream: an earlier one
    may still read results whose memory ONNX Runtime has freed and reuses in the order of the
    session's stream. The calling stream then waits for the session's stream, unless both are the
    same.

    The host waits for each run. Run option `disable_synchronize_execution_providers` prevents that,
    but ONNX Runtime 1.31 then keeps the pinned memory of kernels that pass tables of pointers to
    the device (Split, products with vectors) until the session is destroyed, which aborted
    processes.
    """

    def __init__(self, session: Any, stream: Any, devices: Sequence[str]) -> None:
        from ortable.compat.onnxruntime import bound_session, capi, ort_device

        self.capi = capi
        self.bound_session = bound_session
        self.session = session
        self.stream = stream
        self.devices = [ort_device(name) for name in devices]
        self._callers: dict[int, Any] = {}  # calling streams by handle, without the session's

    def __call__(self, feeds: Mapping[str, Any], names: Sequence[str], run_options: Any) -> Any:
        """Run the session and order it with the calling streams."""
        current = torch.cuda.current_stream(self.stream.device)
        is_same_stream = current.cuda_stream == self.stream.cuda_stream
        if not is_same_stream:
            self._callers.setdefault(current.cuda_stream, current)
        for caller in list(self._callers.values()):
            self.stream.wait_stream(caller)
        fetched = self._run_session(feeds, names, run_options)
        if not is_same_stream:
            current.wait_stream(self.stream)
        return fetched

    def _run_session(self, feeds: Mapping[str, Any], names: Sequence[str], run_options: Any) -> Any:
        values = self.capi.OrtValueVector()
        values.reserve(len(feeds))
        for value in feeds.values():
            values.push_back(value)
        fetched = self.capi.OrtValueVector()
        self.bound_session(self.session).run_with_ortvaluevector(
            run_options, list(feeds), values, names, fetched, self.devices
        )
        return fetched

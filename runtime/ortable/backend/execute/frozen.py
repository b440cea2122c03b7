"""Make weights constants of a session: the model, the detection of changes, and the back-off."""

from __future__ import annotations

import ctypes
import functools
import operator
import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import torch
from onnx import ModelProto, TensorProto

from ortable import dtypes
from ortable.backend.roles import InputRole, InputRoleKind

from .feeds import as_bytes, feed_any, to_input_layout
from .weights import (
    WeightSet,
    WeightSignature,
    storage_of,
    versions_of,
    watch_weights,
    watched_sets,
)

# Tensors up to this size are stored in the model, where shape inference can read them.
_EMBEDDED_BYTES = 1024
# Limit of weight sets that one graph holds as constants: equal layers share a graph, and each layer
# has its own weights.
MAX_FROZEN_SETS = 256


def is_freezable(role: InputRole) -> bool:
    """Whether an argument may become a constant.

    It must be a weight of fixed sizes that the graph only reads, whose writes change its version,
    and whose type sessions accept for constants.
    """
    return (
        role.static
        and not role.untracked_writes
        and role.kind is InputRoleKind.TENSOR
        and bool(role.name)
        and not dtypes.is_complex_type(role.elem_type)
        and role.elem_type not in dtypes.FLOAT8_TYPES
        and all(isinstance(size, int) for size in role.shape or ())
    )


class BackOff:
    """Decide after how many calls with unchanged weights the weights become constants again.

    The number of calls doubles each time that constants are dropped before the faster calls have
    repaid the creation of the session, and is 4 again after constants that lived longer.
    """

    _WORTH_FACTOR = 20  # a session pays off after this multiple of its creation time
    _MAX_CALLS = 1 << 14

    def __init__(self) -> None:
        self.given_up = 0  # drops of constants in a row that came too early, but 1 after a late one
        # by weight set: the signature at the last call, and the number of unchanged calls in a row
        self._stable_calls: dict[tuple[int, ...], tuple[WeightSignature, int]] = {}

    @property
    def required_calls(self) -> int:
        """The number of unchanged calls in a row after which weights count as stable."""
        return min(2 << self.given_up, self._MAX_CALLS)

    def is_stable(self, key: tuple[int, ...], signature: WeightSignature) -> bool:
        """Record a call; return whether the weights were unchanged for `required_calls` calls."""
        last_signature, calls = self._stable_calls.get(key, (None, 0))
        if last_signature is None and len(self._stable_calls) >= MAX_FROZEN_SETS:
            self._stable_calls.clear()
        calls = calls + 1 if signature == last_signature else 0
        self._stable_calls[key] = signature, calls
        return calls >= self.required_calls

    def clear_weights(self, key: tuple[int, ...]) -> None:
        """Forget the calls of a weight set, which is about to become constant."""
        self._stable_calls.pop(key, None)

    def record_drop(self, frozen: FrozenWeights) -> None:
        """Record that a set of constants is dropped."""
        lifetime = time.perf_counter() - frozen.created
        self.given_up = (
            1 if lifetime > self._WORTH_FACTOR * frozen.cost else min(self.given_up + 1, 20)
        )


class FrozenWeights(WeightSet):
    """One set of weights, arguments at `positions`, as constants of a session.

    `call` runs the session, or, if a weight has changed, selects and runs another call. `release`
    calls `on_release` and releases the session: when a weight has changed, or when nothing else
    refers to one of the weights. `cost` is the creation time of the session in seconds.
    """

    references = 3  # in `tensors`, in `weights`, and in a global of `call`

    def __init__(
        self,
        session: Any,
        positions: Sequence[int],
        tensors: Sequence[torch.Tensor],
        seen: WeightSignature,
        cost: float,
        on_release: Callable[[FrozenWeights], None],
        windows: Sequence[memoryview] = (),
        sample: bytes = b"",
    ) -> None:
        """Watch the weights.

        Args:
            session: a session that has the weights as constants.
            positions: the positions of the weights among the arguments.
            tensors: the weights.
            seen: the signature of the weights before the session was created.
            cost: the creation time of the session in seconds.
            on_release: called when the set is released.
            windows: `sample_windows` of the weights.
            sample: the bytes of the windows before the session was created.
        """
        self.session = session
        self.windows, self.sample = tuple(windows), sample
        self.cost, self.created = cost, time.perf_counter()
        self.valid = [True]
        self.positions = tuple(positions)
        self.pointers, self.versions = seen[0], seen[1]
        self.call: Callable[[list[Any]], list[Any]] | None = None
        self.leaves_out = 0  # number of leading arguments that `call` does not take
        self.tensors = list(tensors)
        self.weights = tuple(tensors)
        # Hold the memory: another tensor at the same address would look unchanged. Hold storages
        # rather than aliases, because `torch.utils.swap_tensors` refuses tensors with an alias.
        self._memory = [tensor.untyped_storage() for tensor in tensors]
        self.storages = frozenset(map(storage_of, tensors))
        self._on_release = on_release
        watch_weights(self)

    def is_current(self, args: Sequence[Any]) -> bool:
        """Whether the constants still equal the weights among these arguments."""
        tensors = [args[i] for i in self.positions]
        return (
            self.valid[0]
            and all(map(operator.is_, tensors, self.tensors))
            and [tensor.data_ptr() for tensor in tensors] == self.pointers
            and versions_of(tensors) == self.versions
            and b"".join(self.windows) == self.sample
        )

    def check_globals(self) -> dict[str, Any]:
        """Return the globals that the generated check of the weights reads."""
        weights_by_name = {
            f"w{i}": tensor for i, tensor in zip(self.positions, self.tensors, strict=True)
        }
        return {
            "valid": self.valid,
            "weights": self.weights,
            "pointers": self.pointers,
            "versions": self.versions,
            "join": b"".join,
            "windows": self.windows,
            "sample": self.sample,
            **weights_by_name,
        }

    def invalidate(self) -> None:
        """Mark the weights as changed, so that the next call drops the constants."""
        self.valid[0] = False

    def release(self) -> None:
        """Release the session, the constants and the memory."""
        self.valid[0] = False
        self._on_release(self)
        self.call = self.session = None
        self.tensors, self._memory, self.windows, self.weights = [], [], (), ()


def count_sessions_with(weights: Sequence[torch.Tensor]) -> int:
    """Count the sessions that have the largest of these weights as a constant."""
    storage = storage_of(max(weights, key=lambda weight: weight.nbytes))
    sets = [
        weight_set
        for weight_set in watched_sets()
        if isinstance(weight_set, FrozenWeights) and storage in weight_set.storages
    ]
    return len({id(weight_set.session) for weight_set in sets if weight_set.session is not None})


@functools.cache
def _find_malloc_trim() -> Callable[[int], int] | None:
    try:
        function = ctypes.CDLL(None).malloc_trim
    except (AttributeError, OSError, TypeError):  # a C library other than glibc
        return None
    return function  # type: ignore[no-any-return]


def trim_freed_memory() -> None:
    """Return memory that was freed during the creation of a session to the system.

    glibc would keep it: about a third of the size of the weights for each session.
    """
    trim = _find_malloc_trim()
    if trim is not None:
        trim(0)


def embed_weights(
    model: ModelProto,
    weights: Mapping[str, tuple[InputRole, torch.Tensor]],
    values: bool = True,
) -> tuple[ModelProto, dict[str, Any]]:
    """Copy a model with some inputs turned into initializers.

    Args:
        model: the model.
        weights: role and tensor by name of the input.
        values: whether to create the OrtValues.

    Returns:
        The copy, and the OrtValues of the initializers whose data are not in it, by name.
    """
    result = ModelProto()
    result.CopyFrom(model)
    graph = result.graph
    inputs = [value for value in graph.input if value.name not in weights]
    del graph.input[:]
    graph.input.extend(inputs)
    constants: dict[str, Any] = {}
    for name, (role, tensor) in weights.items():
        proto = graph.initializer.add()
        host = tensor.data.cpu()  # a copy only for weights on an accelerator
        ordered = to_input_layout(role, host)
        proto.name, proto.data_type = name, int(role.elem_type or 0)
        proto.dims.extend(ordered.shape)
        size = ordered.numel() * ordered.element_size()
        if size <= _EMBEDDED_BYTES:
            proto.raw_data = _bytes_of(ordered)
            continue
        proto.data_location = TensorProto.EXTERNAL
        for key, value in (("location", name), ("offset", "0"), ("length", str(size))):
            entry = proto.external_data.add()
            entry.key, entry.value = key, value
        if values:
            constants[name] = feed_any(role, host)
    return result, constants


def _bytes_of(tensor: torch.Tensor) -> bytes:
    flat = tensor.reshape(-1)
    if flat.dtype is torch.bool:
        flat = as_bytes(flat)
    # Clone: numpy() marks memory as shared permanently, and FSDP could not free it.
    return bytes(flat.view(torch.uint8).clone().numpy().tobytes())

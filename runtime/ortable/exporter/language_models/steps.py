"""Run the graph of a decoding step in ONNX Runtime, with a cache that stays on its device.

Called by runner.py; greedy_search.py generates text with it.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import torch

from ortable.compat.onnxruntime import tensor_over
from ortable.errors import OptionError
from ortable.exporter.reporting.sessions import array_of, ort_value
from ortable.ir.schemas import TENSOR_TYPES

from .shared_cache import is_shared

_PAST, _PRESENT = "past_key_values.", "present."
_LENGTH_AXIS = 2


@dataclass(frozen=True)
class StepRunner:
    """Runs the session of a step.

    ``sessions`` are that of the prompt and that of later tokens, or one for both. ``device`` is
    that of the cache, and ``adapter`` are inputs that replace their defaults, OrtValues by name.
    """

    sessions: tuple[Any, ...]
    device: str
    adapter: Mapping[str, Any] = field(default_factory=dict)

    @cached_property
    def has_shared_cache(self) -> bool:
        """Whether a step may write its results over a cache with free places."""
        metadata = [session.get_modelmeta().custom_metadata_map for session in self.sessions]
        return all(map(is_shared, metadata))

    @cached_property
    def returns_all_logits(self) -> bool:
        """Whether a step returns the logits of all new tokens, not of the last one."""
        return self.sessions[0].get_outputs()[0].shape[1] != 1

    @cached_property
    def takes_pieces(self) -> bool:
        """Whether a step with a cache takes several tokens; one of states takes one."""
        return self.sessions[-1].get_inputs()[0].shape[1] != 1

    @property
    def vocabulary_size(self) -> int | str:
        """The number of logits of a token."""
        size: int | str = self.sessions[-1].get_outputs()[0].shape[2]
        return size

    def run_step(
        self,
        input_ids: torch.Tensor,
        attention_mask: torch.Tensor,
        cache: Mapping[str, Any] | None = None,
        overwrite: bool = False,
    ) -> tuple[torch.Tensor, dict[str, Any]]:
        """Return logits and the updated cache; ``overwrite`` writes it over ``cache``."""
        session = self.sessions[0 if cache is None else -1]
        mask = attention_mask.to(torch.int64)
        positions = (mask.cumsum(-1) - 1).clamp(min=0)
        feeds = {
            "input_ids": input_ids.to(torch.int64),
            "attention_mask": mask,
            "position_ids": positions[:, -input_ids.shape[1] :],
        }
        past = self.make_cache(len(input_ids), session=session) if cache is None else cache
        binding = session.io_binding()
        for value in session.get_inputs():
            name = value.name
            if name.startswith(_PAST):
                bound = past[name.removeprefix(_PAST)]
            else:
                bound = ort_value(array_of(feeds[name]))
            binding.bind_ortvalue_input(name, bound)
        for name, bound in self.adapter.items():
            binding.bind_ortvalue_input(name, bound)
        names = [value.name for value in session.get_outputs()]
        for name in names:
            if overwrite and name.startswith(_PRESENT):
                binding.bind_ortvalue_output(name, past[name.removeprefix(_PRESENT)])
                continue
            binding.bind_output(name, self.device if name.startswith(_PRESENT) else "cpu")
        session.run_with_iobinding(binding)
        results = dict(zip(names, binding.get_outputs(), strict=True))
        logits = tensor_over(results.pop("logits"))
        return logits, {name.removeprefix(_PRESENT): value for name, value in results.items()}

    def make_cache(self, batch: int, places: int = 0, session: Any = None) -> dict[str, Any]:
        """Return a cache with places that hold nothing yet."""
        return {
            value.name.removeprefix(_PAST): empty_value(value, batch, self.device, places)
            for value in (session or self.sessions[-1]).get_inputs()
            if value.name.startswith(_PAST)
        }


class TextCache:
    """The cache of texts that grow, and whose last tokens may be taken back.

    Args:
        runner: runs the steps.
        batch: the number of texts.
        places: the maximal length of the texts.
        recompute_length: the length after which the cache is computed anew, None for never.
    """

    def __init__(
        self, runner: StepRunner, batch: int, places: int, recompute_length: int | None = None
    ) -> None:
        self.runner, self.recompute_length = runner, recompute_length
        self.length = 0
        self.values: dict[str, Any] | None = None
        if runner.has_shared_cache:
            self.values = runner.make_cache(batch, places)

    def append_tokens(self, texts: torch.Tensor, mask: torch.Tensor) -> torch.Tensor:
        """Append the tokens of the texts that are not in the cache, and return their logits."""
        length = texts.shape[1]
        if self.recompute_length is not None and self.length <= self.recompute_length < length:
            self.truncate_texts(0)
        logits, self.values = self.runner.run_step(
            texts[:, self.length :], mask, self.values, overwrite=self.runner.has_shared_cache
        )
        self.length = length
        return logits

    def truncate_texts(self, length: int) -> None:
        """Remove the tokens from ``length`` on; places of a shared cache are free then.

        Raises OptionError if the cache does not have the keys of every token.
        """
        if length >= self.length:
            return
        if not self.runner.has_shared_cache:
            self.values = None if length == 0 else self._first_tokens(length)
        self.length = length

    def _first_tokens(self, length: int) -> dict[str, Any]:
        values: dict[str, Any] = {}
        for name, value in (self.values or {}).items():
            tokens = value.shape()[_LENGTH_AXIS]
            if tokens != self.length:
                raise OptionError(
                    f"layer {name} of the cache has {tokens} tokens of a text of {self.length}, so "
                    "wrong guesses cannot be removed from it: generate without assistant_model and "
                    "prompt_lookup_num_tokens"
                )
            values[name] = place_tensor(host_tensor(value)[:, :, :length], self.runner.device)
        return values


def empty_value(spec: Any, batch: int, device: str, places: int = 0) -> Any:
    """Return keys or values with places that hold nothing yet, for an input of a session."""
    import onnxruntime

    shape = [batch, spec.shape[1], places, spec.shape[3]]
    make_value = onnxruntime.OrtValue.ortvalue_from_shape_and_type
    return make_value(shape, TENSOR_TYPES[spec.type], device)


def host_tensor(value: Any) -> torch.Tensor:
    """Return an OrtValue as a tensor of the CPU."""
    is_on_cpu = value.device_name() == "cpu"
    return tensor_over(value) if is_on_cpu else torch.from_numpy(value.numpy())


def place_tensor(tensor: torch.Tensor, device: str) -> Any:
    """Return the tensor as an OrtValue on a device."""
    import onnxruntime

    if device == "cpu":
        return ort_value(array_of(tensor))
    return onnxruntime.OrtValue.ortvalue_from_numpy(array_of(tensor), device, 0)

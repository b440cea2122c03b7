"""Export a model with states as a graph of the prompt and one of a token.

Layers of Mamba and its relatives keep a window of a convolution and the state of a recurrence in
place of keys and values; hybrids also have layers of attention. The prompt's graph computes the
states by the model's scan over the whole prompt, and that of a token updates them. Called by
export.py; runner.py runs the graphs as it runs those of other models in two graphs.
"""

from __future__ import annotations

import functools
import inspect
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import torch

from ortable.builder import LargeModel
from ortable.compat.scoped_patch import restore_on_exit
from ortable.errors import ExportError, OrtableError
from ortable.exporter.frontend.export_request import ExportOptions
from ortable.exporter.language_models.decoder import (
    BATCH,
    LOGITS_TO_KEEP,
    PAST,
    SEQUENCE,
    check_model,
)
from ortable.exporter.language_models.model_folder import (
    PAST_MODEL,
    PROMPT_MODEL,
    externalize_weights,
)
from ortable.exporter.to_onnx import export

_TOTAL = f"{PAST} + 1"
# Sizes of the example: torch specializes on 0 and 1. The exported graphs also support 1.
_BATCH, _SEQUENCE, _PAST = 2, 5, 4
_CACHES = ("past_key_values", "cache_params", "cache")  # names among the arguments of forward
_MASK, _POSITIONS = "attention_mask", "position_ids"
# Functions of modules of transformers that scan in chunks: the padding of Mamba 2, and the gated
# delta rule, which is also there token by token.
_PAD = "pad_tensor_by_size"
_CHUNKED_RULE, _RULE = "torch_chunk_gated_delta_rule", "torch_recurrent_gated_delta_rule"


@dataclass(frozen=True)
class CacheTensor:
    """A tensor of a layer's cache: its kind, its sizes after the batch, and its dtype.

    The size None is the number of tokens of the past.
    """

    kind: str
    sizes: tuple[int | None, ...]
    dtype: torch.dtype

    def make_zeros(self, batch: int, past: int, device: torch.device) -> torch.Tensor:
        """Return zeros for a number of texts and of tokens."""
        sizes = [past if size is None else size for size in self.sizes]
        return torch.zeros(batch, *sizes, dtype=self.dtype, device=device)

    def dynamic_sizes(self) -> dict[int, str]:
        """Return the names of the dynamic dimensions."""
        past = {1 + axis: PAST for axis, size in enumerate(self.sizes) if size is None}
        return {0: BATCH, **past}


@dataclass(frozen=True)
class StateSpace:
    """A model with states, the tensors of its layers, and the name of the cache of forward."""

    model: Any
    layers: tuple[tuple[CacheTensor, ...], ...]
    cache: str
    last_logits: bool

    @property
    def has_attention(self) -> bool:
        """Whether a layer has keys and values, which a mask is for."""
        return any(None in tensor.sizes for layer in self.layers for tensor in layer)

    def text_inputs(self, with_past: bool) -> list[str]:
        """Return the names of the inputs that are not cache tensors."""
        parameters = inspect.signature(self.model.forward).parameters
        names = ["input_ids"]
        if _MASK in parameters and (self.has_attention or not with_past):
            names.append(_MASK)
        return [*names, *([_POSITIONS] if _POSITIONS in parameters else [])]

    def cache_names(self, prefix: str) -> list[str]:
        """Return the names of the cache tensors: ``<prefix>.0.conv_state``, ..."""
        return [
            f"{prefix}.{number}.{tensor.kind}"
            for number, layer in enumerate(self.layers)
            for tensor in layer
        ]


def has_states(model: Any) -> bool:
    """Return whether the configuration of a model has layers with states."""
    try:
        from transformers import DynamicCache

        cache = DynamicCache(config=model.config)
    except (ImportError, AttributeError, TypeError, KeyError, ValueError):
        return False
    return any(hasattr(layer, "conv_states") for layer in cache.layers)


@functools.cache
def _functional_class(layer_class: Any) -> Any:
    """Return a class of layers with states that writes no tensor in place, for any prompt."""

    class FunctionalLayer(layer_class):  # type: ignore[misc]
        def update_conv_state(
            self,
            conv_states: torch.Tensor,
            state_idx: int = 0,
            conv_kernel_size: int | None = None,
            **kwargs: Any,
        ) -> torch.Tensor:
            """Return the inputs of the convolution after those before them, zeros for a prompt."""
            if conv_kernel_size is None:
                raise ExportError(
                    f"a {layer_class.__name__} gets states of a convolution of unknown width: "
                    "export the model with to_onnx"
                )
            past = self.conv_states[state_idx]
            if past is None:
                sizes = (*conv_states.shape[:-1], conv_kernel_size)
                past = torch.zeros(sizes, dtype=conv_states.dtype, device=conv_states.device)
            inputs = torch.cat([past, conv_states], dim=-1)
            self.conv_states[state_idx] = inputs[..., -conv_kernel_size:]
            self.has_previous_state[state_idx] = True
            return inputs

        def update_recurrent_state(
            self, recurrent_states: torch.Tensor, state_idx: int = 0, **kwargs: Any
        ) -> torch.Tensor:
            self.recurrent_states[state_idx] = recurrent_states
            return recurrent_states

    return FunctionalLayer


def _make_cache(parts: StateSpace, tensors: Sequence[torch.Tensor]) -> Any:
    """Return the model's cache with these tensors, in the order of the names; without for none."""
    from transformers import DynamicCache
    from transformers.cache_utils import DynamicLayer, DynamicSlidingWindowLayer

    cache, remaining = DynamicCache(config=parts.model.config), iter(tensors)
    for number, layer in enumerate(cache.layers):
        if type(layer) is DynamicSlidingWindowLayer:  # the mask alone implements the window
            cache.layers[number] = DynamicLayer()
    for layer, specs in zip(cache.layers, parts.layers, strict=True):
        if hasattr(layer, "conv_states"):
            layer_class: Any = type(layer)
            layer.__class__ = _functional_class(layer_class)
        if not tensors:
            continue
        values = {spec.kind: next(remaining) for spec in specs}
        if "key" in values:
            layer.update(values["key"], values["value"])
        for states, initialized, kind in _states_of(layer):
            if kind in values:
                # steps write into their states
                states[0], initialized[0] = values[kind].clone(), True
                layer.has_previous_state[0] = True
    return cache


def _states_of(layer: Any) -> list[tuple[Any, Any, str]]:
    if not hasattr(layer, "conv_states"):
        return []
    return [
        (layer.conv_states, layer.is_conv_states_initialized, "conv_state"),
        (layer.recurrent_states, layer.is_recurrent_states_initialized, "recurrent_state"),
    ]


def _layer_values(layer: Any) -> dict[str, torch.Tensor]:
    """Return the tensors of a layer by kind."""
    values: dict[str, torch.Tensor] = {}
    if getattr(layer, "keys", None) is not None:
        values.update(key=layer.keys, value=layer.values)
    for states, _, kind in _states_of(layer):
        if states[0] is not None:
            values[kind] = states[0]
    return values


class StateGraph(torch.nn.Module):
    """A prompt, without ``past``, or a token with the tensors of the cache in their order."""

    def __init__(self, parts: StateSpace) -> None:
        super().__init__()
        self.model, self.parts = parts.model, parts

    def forward(
        self,
        input_ids: torch.Tensor,
        attention_mask: torch.Tensor | None = None,
        position_ids: torch.Tensor | None = None,
        past: list[torch.Tensor] | None = None,
    ) -> tuple[torch.Tensor, list[torch.Tensor]]:
        """Return the logits and the tensors of the cache."""
        texts = {_MASK: attention_mask, _POSITIONS: position_ids}
        cache = _make_cache(self.parts, past or [])
        output = self.model(
            input_ids=input_ids,
            use_cache=True,
            **{name: value for name, value in texts.items() if value is not None},
            **{self.parts.cache: cache},
            **({LOGITS_TO_KEEP: 1} if self.parts.last_logits else {}),
        )
        layers = getattr(output, self.parts.cache).layers
        return output.logits, [
            tensor for layer in layers for tensor in _layer_values(layer).values()
        ]


def make_state_space(model: Any, last_logits: bool) -> StateSpace:
    """Return the description of a model with states; runs it on a few tokens.

    Raises InputError if ``model`` is in training mode or has no weights, and ExportError if its
    cache has tensors of other kinds.
    """
    check_model(model)
    name, parameters = type(model).__name__, inspect.signature(model.forward).parameters
    cache_argument = next((name for name in _CACHES if name in parameters), None)
    if cache_argument is None:
        raise ExportError(f"{name}.forward takes no cache: export the model with to_onnx")
    tokens = torch.zeros(1, _SEQUENCE, dtype=torch.int64, device=model.device)
    with torch.no_grad():
        output: Any = model(input_ids=tokens, use_cache=True)
    cache: Any = getattr(output, cache_argument, None)
    if type(cache).__name__ != "DynamicCache":
        raise ExportError(
            f"the cache of {name} is a {type(cache).__name__}, not a DynamicCache of states, keys "
            "and values: export the model with to_onnx"
        )
    layers = []
    for number, layer in enumerate(cache.layers):
        values = _layer_values(layer)
        if getattr(layer, "number_of_states", 1) != 1 or (
            not values and type(layer).__name__ != "DummyLayer"
        ):
            raise ExportError(
                f"layer {number} of the cache of {name} is a {type(layer).__name__} with several "
                "states or tensors of another kind: export the model with to_onnx"
            )
        layers.append(
            tuple(
                CacheTensor(kind, _tensor_sizes(kind, value), value.dtype)
                for kind, value in values.items()
            )
        )
    is_last = last_logits and LOGITS_TO_KEEP in parameters
    return StateSpace(model, tuple(layers), cache_argument, is_last)


def _tensor_sizes(kind: str, value: torch.Tensor) -> tuple[int | None, ...]:
    sizes: list[int | None] = list(value.shape[1:])
    if kind in ("key", "value"):
        sizes[1] = None
    return tuple(sizes)


def export_state_space(parts: StateSpace, keywords: Mapping[str, Any]) -> dict[str, LargeModel]:
    """Return the graphs of a prompt and of a token by file name; ``keywords`` are of `export`.

    A scan that is a loop of Python becomes a `Scan`. The graph of the prompt is compared with the
    model at other lengths, so that conditions on the length need no warning.

    Raises ExportError if the results differ.
    """
    models = {}
    # torch.export reads chunks; loops over tokens need another strategy
    has_chunks = bool(_modules_with(parts.model, _PAD))
    default = ExportOptions(guards="ignore", fallback=not has_chunks)
    options = {**keywords, "export_options": keywords.get("export_options") or default}
    for file, with_past in ((PROMPT_MODEL, False), (PAST_MODEL, True)):
        graph = StateGraph(parts).eval()
        call, shapes = _example_call(parts, with_past)
        past = parts.cache_names("past_key_values") if with_past else []
        with _scan_without_branches(parts.model):
            program = export(
                graph,
                kwargs=call,
                dynamic_shapes=shapes,
                input_names=[*parts.text_inputs(with_past), *past],
                output_names=["logits", *parts.cache_names("present")],
                **options,
            )
        if not with_past and keywords.get("weights") is None:
            _check_prompts(parts, graph, program)
        models[file] = externalize_weights(program.model)
    return models


def _modules_with(model: torch.nn.Module, function: str) -> list[Any]:
    """Return the Python modules of the layers of a model that have a function of this name."""
    names = sorted({type(module).__module__ for module in model.modules()})
    modules = [sys.modules[name] for name in names]
    return [module for module in modules if hasattr(module, function)]


@contextmanager
def _scan_without_branches(model: torch.nn.Module) -> Iterator[None]:
    """Replace functions of the model that scan in chunks by ones that are exported for any prompt.

    Chunks are padded by a concatenation, since torch's padding branches on a padding of 0. The
    gated delta rule goes token by token, as ONNX Runtime's LinearAttention does: in chunks it
    branches, too, and unrolls the inverse of a matrix.
    """
    padded, chunked = _modules_with(model, _PAD), _modules_with(model, _CHUNKED_RULE)
    replacements = [(module, _PAD, _pad_tokens) for module in padded]
    replacements += [(module, _CHUNKED_RULE, getattr(module, _RULE)) for module in chunked]
    originals = [(module, name, getattr(module, name)) for module, name, _ in replacements]

    def restore_functions() -> None:
        for module, name, function in originals:
            setattr(module, name, function)

    with restore_on_exit(restore_functions):
        for module, name, function in replacements:
            setattr(module, name, function)
        yield


def _pad_tokens(tensor: torch.Tensor, count: int) -> torch.Tensor:
    """Append ``count`` zeros to the second dimension."""
    zeros = tensor.new_zeros((tensor.shape[0], count, *tensor.shape[2:]))
    return torch.cat([tensor, zeros], 1)


def _chunk_size(config: Any) -> int | None:
    """Return the number of tokens that a model scans at once, None if it does not say."""
    sizes = [getattr(config, name, None) for name in ("chunk_size", "mamba_chunk_size")]
    return next((size for size in sizes if isinstance(size, int)), None)


def _check_prompts(parts: StateSpace, graph: StateGraph, program: Any) -> None:
    """Raise ExportError if the exported prompt differs from eager at one of several lengths."""
    name, config = type(parts.model).__name__, parts.model.config
    generator, chunk = torch.Generator().manual_seed(0), _chunk_size(config) or _SEQUENCE
    for length in sorted({1, 2, chunk - 1, chunk, chunk + 1} - {0}):
        tokens = (
            torch.randint(100, (1, length), generator=generator)
            % config.get_text_config().vocab_size
        )
        texts = {
            "input_ids": tokens,
            _MASK: torch.ones_like(tokens),
            _POSITIONS: torch.arange(length)[None],
        }
        names = parts.text_inputs(False)
        call = {name: texts[name].to(parts.model.device) for name in names}
        with torch.no_grad():
            logits, _ = graph(**call)
            try:
                result, _ = program(**call)
            except OrtableError as error:
                raise ExportError(
                    f"the exported prompt of {name} does not run at {length} tokens: export the "
                    "model with to_onnx, with ExportOptions(loops=True)"
                ) from error
        tolerance = (1e-3 if logits.dtype == torch.float32 else 5e-2) * float(logits.abs().max())
        if not torch.allclose(result.to(logits), logits, rtol=0, atol=tolerance, equal_nan=True):
            raise ExportError(
                f"the exported prompt of {name} differs from the model at {length} tokens: export "
                "the model with to_onnx, with ExportOptions(loops=True)"
            )


def _example_call(parts: StateSpace, with_past: bool) -> tuple[dict[str, Any], dict[str, Any]]:
    """Return the keywords of a call of StateGraph, and their dynamic dimensions."""
    device = parts.model.device
    # two chunks, since torch takes one for a constant
    prompt_length = max(_SEQUENCE, (_chunk_size(parts.model.config) or 0) + 1)
    past, count = (_PAST, 1) if with_past else (0, prompt_length)
    tokens = torch.zeros(_BATCH, count, dtype=torch.int64, device=device)
    mask = torch.ones(_BATCH, past + count, dtype=torch.int64, device=device)
    positions = torch.arange(past, past + count, device=device).repeat(_BATCH, 1)
    values: dict[str, Any] = {"input_ids": tokens, _MASK: mask, _POSITIONS: positions}
    sizes = {0: BATCH} if with_past else {0: BATCH, 1: SEQUENCE}
    shapes: dict[str, Any] = {
        "input_ids": sizes,
        _MASK: {0: BATCH, 1: _TOTAL} if with_past else sizes,
        _POSITIONS: sizes,
    }
    names = parts.text_inputs(with_past)
    call = {name: values[name] for name in names}
    dynamic = {name: shapes[name] for name in names}
    if with_past:
        tensors = [tensor for layer in parts.layers for tensor in layer]
        call["past"] = [tensor.make_zeros(_BATCH, past, device) for tensor in tensors]
        dynamic["past"] = [tensor.dynamic_sizes() for tensor in tensors]
    return call, dynamic

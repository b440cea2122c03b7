"""Describe one decoding step of a causal language model: cache, inputs, outputs and example.

Called by export.py and loop.py.
"""

from __future__ import annotations

import inspect
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import torch

from ortable.errors import ExportError, InputError

# Names of dimensions, as in optimum.
BATCH, SEQUENCE, PAST = "batch_size", "sequence_length", "past_sequence_length"
TOTAL = f"{PAST} + {SEQUENCE}"
# Sizes of the example, for which torch also exports sizes of 0 and 1. One text: ONNX Runtime's
# attention takes several tokens of several texts only without a past.
_BATCH, _SEQUENCE, _PAST = 1, 3, 4
_FIRST_TOKEN = 2  # the embedding of a padding token, often 0 or 1, is zero
_RANK = 2  # of the adapters of the example
LOGITS_TO_KEEP = "logits_to_keep"  # argument of forward: how many of the last tokens
# Inputs of models that read images.
EMBEDDINGS, IMAGE_FEATURES, TOKEN_TYPES = "inputs_embeds", "image_features", "token_type_ids"
# Attributes of transformers' configurations that hold the maximal text length.
CONTEXT_LENGTH_KEYS = ("max_position_embeddings", "n_positions", "max_seq_len", "seq_length")
# Architectures whose `generate` recomputes the cache where LongRoPE changes its frequencies.
_RECOMPUTING_MODELS = ("phi3", "phimoe")


@dataclass(frozen=True)
class CacheLayer:
    """Properties of a cache layer, whose tensors are (batch, heads, past, width)."""

    heads: int
    key_width: int
    value_width: int
    dtype: torch.dtype


@dataclass(frozen=True)
class AdaptedLayer:
    """A linear layer with inputs for an adapter, A (in, rank) and B (rank, out)."""

    name: str
    in_features: int
    out_features: int


@dataclass(frozen=True)
class Decoder:
    """A model and the signature of its exported step.

    ``takes_position_ids`` tells whether forward takes position_ids. ``cache`` is the name of the
    cache among the arguments and results of forward; transformers 5.24 renamed it.
    ``has_quantized_cache`` tells whether the cache is a list of quantized tensors, and
    ``last_logits`` whether the step returns the logits of the last token only. ``adapted_layers``
    are those with inputs for adapters. A step with an ``embedding_width`` takes embeddings of that
    width instead of tokens. ``position_axes`` is the number of positions of a token if it has
    several, and ``takes_token_types`` tells whether the step also takes the types of all tokens.
    """

    model: Any
    layers: tuple[CacheLayer, ...]
    takes_position_ids: bool
    cache: str
    has_quantized_cache: bool = False
    last_logits: bool = False
    adapted_layers: tuple[AdaptedLayer, ...] = ()
    embedding_width: int | None = None
    position_axes: int | None = None
    takes_token_types: bool = False

    @property
    def name(self) -> str:
        """The class of the model for messages, without the modules around it."""
        return str(getattr(self.model, "base_name", type(self.model).__name__))

    def text_inputs(self) -> list[str]:
        """Return the names of the inputs that are not cache tensors."""
        return [
            "input_ids" if self.embedding_width is None else EMBEDDINGS,
            "attention_mask",
            *(["position_ids"] if self.takes_position_ids else []),
            *([TOKEN_TYPES] if self.takes_token_types else []),
        ]

    def cache_names(self, prefix: str) -> list[str]:
        """Return the names of the cache tensors: ``<prefix>.0.key``, ``<prefix>.0.value``, ..."""
        numbers = range(len(self.layers))
        return [f"{prefix}.{number}.{kind}" for number in numbers for kind in ("key", "value")]

    def example_call(self, with_past: bool = True) -> dict[str, Any]:
        """Return the keyword arguments of an example call of the model."""
        ids = torch.arange(_FIRST_TOKEN, _FIRST_TOKEN + _SEQUENCE).repeat(_BATCH, 1)
        past = _PAST if with_past else 0
        return self._make_call(ids, past, self.example_cache(with_past), _RANK)

    def prompt_call(self, ids: torch.Tensor) -> dict[str, Any]:
        """Return the keyword arguments of a call with a cache without tokens, and no adapter.

        Args:
            ids: the tokens, [batch, length].
        """
        return self._make_call(ids, 0, self.example_cache(batch=len(ids), past=0))

    def _make_call(self, ids: torch.Tensor, past: int, cache: Any, rank: int = 0) -> dict[str, Any]:
        device, (batch, length) = self.model.device, ids.shape
        mask = torch.ones(batch, past + length, dtype=torch.int64, device=device)
        text = {
            "input_ids": ids.to(device),
            "attention_mask": mask,
            "position_ids": torch.arange(past, past + length, device=device).repeat(batch, 1),
            TOKEN_TYPES: torch.zeros_like(mask),
        }
        if self.position_axes is not None:
            text["position_ids"] = text["position_ids"].repeat(self.position_axes, 1, 1)
        if self.embedding_width is not None:
            shape, dtype = (batch, length, self.embedding_width), self.model.dtype
            values = torch.randn(shape, generator=torch.Generator().manual_seed(0))
            text[EMBEDDINGS] = values.to(device, dtype)
        return {
            **{name: text[name] for name in self.text_inputs()},
            self.cache: cache,
            "use_cache": True,
            **({LOGITS_TO_KEEP: 1} if self.last_logits else {}),
            **({"adapters": self._make_adapter(rank)} if self.adapted_layers else {}),
        }

    def _make_adapter(self, rank: int) -> list[torch.Tensor]:
        """Return random matrices that are too small to change a model much."""
        generator = torch.Generator().manual_seed(0)
        shapes = [
            shape
            for layer in self.adapted_layers
            for shape in ((layer.in_features, rank), (rank, layer.out_features))
        ]
        values = [torch.randn(shape, generator=generator) / max(shape) for shape in shapes]
        return [value.to(self.model.device) for value in values]

    def example_cache(self, with_past: bool = True, batch: int = _BATCH, past: int = _PAST) -> Any:
        """Return a cache of zeros. Layers have one length: masks implement sliding windows."""
        from transformers import DynamicCache

        zeros = list(self._zero_cache(batch, past)) if with_past else []
        if self.has_quantized_cache:
            return [tensor for pair in zeros for tensor in pair]
        return DynamicCache(zeros or None)

    def _zero_cache(self, batch: int, past: int) -> Iterator[tuple[torch.Tensor, torch.Tensor]]:
        for layer in self.layers:
            keys, values = (
                torch.zeros(
                    (batch, layer.heads, past, width), dtype=layer.dtype, device=self.model.device
                )
                for width in (layer.key_width, layer.value_width)
            )
            yield keys, values

    def dynamic_shapes(self, with_past: bool = True) -> dict[str, Any]:
        """Return the dynamic dimensions of the example call."""
        tokens = {0: BATCH, 1: SEQUENCE}
        all_tokens = {0: BATCH, 1: TOTAL if with_past else SEQUENCE}
        text = {
            "input_ids": tokens,
            EMBEDDINGS: tokens,
            "attention_mask": all_tokens,
            "position_ids": tokens if self.position_axes is None else {1: BATCH, 2: SEQUENCE},
            TOKEN_TYPES: all_tokens,
        }
        return {
            **{name: text[name] for name in self.text_inputs()},
            self.cache: self._cache_shapes() if with_past else None,
            "use_cache": None,
            **({LOGITS_TO_KEEP: None} if self.last_logits else {}),
            **({"adapters": self._adapter_shapes()} if self.adapted_layers else {}),
        }

    def _adapter_shapes(self) -> list[dict[int, str]]:
        """Return a rank for each layer: ONNX Runtime reuses memory of sizes of one name."""
        names = [f"rank_{number}" for number in range(len(self.adapted_layers))]
        return [shape for name in names for shape in ({1: name}, {0: name})]

    def _cache_shapes(self) -> Any:
        sizes = {0: BATCH, 2: PAST}
        return [sizes] * (2 * len(self.layers)) if self.has_quantized_cache else sizes


def make_decoder(model: Any, last_logits: bool = False) -> Decoder:
    """Return the decoder of a causal language model of transformers; runs the model on two tokens.

    ``last_logits`` leaves out the logits of other tokens than the last, if forward can.

    Raises InputError if ``model`` is not such a model, is in training mode or has no weights, and
    ExportError if the cache of ``model`` is not keys and values of each layer.
    """
    check_model(model)
    parameters = inspect.signature(model.forward).parameters
    cache_argument = "cache" if "cache" in parameters else "past_key_values"
    missing = [n for n in ("input_ids", "attention_mask", cache_argument) if n not in parameters]
    if missing:
        raise ExportError(
            f"{type(model).__name__}.forward does not take {', '.join(missing)}: a decoding step "
            "takes the new tokens, the mask of all tokens, and the cache. Export the model with "
            "to_onnx"
        )
    with torch.no_grad():
        tokens = torch.zeros(1, 2, dtype=torch.int64, device=model.device)
        output = model(input_ids=tokens, attention_mask=torch.ones_like(tokens), use_cache=True)
    layers = cache_layers(model, getattr(output, cache_argument, None))
    return Decoder(
        model,
        layers,
        "position_ids" in parameters,
        cache_argument,
        last_logits=last_logits and LOGITS_TO_KEEP in parameters,
    )


def max_text_length(config: Any) -> int | None:
    """Return the maximal text length in tokens that a configuration gives, None if unknown."""
    lengths = (getattr(config, name, None) for name in CONTEXT_LENGTH_KEYS)
    return next((length for length in lengths if isinstance(length, int)), None)


def cache_recompute_length(config: Mapping[str, Any]) -> int | None:
    """Return the length after which ``generate`` recomputes the whole cache.

    ``config`` is the content of config.json. The result is None for most models, which never
    recompute it.
    """
    rope = config.get("rope_parameters") or {}
    rope_type = rope.get("rope_type") if isinstance(rope, Mapping) else None
    if rope_type != "longrope" or config.get("model_type") not in _RECOMPUTING_MODELS:
        return None
    length = config.get("original_max_position_embeddings")
    return length if isinstance(length, int) else None


def check_model(model: Any) -> None:
    """Raise InputError if a model generates no text, is in training mode or has no weights."""
    name = type(model).__name__
    can_generate = getattr(model, "can_generate", None)
    if not isinstance(model, torch.nn.Module) or can_generate is None or not can_generate():
        raise InputError(
            "export_language_model takes a model of transformers that generates text, such as "
            f"AutoModelForCausalLM makes, not {name}; to_onnx exports any module"
        )
    if model.training:
        raise InputError(f"{name} is in training mode and would drop out values: call model.eval()")
    if any(parameter.is_meta for parameter in model.parameters()):
        raise InputError(f"{name} has parameters without data (device 'meta'): load its weights")


def cache_layers(model: Any, cache: Any) -> tuple[CacheLayer, ...]:
    """Return the layers of a DynamicCache; raise ExportError for other caches and layers."""
    from transformers.cache_utils import DynamicCache, DynamicLayer, DynamicSlidingWindowLayer

    name = type(model).__name__
    if cache is None:
        raise ExportError(
            f"{name} returns no cache, so there is no decoding step to export: set "
            "is_decoder=True if its configuration has that, or export the model with to_onnx"
        )
    if type(cache) is not DynamicCache:
        raise ExportError(
            f"the cache of {name} is a {type(cache).__name__}, not a DynamicCache of keys and "
            "values: onnxruntime-genai has no names for its tensors. Export the model with to_onnx"
        )
    layers: list[Any] = list(cache.layers)
    for number, layer in enumerate(layers):
        layer_class = type(layer)
        if layer_class not in (DynamicLayer, DynamicSlidingWindowLayer) or layer.keys is None:
            raise ExportError(
                f"layer {number} of the cache of {name} is a {layer_class.__name__} without keys "
                "and values of its own (a state, or those of another layer): onnxruntime-genai has "
                "no names for it. Export the model with to_onnx"
            )
    return tuple(
        CacheLayer(
            layer.keys.shape[1], layer.keys.shape[3], layer.values.shape[3], layer.keys.dtype
        )
        for layer in layers
    )

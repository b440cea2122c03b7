"""Run the graphs of a causal model in `generate` of transformers, with images in the prompt.

The class that `make_causal_generator` returns is that of the model in transformers, with sessions
in place of layers: what it prepares for each step (positions, token types, beams) is the code of
transformers. vision_language.py exports the graphs. Called by runner.py.
"""

from __future__ import annotations

import functools
import inspect
import math
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import torch

from ortable import dtypes
from ortable.compat.onnxruntime import tensor_over
from ortable.compat.transformers import models_of
from ortable.errors import InputError
from ortable.ir.schemas import TENSOR_TYPES

from .decoder import EMBEDDINGS, IMAGE_FEATURES, TOKEN_TYPES
from .generation import (
    CPU_DEVICE,
    PAST,
    StepCache,
    check_mask,
    check_settings,
    load_config,
    make_generation_config,
    normalize_settings,
    run_session,
    run_step,
)
from .steps import empty_value
from .vision_language import find_grid
from .vision_towers import GRID, PIXEL_MASK, PIXELS

_TOKENS, _MASK, _POSITIONS = "input_ids", "attention_mask", "position_ids"
# Tensors beside the texts that `generate` passes on.
_INPUTS = (PIXELS, PIXEL_MASK, GRID, TOKEN_TYPES, "mm_token_type_ids")


class VisionSessions:
    """The graphs of an image and of embeddings."""

    def __init__(self, vision: Any, embed: Any, image_token: int) -> None:
        self.vision, self.embed, self.image_token = vision, embed, image_token
        features = embed.get_inputs()[1]
        self.width = features.shape[1]
        self.dtype = dtypes.to_torch(TENSOR_TYPES[features.type])
        self.grid = find_grid(vision.get_modelmeta().custom_metadata_map)

    def image_features(
        self,
        pixel_values: torch.Tensor,
        pixel_attention_mask: torch.Tensor | None = None,
        image_grid_thw: torch.Tensor | None = None,
        **kwargs: Any,
    ) -> Any:
        """Return a BaseModelOutputWithPooling: ``pooler_output`` has the features of each image."""
        from transformers.modeling_outputs import BaseModelOutputWithPooling

        specs = {spec.name: spec for spec in self.vision.get_inputs()}
        if self.grid is not None:
            images = _split_patches(pixel_values, image_grid_thw, self.grid)
        elif PIXEL_MASK in specs:
            images = _split_masked_images(pixel_values, pixel_attention_mask)
        else:
            images = [{PIXELS: image} for image in pixel_values.split(1)]
        for image in images:
            _check_size(specs, image)
        features = [
            tensor_over(run_session(self.vision, image, "cpu")[IMAGE_FEATURES]) for image in images
        ]
        return BaseModelOutputWithPooling(pooler_output=features)

    def embed_tokens(self, tokens: torch.Tensor, images: Any) -> torch.Tensor:
        """Return the embeddings of tokens; ``images`` is a result of image_features, or None.

        Raises InputError if the text has another number of image tokens than the images.
        """
        features = torch.zeros(0, self.width, dtype=self.dtype)
        if images is not None:
            features = torch.cat([rows.reshape(-1, self.width) for rows in images.pooler_output])
            count = int((tokens == self.image_token).sum())
            if count != len(features):
                raise InputError(
                    f"the texts have {count} image tokens ({self.image_token}), and the images "
                    f"have features for {len(features)}"
                )
        feeds = {_TOKENS: tokens, IMAGE_FEATURES: features}
        return tensor_over(run_session(self.embed, feeds, "cpu")[EMBEDDINGS])


def _split_patches(
    pixels: torch.Tensor, grids: torch.Tensor | None, grid: list[int]
) -> list[dict[str, torch.Tensor]]:
    """Return the patches of each image; raise InputError if their grid is not ``grid``."""
    sizes = [] if grids is None else grids.tolist()
    count = math.prod(grid)
    if any(size != grid for size in sizes) or len(pixels) != count * len(sizes):
        raise InputError(
            f"{GRID} is {sizes} with {len(pixels)} rows of {PIXELS}; the folder is for images of "
            f"{grid}, {count} rows each"
        )
    return [{PIXELS: image} for image in pixels.split(count)]


def _split_masked_images(
    pixels: torch.Tensor, mask: torch.Tensor | None
) -> list[dict[str, torch.Tensor]]:
    """Return each image of several texts and its mask, without images of zeros, which pad."""
    if pixels.dim() != 5:
        raise InputError(f"{PIXELS} is (texts, images, channels, height, width), not of shape "
                         f"{tuple(pixels.shape)}")  # fmt: skip
    if mask is None:
        mask = torch.ones_like(pixels[:, :, 0], dtype=torch.bool)
    images = zip(pixels.flatten(0, 1).split(1), mask.flatten(0, 1).bool().split(1), strict=True)
    return [{PIXELS: image, PIXEL_MASK: part} for image, part in images if image.any()]


def _check_size(specs: Mapping[str, Any], image: Mapping[str, torch.Tensor]) -> None:
    """Raise InputError if the inputs of an image are not those of the graph."""
    for name, value in image.items():
        spec = specs[name]
        dtype = dtypes.to_torch(TENSOR_TYPES[spec.type])
        if value.dtype != dtype or list(value.shape) != spec.shape:
            raise InputError(
                f"{name} of an image is {dtype} of shape {tuple(spec.shape)}, not {value.dtype} of "
                f"shape {tuple(value.shape)}"
            )


def _model_class(auto_class: Any, config: Any) -> Any:
    classes = models_of(auto_class)
    if type(config) not in classes:
        raise InputError(f"transformers has no {auto_class.__name__} of a {type(config).__name__}")
    return classes[type(config)]


def _without_layers(model_class: Any, config: Any) -> Any:
    """Return a model that has its methods and its configuration, and no layers."""
    from transformers import PreTrainedModel

    model = model_class.__new__(model_class)
    PreTrainedModel.__init__(model, config)
    return model


@functools.cache
def _generator_class(model_class: Any) -> Any:
    """Return a class for `make_causal_generator`, derived from that of the model."""
    from transformers import PreTrainedModel
    from transformers.modeling_outputs import CausalLMOutputWithPast

    class Generator(model_class):  # type: ignore[misc, valid-type]
        """A model of transformers whose parts are sessions of ONNX Runtime."""

        device, dtype = CPU_DEVICE, torch.float32  # of tokens and logits

        def __init__(self, config: Any, inner: Any, vision: Any, session: Any, device: str) -> None:
            PreTrainedModel.__init__(self, config)
            setattr(self, self.base_model_prefix, inner)
            inner.get_image_features = vision.image_features
            self.vision, self.session, self.cache_device = vision, session, device

        def get_image_features(self, **arguments: Any) -> Any:
            return self.vision.image_features(**arguments)

        def forward(self, **arguments: Any) -> Any:
            """Return the logits of new tokens, and the cache, which arrives as an argument."""
            tokens = arguments[_TOKENS]
            images = (arguments.get("mm_encoder_outputs") or {}).get("image")
            if images is None and arguments.get(PIXELS) is not None:
                images = self.vision.image_features(**arguments)
            cache = next((v for v in arguments.values() if isinstance(v, StepCache)), None)
            if cache is None:
                cache = _start_cache(self.session, len(tokens), self.cache_device)
            feeds = {EMBEDDINGS: self.vision.embed_tokens(tokens, images)}
            feeds |= _text_feeds(self.session, arguments, cache.length)
            logits = run_step(self.session, feeds, cache, tokens.shape[1])
            next_cache = {_cache_name(self): cache} if arguments.get("use_cache", True) else {}
            return CausalLMOutputWithPast(logits=logits, **next_cache)

        # `generate` asks for the arguments of forward
        forward.__signature__ = inspect.signature(model_class.forward)  # type: ignore[attr-defined]

    return Generator


def _cache_name(model: Any) -> str:
    parameters = inspect.signature(model.forward).parameters
    return "cache" if "cache" in parameters else "past_key_values"  # renamed in 5.24


def _start_cache(session: Any, batch: int, device: str) -> StepCache:
    values = {
        spec.name.removeprefix(PAST): empty_value(spec, batch, device)
        for spec in session.get_inputs()
        if spec.name.startswith(PAST)
    }
    return StepCache(values, device)


def _text_feeds(session: Any, arguments: Mapping[str, Any], past: int) -> dict[str, torch.Tensor]:
    """Return mask, positions and token types of a step, as far as the graph takes them."""
    batch, count = arguments[_TOKENS].shape
    mask = arguments.get(_MASK)
    if mask is None:  # `generate` drops a mask of ones
        mask = torch.ones(batch, past + count)
    mask = mask.to(torch.int64)
    positions = arguments.get(_POSITIONS)
    if positions is None:
        positions = (mask.cumsum(-1) - 1).clamp(min=0)[:, -count:]
    types = torch.zeros_like(mask)
    if arguments.get(TOKEN_TYPES) is not None:
        types[:, -arguments[TOKEN_TYPES].shape[1] :] = arguments[TOKEN_TYPES]
    if positions.dim() == 3:  # Qwen2-VL's, and those of the text before them
        positions = positions[-3:]
    else:
        positions = positions.expand(batch, -1)
    feeds = {_MASK: mask, _POSITIONS: positions, TOKEN_TYPES: types}
    names = [spec.name for spec in session.get_inputs()]
    return {name: value for name, value in feeds.items() if name in names}


def make_causal_generator(
    folder: Path, sessions: list[Any], settings: Mapping[str, Any], device: str
) -> Any:
    """Return a model of transformers that runs the sessions of an image, embeddings and a step.

    ``settings`` is the content of generation_config.json, and ``device`` that of the caches.

    Raises InputError if config.json is not that of a model of transformers.
    """
    from transformers import AutoModel, AutoModelForImageTextToText

    config = load_config(folder)
    model_class = _model_class(AutoModelForImageTextToText, config)
    vision, embed, step = sessions
    parts = VisionSessions(vision, embed, config.image_token_id)
    inner = _without_layers(_model_class(AutoModel, config), config)
    generator = _generator_class(model_class)(config, inner, parts, step, device).eval()
    generator.generation_config = make_generation_config(settings)
    return generator


def continue_texts(
    generator: Any, texts: torch.Tensor, attention_mask: Any, settings: Mapping[str, Any]
) -> torch.Tensor:
    """Return prompts and new tokens of `generate`, int64 (batch, length).

    Raises InputError for inputs of another type or shape, and OptionError for settings that
    `generate` does not have or that the graphs do not support.
    """
    settings = normalize_settings(settings)
    inputs = {name: settings.pop(name) for name in _INPUTS if name in settings}
    check_settings(generator, settings, ())
    inputs = {
        name: torch.as_tensor(value, device=CPU_DEVICE)
        for name, value in inputs.items()
        if value is not None
    }
    if attention_mask is not None:
        inputs[_MASK] = check_mask(attention_mask, texts)
    tokens = generator.generate(texts, **inputs, **{"do_sample": False, **settings})
    return torch.as_tensor(tokens)

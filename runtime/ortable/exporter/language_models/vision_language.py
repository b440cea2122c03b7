"""Export a vision-language model of transformers as graphs of images, embeddings and steps.

``vision.onnx`` computes the features of an image, ``embed.onnx`` puts them in the places of image
tokens, and ``model.onnx`` is the step of a text decoder that takes these embeddings. Called by
export.py; causal_runner.py runs the graphs.
"""

from __future__ import annotations

import inspect
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import torch
from onnx import ModelProto

from ortable.builder import LargeModel
from ortable.errors import ExportError
from ortable.exporter.language_models.decoder import (
    BATCH,
    EMBEDDINGS,
    IMAGE_FEATURES,
    SEQUENCE,
    TOKEN_TYPES,
    Decoder,
    check_model,
    make_decoder,
)
from ortable.exporter.language_models.model_folder import (
    EMBED_MODEL,
    VISION_MODEL,
    externalize_weights,
)
from ortable.exporter.language_models.vision_towers import (
    PIXELS,
    Tower,
    image_features_method,
    make_tower,
)
from ortable.exporter.to_onnx import export

_IMAGE_TOKENS = "image_tokens"  # dimension: tokens of all images of a batch
# Sizes of the example of embed.onnx, which torch takes for dynamic.
_BATCH, _SEQUENCE = 2, 3
_GRID_AXES = 3  # positions in time, rows and columns
_GRID_MARK = "ortable.image_grid"  # key of the metadata of vision.onnx


def is_vision_language(model: Any) -> bool:
    """Return whether the forward of a model takes pixels beside a text."""
    forward = getattr(model, "forward", None)
    return callable(forward) and PIXELS in inspect.signature(forward).parameters


def _image_token(model: Any) -> int:
    """Return the token whose embeddings are features of images.

    Raises ExportError for models that read images in another way, or generate by their own code.
    """
    from transformers import GenerationMixin

    name = type(model).__name__
    if getattr(type(model), "generate", None) is not GenerationMixin.generate:
        raise ExportError(
            f"{name} generates by code of its own, which a folder of graphs does not contain: "
            "export its parts with to_onnx"
        )
    token = getattr(model.config, "image_token_id", None)
    if image_features_method(model) is None or not isinstance(token, int):
        raise ExportError(
            f"{name} reads images otherwise than as features in the places of image tokens "
            "(get_image_features, config.image_token_id): export its parts with to_onnx"
        )
    return token


@dataclass(frozen=True)
class VisionLanguage:
    """A vision-language model, the step of its decoder, and the module of an image."""

    model: Any
    decoder: Decoder
    image_token: int
    tower: Tower


class EmbedGraph(torch.nn.Module):
    """The embeddings of tokens, with features of images in the places of image tokens."""

    def __init__(self, model: Any, image_token: int) -> None:
        super().__init__()
        self.model, self.image_token = model, image_token
        embeddings = model.get_input_embeddings()
        self.has_image_embedding = image_token < embeddings.num_embeddings

    def forward(self, input_ids: torch.Tensor, image_features: torch.Tensor) -> torch.Tensor:
        """Return the embeddings, (batch, sequence, width).

        Args:
            input_ids: int64 (batch, sequence).
            image_features: (image tokens of all texts, width), in the order of the tokens. With no
                features, image tokens have embeddings of their own.
        """
        is_image = input_ids == self.image_token
        tokens = input_ids if self.has_image_embedding else input_ids.masked_fill(is_image, 0)
        embeddings = self.model.get_input_embeddings()(tokens)
        is_image = is_image & (torch.ones_like(image_features[:, 0]).sum() > 0)
        return embeddings.masked_scatter(is_image[..., None], image_features.to(embeddings.dtype))


class PrefixModel(torch.nn.Module):
    """PaliGemma's step with a mask from token types, which forward reads without a cache only."""

    def __init__(self, model: Any, cache: str) -> None:
        super().__init__()
        self.model, self.cache = model, cache
        self.config, self.generation_config = model.config, model.generation_config
        self.device, self.dtype = model.device, model.dtype

    def forward(
        self,
        inputs_embeds: torch.Tensor,
        attention_mask: torch.Tensor,
        position_ids: torch.Tensor,
        token_type_ids: torch.Tensor,
        past_key_values: Any,
        use_cache: bool = True,
        logits_to_keep: int = 0,
    ) -> Any:
        """Return logits and cache; tokens of type 0 attend to each other in both directions."""
        cache = {self.cache: past_key_values}
        mask = self.model.create_masks_for_generate(
            config=self.config,
            inputs_embeds=inputs_embeds,
            attention_mask=attention_mask,
            position_ids=position_ids,
            token_type_ids=token_type_ids,
            **cache,
        )
        if not isinstance(mask, torch.Tensor):
            raise ExportError(
                f"{type(self.model).__name__} has layers with sliding windows over a prefix, whose "
                "masks depend on the cache: export its parts with to_onnx"
            )
        return self.model(
            inputs_embeds=inputs_embeds,
            attention_mask=mask,
            position_ids=position_ids,
            use_cache=use_cache,
            logits_to_keep=logits_to_keep,
            **cache,
        )


def make_vision_language(
    model: Any, last_logits: bool, images: Mapping[str, torch.Tensor] | None
) -> VisionLanguage:
    """Return the description of a vision-language model; runs it on a random image.

    Args:
        model: the model.
        last_logits: whether a step returns the logits of the last token only.
        images: an example of the image inputs, None for the size in the configuration.

    Raises InputError if ``model`` is in training mode or has no weights or ``images`` are not its
    inputs, and ExportError if its images, its cache or its merge of image and text are of a kind
    that the graphs do not have.
    """
    check_model(model)
    image_token = _image_token(model)
    decoder = make_decoder(model, last_logits)
    parameters = inspect.signature(model.forward).parameters
    if EMBEDDINGS not in parameters:
        raise ExportError(
            f"{type(model).__name__}.forward does not take {EMBEDDINGS}: export its parts with "
            "to_onnx"
        )
    tower = make_tower(model, images)
    decoder = replace(
        decoder,
        embedding_width=int(model.get_input_embeddings().weight.shape[1]),
        position_axes=None if tower.grid is None else _GRID_AXES,
        takes_token_types=TOKEN_TYPES in parameters,
    )
    if model.config.model_type == "paligemma":
        prefix_model = PrefixModel(model, decoder.cache).eval()
        decoder = replace(decoder, model=prefix_model, cache="past_key_values")
    parts = VisionLanguage(model, decoder, image_token, tower)
    _check_parts(parts)
    return parts


def export_vision_language(
    parts: VisionLanguage, keywords: Mapping[str, Any]
) -> dict[str, LargeModel]:
    """Return the graphs of an image and of embeddings by file name.

    ``keywords`` are those of `export`, for modules with the model as their attribute ``model``.
    """
    tower = parts.tower
    vision = externalize_weights(
        export(
            tower.module,
            kwargs=tower.inputs,
            input_names=list(tower.inputs),
            output_names=[IMAGE_FEATURES],
            **keywords,
        ).model
    )
    if tower.grid is not None:
        mark_grid(vision.proto, tower.grid)
    tokens = torch.full((_BATCH, _SEQUENCE), parts.image_token, device=parts.model.device)
    features = parts.model.get_input_embeddings().weight.new_zeros(
        tokens.numel(), parts.decoder.embedding_width
    )
    embed = export(
        EmbedGraph(parts.model, parts.image_token).eval(),
        kwargs={"input_ids": tokens, IMAGE_FEATURES: features},
        dynamic_shapes={"input_ids": {0: BATCH, 1: SEQUENCE}, IMAGE_FEATURES: {0: _IMAGE_TOKENS}},
        input_names=["input_ids", IMAGE_FEATURES],
        output_names=[EMBEDDINGS],
        **keywords,
    ).model
    return {VISION_MODEL: vision, EMBED_MODEL: externalize_weights(embed)}


def mark_grid(model: ModelProto, grid: Sequence[int]) -> None:
    """Write the grid of patches that the graph of an image is for to its metadata."""
    model.metadata_props.add(key=_GRID_MARK, value=" ".join(map(str, grid)))


def find_grid(metadata: Mapping[str, str]) -> list[int] | None:
    """Return the grid that `mark_grid` wrote, None for graphs without one."""
    grid = metadata.get(_GRID_MARK)
    return None if grid is None else [int(size) for size in grid.split()]


def _check_parts(parts: VisionLanguage) -> None:
    """Raise ExportError if the model computes other logits than its parts, one after another."""
    model, decoder, tower = parts.model, parts.decoder, parts.tower
    generator = torch.Generator().manual_seed(0)
    pixels = tower.inputs[PIXELS]
    pixels = torch.rand(pixels.shape, generator=generator).to(pixels)
    with torch.no_grad():
        features = tower.module(**{**tower.inputs, PIXELS: pixels})
        vocabulary = min(100, model.get_input_embeddings().num_embeddings)
        text = torch.randint(vocabulary, (1, 5), generator=generator)
        text = text.masked_fill(text == parts.image_token, 0).to(model.device)
        image = torch.full((1, len(features)), parts.image_token, device=model.device)
        tokens = torch.cat([text[:, :2], image, text[:, 2:]], 1)
        types = torch.zeros_like(tokens)
        types[:, 2:-3] = types[:, -1:] = 1  # an image, or the end of a prefix
        token_types = {TOKEN_TYPES: types} if decoder.takes_token_types else {}
        call = decoder.prompt_call(tokens)
        images = {**tower.call, PIXELS: pixels.reshape(tower.call[PIXELS].shape)}
        positions = {"position_ids": call["position_ids"]} if decoder.takes_position_ids else {}
        expected = model(input_ids=tokens, **images, **positions, **token_types).logits
        call[EMBEDDINGS] = EmbedGraph(model, parts.image_token)(tokens, features)
        logits = decoder.model(**{**call, **token_types}).logits
    expected = expected[:, -logits.shape[1] :].float()
    tolerance = (1e-4 if model.dtype == torch.float32 else 1e-2) * float(expected.abs().max())
    if not torch.allclose(logits.float(), expected, rtol=0, atol=tolerance, equal_nan=True):
        raise ExportError(
            f"{type(model).__name__} computes other logits than its vision tower, its embeddings "
            "and its decoder one after another: export its parts with to_onnx"
        )

"""Modules that compute the features of one image, by the kind of a model's image inputs.

Most vision towers take pixels of one size. Idefics 3 also takes a mask of the pixels that are not
padding, and Qwen2-VL the patches of an image in a grid, which the exported graph holds for one
grid. Called by vision_language.py; causal_runner.py calls the graphs image by image.
"""

from __future__ import annotations

import inspect
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import torch

from ortable.errors import ExportError, InputError, VersionError

PIXELS, PIXEL_MASK, GRID = "pixel_values", "pixel_attention_mask", "image_grid_thw"
_MASK_MODELS = ("idefics3", "smolvlm")
_GRID_MODELS = ("qwen2_vl", "qwen2_5_vl")


@dataclass(frozen=True)
class Tower:
    """The module of one image, an example of its inputs, and the call of the model with them.

    ``grid`` has the frames, rows and columns of patches that the module is for, if it is for one.
    """

    module: torch.nn.Module
    inputs: dict[str, torch.Tensor]
    call: dict[str, torch.Tensor]
    grid: tuple[int, ...] | None = None


def image_features_method(model: Any) -> Any:
    """Return the method that computes features of images, of the model or its base, or None."""
    method = getattr(model, "get_image_features", None)
    return method or getattr(getattr(model, "base_model", None), "get_image_features", None)


class PixelTower(torch.nn.Module):
    """The features of pixels (1, channels, height, width)."""

    def __init__(self, model: Any) -> None:
        super().__init__()
        self.model = model

    def forward(self, pixel_values: torch.Tensor) -> torch.Tensor:
        """Return the features, (image tokens, width)."""
        output = image_features_method(self.model)(pixel_values=pixel_values)
        features = getattr(output, "pooler_output", output)  # a tensor in older transformers
        if not isinstance(features, torch.Tensor):
            (features,) = features
        return features.reshape(-1, features.shape[-1])


class MaskedTower(torch.nn.Module):
    """The features of pixels with padding, as Idefics 3 computes them for each image."""

    def __init__(self, model: Any) -> None:
        super().__init__()
        self.model = model

    def forward(
        self, pixel_values: torch.Tensor, pixel_attention_mask: torch.Tensor
    ) -> torch.Tensor:
        """Return the features, (image tokens, width).

        Args:
            pixel_values: (1, channels, height, width).
            pixel_attention_mask: bool (1, height, width), false for padding.
        """
        size, inner = self.model.config.vision_config.patch_size, self.model.model
        patches = pixel_attention_mask.unfold(1, size, size).unfold(2, size, size)
        hidden = inner.vision_model(
            pixel_values=pixel_values, patch_attention_mask=patches.sum(dim=(-1, -2)) > 0
        ).last_hidden_state
        features = inner.connector(hidden)
        return features.reshape(-1, features.shape[-1])


class GridTower(torch.nn.Module):
    """The features of the patches of Qwen2-VL in a constant grid."""

    def __init__(self, model: Any, grid: torch.Tensor) -> None:
        super().__init__()
        self.model = model
        vision_utils = _import_vision_utils()
        config, visual = model.config.vision_config, model.model.visual
        merge = config.spatial_merge_size
        positions = vision_utils.get_vision_position_ids(grid, merge)
        self.register_buffer("positions", positions, persistent=False)
        # attention splits the patches by these lengths, which are not data of the graph
        self.lengths = {"cu_seqlens": vision_utils.get_vision_cu_seqlens(grid).cpu().numpy()}
        self.window_index: torch.Tensor | None
        index = None
        if hasattr(visual, "window_size"):
            index, lengths = vision_utils.get_vision_window_index(
                grid, merge, visual.window_size, visual.patch_size
            )
            self.lengths["cu_window_seqlens"] = lengths.cpu().numpy()
        self.register_buffer("window_index", index, persistent=False)

    def forward(self, pixel_values: torch.Tensor) -> torch.Tensor:
        """Return the features (image tokens, width) of the patches (rows * columns, values)."""
        index = {} if self.window_index is None else {"window_index": self.window_index}
        output = self.model.model.visual(
            pixel_values, grid_thw=None, position_ids=self.positions, **index, **self.lengths
        )
        features: torch.Tensor = output.pooler_output
        return features


def _import_vision_utils() -> Any:
    try:
        from transformers import vision_utils
    except ImportError as error:
        raise VersionError(
            "this version of transformers has no vision_utils, which computes positions and "
            f"windows of patches: install a newer one ({error})"
        ) from error
    return vision_utils


def make_tower(model: Any, images: Mapping[str, torch.Tensor] | None) -> Tower:
    """Return the module of one image of a vision-language model.

    Args:
        model: the model.
        images: an example of the model's image inputs; None for an image of the size in the
            configuration.

    Raises InputError if ``images`` are not inputs of the model, and ExportError if its vision tower
    is of another kind, or has no size and no example is given.
    """
    name, kind = type(model).__name__, model.config.model_type
    signature = inspect.signature(image_features_method(model)).parameters
    names = [PIXELS]
    if kind in _MASK_MODELS:
        names.append(PIXEL_MASK)
    elif kind in _GRID_MODELS:
        names.append(GRID)
    else:
        unsupported = [
            key
            for key, parameter in signature.items()
            if key in (PIXEL_MASK, GRID)
            or (
                parameter.default is parameter.empty and parameter.kind is not parameter.VAR_KEYWORD
            )
        ]
        unsupported = [key for key in unsupported if key != PIXELS]
        if unsupported or PIXELS not in signature:
            raise ExportError(
                f"the vision tower of {name} takes {', '.join(unsupported) or 'other inputs'}: "
                f"export_language_model knows towers of {PIXELS} of one size, and those of "
                f"{', '.join(_MASK_MODELS + _GRID_MODELS)}. Export the parts with to_onnx"
            )
    example = _check_images(model, images, names)
    if kind in _GRID_MODELS:
        return _grid_tower(model, example)
    if kind in _MASK_MODELS:
        return _masked_tower(model, example)
    pixels = _image_of(model, example.get(PIXELS), 4)
    return Tower(PixelTower(model).eval(), {PIXELS: pixels}, {PIXELS: pixels})


def _check_images(
    model: Any, images: Mapping[str, torch.Tensor] | None, names: list[str]
) -> dict[str, torch.Tensor]:
    """Return the example on the model's device; raise InputError for other inputs."""
    if images is None:
        return {}
    is_mapping = isinstance(images, Mapping) and PIXELS in images
    if not is_mapping or any(not isinstance(value, torch.Tensor) for value in images.values()):
        raise InputError(f"images is a dict of tensors with {', '.join(names)}, not {images!r:.80}")
    unknown = [key for key in images if key not in names]
    if unknown:
        raise InputError(
            f"images has {', '.join(map(repr, unknown))}; {type(model).__name__} takes "
            f"{', '.join(names)}"
        )
    example = {key: value.to(model.device) for key, value in images.items()}
    example[PIXELS] = example[PIXELS].to(model.dtype)
    return example


def _image_of(model: Any, pixels: torch.Tensor | None, rank: int) -> torch.Tensor:
    """Return one image (1, channels, height, width), of the size in the configuration."""
    if pixels is not None:
        if pixels.dim() != rank or 0 in pixels.shape:
            raise InputError(f"images: {PIXELS} has {rank} dimensions, not {tuple(pixels.shape)}")
        return pixels.reshape(-1, *pixels.shape[-3:])[:1]
    config = getattr(model.config, "vision_config", None)
    size = getattr(config, "image_size", None)
    if isinstance(size, int):
        size = (size, size)
    if not isinstance(size, list | tuple) or len(size) != 2:
        raise ExportError(
            f"the configuration of {type(model).__name__} has no size of images: give an example, "
            f"images={{{PIXELS!r}: ...}}"
        )
    shape = (1, getattr(config, "num_channels", 3), *size)
    return torch.zeros(shape, dtype=model.dtype, device=model.device)


def _masked_tower(model: Any, example: Mapping[str, torch.Tensor]) -> Tower:
    pixels = _image_of(model, example.get(PIXELS), 5)
    mask = torch.ones_like(pixels[:, 0], dtype=torch.bool)
    inputs = {PIXELS: pixels, PIXEL_MASK: mask}
    call = {name: value[None] for name, value in inputs.items()}
    return Tower(MaskedTower(model).eval(), inputs, call)


def _grid_tower(model: Any, example: Mapping[str, torch.Tensor]) -> Tower:
    name = type(model).__name__
    if GRID not in example:
        raise ExportError(
            f"the vision tower of {name} is exported for images of one size, which its "
            f"configuration does not have: give an example, images={{{PIXELS!r}: ..., "
            f"{GRID!r}: ...}}"
        )
    grid = example[GRID][:1]
    pixels = example[PIXELS][: int(grid.prod())]
    if grid.shape != (1, 3) or pixels.dim() != 2 or len(pixels) != int(grid.prod()):
        raise InputError(
            f"images: {PIXELS} {tuple(example[PIXELS].shape)} are not the patches of {GRID} "
            f"{example[GRID].tolist()}"
        )
    call = {PIXELS: pixels, GRID: grid}
    sizes = tuple(map(int, grid[0].tolist()))
    return Tower(GridTower(model, grid).eval(), {PIXELS: pixels}, call, sizes)

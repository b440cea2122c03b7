"""Models of images and of sound, from configurations of transformers."""

from __future__ import annotations

from typing import Any

import torch
from torch import nn
from torch.export import Dim

from .architecture import BATCH, COLUMNS, LENGTH, ROWS, Architecture, Call, named
from .language import ENDS, ids, padded, plain

IMAGE = {"pixel_values": {0: BATCH}}
DYNAMIC_IMAGE = {"pixel_values": {0: BATCH, 2: ROWS, 3: COLUMNS}}


def image_inputs(small: bool, batch: int, height: int, width: int = 0) -> Call:
    """Return float32[batch, 3, height, width]; without a width, the images are square."""
    return named(pixel_values=torch.randn(batch, 3, height, width or height))


def static(name: str, make: Any, side: int, small: int, **options: Any) -> Architecture:
    """Define a model of images with a dynamic batch and a static size."""
    return Architecture(
        name,
        make,
        image_inputs,
        IMAGE,
        {"batch": 1, "height": side},
        {"batch": 2, "height": small},
        {"batch": 1, "height": small},
        **options,
    )


def dynamic(name: str, make: Any, side: int, **options: Any) -> Architecture:
    """Define a model of images with dynamic batch, height and width."""
    return Architecture(
        name,
        make,
        image_inputs,
        DYNAMIC_IMAGE,
        {"batch": 1, "height": side},
        {"batch": 2, "height": 64, "width": 96},
        {"batch": 1, "height": 96, "width": 64},
        **options,
    )


VIT_SMALL = {
    "hidden_size": 32,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "intermediate_size": 48,
    "image_size": 32,
    "patch_size": 8,
}
VIT_FULL = {"hidden_size": 192, "num_attention_heads": 3, "intermediate_size": 768}
SWIN_SMALL = {"image_size": 56, "embed_dim": 24, "depths": [2, 2], "num_heads": [2, 4]}
CONVNEXT_SMALL = {"hidden_sizes": [8, 16, 24, 32], "depths": [1, 1, 2, 1]}
SEGFORMER_SMALL = {
    "hidden_sizes": [8, 16, 24, 32],
    "depths": [1, 1, 1, 1],
    "num_attention_heads": [1, 2, 2, 4],
    "decoder_hidden_size": 16,
}


def detr(small: bool) -> nn.Module:
    """Build DETR with the ResNet of transformers, which does not need timm."""
    from transformers import DetrConfig, DetrForObjectDetection, ResNetConfig

    sizes = {"embedding_size": 8, "hidden_sizes": [8, 16, 24, 32], "depths": [1, 1, 1, 1]}
    backbone = ResNetConfig(**(sizes if small else {}), out_features=["stage4"])
    settings = {
        "d_model": 32,
        "num_queries": 5,
        "encoder_layers": 2,
        "decoder_layers": 2,
        "encoder_attention_heads": 4,
        "decoder_attention_heads": 4,
        "encoder_ffn_dim": 48,
        "decoder_ffn_dim": 48,
    }
    config = DetrConfig(
        use_timm_backbone=False,
        backbone=None,
        use_pretrained_backbone=False,
        backbone_config=backbone,
        **(settings if small else {}),
    )
    return DetrForObjectDetection(config)


def clip(small: bool) -> nn.Module:
    from transformers import CLIPConfig, CLIPModel

    text_settings = {
        "vocab_size": 99,
        "hidden_size": 32,
        "num_hidden_layers": 2,
        "num_attention_heads": 4,
        "intermediate_size": 48,
        "projection_dim": 16,
        "eos_token_id": 98,
        "bos_token_id": 1,
    }
    config = CLIPConfig(
        text_config=text_settings if small else {"num_hidden_layers": 6},
        vision_config={**VIT_SMALL, "projection_dim": 16} if small else {"num_hidden_layers": 6},
        projection_dim=16 if small else 512,
    )
    return CLIPModel(config)


def clip_inputs(small: bool, batch: int, texts: int, length: int) -> Call:
    """Make `batch` images and `texts` texts, each with one end token."""
    side = 32 if small else 224
    tokens = ids(small, texts, length) % 90 + 3
    tokens[:, -1] = 98 if small else 49407
    return named(
        input_ids=tokens,
        pixel_values=torch.randn(batch, 3, side, side),
        attention_mask=padded(texts, length),
    )


WHISPER_SMALL = {
    "vocab_size": 99,
    "d_model": 32,
    "num_mel_bins": 16,
    "max_source_positions": 20,
    "max_target_positions": 64,
    **{
        f"{side}_{key}": value
        for side in ("encoder", "decoder")
        for key, value in (("layers", 2), ("attention_heads", 4), ("ffn_dim", 48))
    },
}


def speech_inputs(small: bool, batch: int, target: int) -> Call:
    """Make a spectrogram of static length, and the tokens decoded so far."""
    bins, frames = (16, 40) if small else (80, 3000)
    return named(
        input_features=torch.randn(batch, bins, frames),
        decoder_input_ids=ids(small, batch, target),
    )


WAV2VEC2_SMALL = {
    "vocab_size": 32,
    "hidden_size": 32,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "intermediate_size": 48,
    "conv_dim": [16, 16, 16],
    "conv_stride": [5, 2, 2],
    "conv_kernel": [10, 3, 3],
    "num_conv_pos_embeddings": 16,
    "num_conv_pos_embedding_groups": 4,
}


def waveform_inputs(small: bool, batch: int, samples: int) -> Call:
    return named(input_values=torch.randn(batch, samples))


PICTURE_MODELS = (
    static("vit", plain("ViTForImageClassification", "ViTConfig", VIT_SMALL, VIT_FULL), 224, 32),
    static("swin", plain("SwinModel", "SwinConfig", SWIN_SMALL, {}), 224, 56),
    dynamic("convnext", plain("ConvNextModel", "ConvNextConfig", CONVNEXT_SMALL, {}), 224),
    dynamic(
        "segformer",
        plain("SegformerForSemanticSegmentation", "SegformerConfig", SEGFORMER_SMALL, {}),
        256,
    ),
    dynamic("detr", detr, 320),
    Architecture(
        "clip",
        clip,
        clip_inputs,
        {
            "input_ids": {0: Dim("texts", max=64), 1: Dim("length", min=2, max=77)},
            "pixel_values": {0: BATCH},
            "attention_mask": {0: Dim("texts", max=64), 1: Dim("length", min=2, max=77)},
        },
        {"batch": 1, "texts": 2, "length": 16},
        {"batch": 2, "texts": 3, "length": 8},
        {"batch": 1, "texts": 2, "length": 11},
    ),
    Architecture(
        "whisper",
        plain("WhisperModel", "WhisperConfig", WHISPER_SMALL, {}, use_cache=False, **ENDS),
        speech_inputs,
        {"input_features": {0: BATCH}, "decoder_input_ids": {0: BATCH, 1: LENGTH}},
        {"batch": 1, "target": 16},
        {"batch": 2, "target": 8},
        {"batch": 1, "target": 5},
    ),
    Architecture(
        "wav2vec2",
        plain("Wav2Vec2ForCTC", "Wav2Vec2Config", WAV2VEC2_SMALL, {"num_hidden_layers": 6}),
        waveform_inputs,
        {"input_values": {0: BATCH, 1: 20 * Dim("samples", min=20, max=8000)}},
        {"batch": 1, "samples": 16000},
        {"batch": 2, "samples": 1000},
        {"batch": 1, "samples": 1300},
    ),
)

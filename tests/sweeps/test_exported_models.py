"""Tiny random models of transformers, timm and torchvision whose export or results were once wrong.

They run in ONNX Runtime's default session, at the sizes of the example and at others.
"""

from __future__ import annotations

from typing import Any

import pytest
import torch
import transformers

from ortable import to_onnx
from tests.child import python

from ..exporter.helpers import assert_close, eager, feeds_of, run_onnx

TEXT = {
    "vocab_size": 97, "hidden_size": 32, "intermediate_size": 64, "num_hidden_layers": 2,
    "num_attention_heads": 4, "num_key_value_heads": 2, "max_position_embeddings": 64,
}  # fmt: skip
DYNAMIC_AXES = {0: "batch", 1: "length"}

# auto class of transformers, architecture, settings of a tiny model
MODELS: dict[str, tuple[str, str, dict[str, Any]]] = {
    "ConvBERT": ("AutoModel", "convbert", {
        **TEXT, "embedding_size": 32,
    }),
    "XLNet": ("AutoModel", "xlnet", {
        "vocab_size": 97, "d_model": 32, "n_layer": 2, "n_head": 4, "d_inner": 64,
    }),
    "DeepSeek-V3": ("AutoModelForCausalLM", "deepseek_v3", {
        **TEXT, "num_key_value_heads": 4, "moe_intermediate_size": 16, "n_routed_experts": 4,
        "n_group": 2, "topk_group": 1, "num_experts_per_tok": 2, "n_shared_experts": 1,
        "kv_lora_rank": 8, "q_lora_rank": 8, "qk_rope_head_dim": 4, "qk_nope_head_dim": 4,
        "v_head_dim": 8, "first_k_dense_replace": 1, "eos_token_id": None, "pad_token_id": 0,
    }),
    "Phi-3 longrope": ("AutoModelForCausalLM", "phi3", {
        **TEXT, "max_position_embeddings": 32, "original_max_position_embeddings": 32,
        "eos_token_id": None, "pad_token_id": 0, "rope_scaling": {
            "type": "longrope", "short_factor": [1.0, 1.1, 1.2, 1.3],
            "long_factor": [2.0, 2.3, 2.6, 2.9],
        },
    }),
    "LongT5": ("AutoModelForSeq2SeqLM", "longt5", {
        "vocab_size": 97, "d_model": 32, "d_kv": 8, "d_ff": 64, "num_layers": 2, "num_heads": 4,
        "decoder_start_token_id": 0, "local_radius": 3,
    }),
}  # fmt: skip


def make_tiny_model(name: str) -> torch.nn.Module:
    auto_class, architecture, settings = MODELS[name]
    config = transformers.AutoConfig.for_model(architecture, **settings)
    return getattr(transformers, auto_class).from_config(config).eval()


def make_inputs(name: str, rows: int, columns: int) -> dict[str, torch.Tensor]:
    tokens = torch.randint(2, 90, (rows, columns))
    if name != "LongT5":
        return {"input_ids": tokens}
    mask = torch.ones_like(tokens)
    mask[:, -2:] = 0
    return {
        "input_ids": tokens,
        "attention_mask": mask,
        "decoder_input_ids": tokens[:, : columns // 2],
    }


def assert_equal(model: Any, module: torch.nn.Module, kwargs: Any, tolerance: float) -> None:
    """Compare the results of forward; further outputs are new values of buffers."""
    expected = eager(module, (), kwargs)
    actual = run_onnx(model, feeds_of(model, (), kwargs))
    assert_close(actual[: len(expected)], expected, tolerance)


@pytest.mark.parametrize("name", MODELS)
def test_a_language_model_with_a_free_length(name: str) -> None:
    module = make_tiny_model(name)
    shapes: Any = {"input_ids": DYNAMIC_AXES}
    if name == "LongT5":
        decoder = {0: "batch", 1: "written"}
        shapes |= {"attention_mask": DYNAMIC_AXES, "decoder_input_ids": decoder}
    model = to_onnx(module, kwargs=make_inputs(name, 2, 9), dynamic_shapes=shapes)
    for rows, columns in ((2, 9), (3, 17)):
        assert_equal(model, module, make_inputs(name, rows, columns), 1e-4)


def test_rt_detr_with_a_free_batch() -> None:
    backbone = transformers.RTDetrResNetConfig(
        embedding_size=8, hidden_sizes=[8, 12, 16, 20], depths=[1, 1, 1, 1], layer_type="basic",
        out_features=["stage2", "stage3", "stage4"],
    )  # fmt: skip
    config = transformers.RTDetrConfig(
        backbone_config=backbone, encoder_in_channels=[12, 16, 20], encoder_hidden_dim=16,
        d_model=16, encoder_ffn_dim=16, decoder_ffn_dim=16, num_queries=10, decoder_layers=2,
        decoder_attention_heads=2, encoder_attention_heads=2, decoder_in_channels=[16, 16, 16],
        num_labels=5, use_pretrained_backbone=False,
    )  # fmt: skip
    module = transformers.RTDetrForObjectDetection(config).eval()
    for weight in module.parameters():  # distinct scores, since the model selects the best ones
        torch.nn.init.normal_(weight, std=0.3)
    pixels = {"pixel_values": torch.rand(2, 3, 64, 64)}
    model = to_onnx(module, kwargs=pixels, dynamic_shapes={"pixel_values": {0: "batch"}})
    assert_equal(model, module, pixels, 1e-3)
    assert_equal(model, module, {"pixel_values": torch.rand(3, 3, 64, 64)}, 1e-3)


@pytest.mark.parametrize("name", ["volo", "faster_rcnn", "retinanet"])
def test_a_vision_model(name: str) -> None:
    """The model runs in another process, since other libraries would import its torchvision."""
    process = python("-m", "tests.sweeps.vision_models", name)
    assert process.returncode == 0, process.stderr[-3000:]
    assert f"{name}: equal" in process.stdout

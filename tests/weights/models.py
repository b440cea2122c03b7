"""Small models of transformers for tests of weight quantization, with example arguments."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from typing import Any

import torch
import transformers
from onnx import ModelProto
from transformers.pytorch_utils import Conv1D

WIDTH = 64
_TEXT = {
    "vocab_size": 96, "num_hidden_layers": 2, "hidden_size": WIDTH, "intermediate_size": 128,
    "num_attention_heads": 4, "max_position_embeddings": 32,
}  # fmt: skip
_IDS = torch.arange(10).reshape(2, 5) * 7 % 96
NAMES = ("llama", "bert", "gpt2", "vit", "whisper")


def build(name: str) -> tuple[Any, dict[str, torch.Tensor]]:
    """Return a model in eval mode and the arguments of a call."""
    torch.manual_seed(0)
    if name == "llama":
        config = transformers.LlamaConfig(**_TEXT, num_key_value_heads=2, use_cache=False)
        return transformers.LlamaForCausalLM(config).eval(), {"input_ids": _IDS}
    if name == "bert":
        return transformers.BertModel(transformers.BertConfig(**_TEXT)).eval(), {"input_ids": _IDS}
    if name == "gpt2":
        sizes = {"n_layer": 2, "n_head": 4, "n_embd": WIDTH, "n_positions": 32, "vocab_size": 96}
        config = transformers.GPT2Config(**sizes, use_cache=False)
        return transformers.GPT2LMHeadModel(config).eval(), {"input_ids": _IDS}
    if name == "vit":
        sizes = {"image_size": 32, "patch_size": 8, "num_labels": 10}
        config = transformers.ViTConfig(**_TEXT, **sizes)
        model = transformers.ViTForImageClassification(config)
        return model.eval(), {"pixel_values": torch.randn(2, 3, 32, 32)}
    config = transformers.WhisperConfig(
        vocab_size=96, d_model=WIDTH, encoder_layers=2, decoder_layers=2, num_mel_bins=8,
        encoder_attention_heads=4, decoder_attention_heads=4, encoder_ffn_dim=128,
        decoder_ffn_dim=128, max_source_positions=20, max_target_positions=32, use_cache=False,
        pad_token_id=0, bos_token_id=1, eos_token_id=2, decoder_start_token_id=1,
    )  # fmt: skip
    features = torch.randn(2, 8, 40)
    model = transformers.WhisperForConditionalGeneration(config)
    return model.eval(), {"input_features": features, "decoder_input_ids": _IDS}


def linears(model: torch.nn.Module) -> int:
    """Return the number of linear layers of a model; GPT-2's Conv1D counts as one."""
    return sum(isinstance(module, torch.nn.Linear | Conv1D) for module in model.modules())


def operators(model: ModelProto) -> Mapping[str, int]:
    """Count the nodes of each operator in a graph."""
    return Counter(node.op_type for node in model.graph.node)


def count_products(model: ModelProto) -> int:
    """Count the weights of MatMulNBits nodes; a Split returns the products of joined weights."""
    splits = {n.input[0]: len(n.output) for n in model.graph.node if n.op_type == "Split"}
    nodes = [node for node in model.graph.node if node.op_type == "MatMulNBits"]
    return sum(splits[n.output[0]] if "_joined" in n.input[1] else 1 for n in nodes)


def distance(new: torch.Tensor, old: torch.Tensor) -> float:
    """Return the norm of a difference relative to the norm of ``old``."""
    return float((new.double() - old.double()).norm() / old.double().norm())

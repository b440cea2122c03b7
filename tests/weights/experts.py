"""Mixture-of-experts layers of transformers with random weights."""

from __future__ import annotations

from typing import Any

import torch
import transformers
from transformers.models.gpt_oss.modeling_gpt_oss import GptOssMLP
from transformers.models.mixtral.modeling_mixtral import MixtralSparseMoeBlock
from transformers.models.qwen2_moe.modeling_qwen2_moe import Qwen2MoeSparseMoeBlock

HIDDEN, INNER = 64, 128
KINDS = ("gpt_oss", "mixtral", "qwen2_moe")


def block(kind: str, experts: str) -> torch.nn.Module:
    """Return a layer with 4 experts, 2 for each row, in the implementation ``experts``."""
    torch.manual_seed(0)
    sizes = {"hidden_size": HIDDEN, "num_experts_per_tok": 2}
    config: Any
    if kind == "mixtral":
        config = transformers.MixtralConfig(**sizes, intermediate_size=INNER, num_local_experts=4)
        layer_type: Any = MixtralSparseMoeBlock
    elif kind == "qwen2_moe":
        config = transformers.Qwen2MoeConfig(
            **sizes, num_experts=4, moe_intermediate_size=INNER,
            shared_expert_intermediate_size=INNER,
        )  # fmt: skip
        layer_type = Qwen2MoeSparseMoeBlock
    else:
        config = transformers.GptOssConfig(**sizes, intermediate_size=INNER, num_local_experts=4)
        layer_type = GptOssMLP
    config._experts_implementation = experts
    module: torch.nn.Module = layer_type(config).eval().requires_grad_(False)
    for parameter in module.parameters():
        torch.nn.init.normal_(parameter, std=0.1)
    return module

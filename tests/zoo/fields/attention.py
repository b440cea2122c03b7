"""Transformers and layers of attention."""

from __future__ import annotations

import torch

from tests.zoo.program import Program


def _tokens(n: int) -> tuple[torch.Tensor]:
    return (torch.randint(0, 64, (n, 12)),)


def x_transformers__decoder() -> Program:
    from x_transformers import Decoder, TransformerWrapper

    layers = Decoder(dim=32, depth=2, heads=4, attn_dim_head=8, rotary_pos_emb=True)
    return Program(TransformerWrapper(num_tokens=64, max_seq_len=32, attn_layers=layers), _tokens)


def x_transformers__encoder_with_relative_bias() -> Program:
    from x_transformers import Encoder, TransformerWrapper

    layers = Encoder(
        dim=32, depth=2, heads=4, attn_dim_head=8, rel_pos_bias=True, ff_glu=True,
        use_rmsnorm=True,
    )  # fmt: skip
    return Program(TransformerWrapper(num_tokens=64, max_seq_len=32, attn_layers=layers), _tokens)


def local_attention__transformer() -> Program:
    from local_attention import LocalTransformer

    model = LocalTransformer(
        num_tokens=64, dim=32, depth=2, max_seq_len=32, local_attn_window_size=4, heads=4,
        dim_head=8, causal=True,
    )  # fmt: skip
    return Program(model, _tokens)

"""Transformers and layers of attention."""

from __future__ import annotations

from typing import Any

import torch
from torch import nn

from tests.zoo.program import Program


def _tokens(n: int) -> tuple[torch.Tensor]:
    return (torch.randint(0, 64, (n, 12)),)


def _signal(n: int) -> tuple[torch.Tensor]:
    return (torch.randn(n, 16, 32),)


# -- x_transformers


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


def x_transformers__decoder_with_memories() -> Program:
    """Recurrence as in Transformer-XL, memory tokens, ALiBi and sparse attention."""
    from x_transformers import Decoder, TransformerWrapper

    class Recurrent(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            layers = Decoder(
                dim=32, depth=2, heads=4, attn_dim_head=8, alibi_pos_bias=True, alibi_num_heads=2,
                attn_sparse_topk=4, attn_gate_values=True,
            )  # fmt: skip
            self.model = TransformerWrapper(
                num_tokens=64, max_seq_len=32, max_mem_len=8, num_memory_tokens=2,
                shift_mem_down=1, use_abs_pos_emb=False, attn_layers=layers,
            )  # fmt: skip

        def forward(self, tokens: torch.Tensor) -> Any:
            first, last = tokens.chunk(2, dim=1)
            logits, memories = self.model(first, return_mems=True)
            next_logits, memories = self.model(last, mems=memories, return_mems=True)
            return torch.cat((logits, next_logits), dim=1), memories

    return Program(Recurrent(), _tokens)


def x_transformers__encoder_decoder() -> Program:
    from x_transformers import XTransformer

    model = XTransformer(
        dim=32, tie_token_emb=True,
        enc_num_tokens=64, enc_depth=1, enc_heads=4, enc_max_seq_len=16, enc_attn_dim_head=8,
        dec_num_tokens=64, dec_depth=1, dec_heads=4, dec_max_seq_len=16, dec_attn_dim_head=8,
    )  # fmt: skip

    def make(n: int) -> tuple[torch.Tensor, ...]:
        lengths = torch.randint(3, 13, (n, 1))
        return (*_tokens(n), torch.randint(0, 64, (n, 7)), torch.arange(12) < lengths)

    return Program(model, make, loss=lambda loss: loss)


def x_transformers__continuous_with_mask() -> Program:
    from x_transformers import ContinuousTransformerWrapper, Encoder

    class Lengths(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            layers = Encoder(
                dim=32, depth=2, heads=4, attn_dim_head=8, attn_kv_heads=2, attn_qk_norm=True,
                macaron=True, sandwich_norm=True,
            )  # fmt: skip
            self.model = ContinuousTransformerWrapper(
                dim_in=32, dim_out=4, max_seq_len=16, probabilistic=True, attn_layers=layers
            )

        def forward(self, x: torch.Tensor, lengths: torch.Tensor) -> Any:
            return self.model(x, lens=lengths)

    return Program(Lengths(), lambda n: (*_signal(n), torch.randint(4, 17, (n,))))


def x_transformers__vision() -> Program:
    from x_transformers import Encoder, ViTransformerWrapper

    layers = Encoder(
        dim=32, depth=2, heads=4, attn_dim_head=8, ff_swish=True, num_residual_streams=2,
        attn_post_talking_heads=True,
    )  # fmt: skip
    model = ViTransformerWrapper(
        image_size=16, patch_size=4, num_classes=10, num_register_tokens=2, attn_layers=layers
    )
    return Program(model, lambda n: (torch.randn(n, 3, 16, 16),))


def x_transformers__numbers_in_text() -> Program:
    from x_transformers import Decoder, XValTransformerWrapper

    model = XValTransformerWrapper(
        num_tokens=64, numerical_token_id=3, max_seq_len=16,
        attn_layers=Decoder(dim=32, depth=1, heads=4, attn_dim_head=8, shift_tokens=1),
    )  # fmt: skip
    return Program(model, lambda n: (torch.randint(0, 8, (n, 12)), torch.randn(n, 12)))


def x_transformers__next_token_loss() -> Program:
    from x_transformers import AutoregressiveWrapper, Decoder, TransformerWrapper

    layers = Decoder(dim=32, depth=2, heads=4, attn_dim_head=8, attn_flash=True, rotary_xpos=True)
    model = TransformerWrapper(
        num_tokens=64, max_seq_len=16, tie_embedding=True, use_abs_pos_emb=False,
        attn_layers=layers,
    )  # fmt: skip
    return Program(AutoregressiveWrapper(model, pad_value=0), _tokens, loss=lambda loss: loss)


# -- attention in linear time


def local_attention__transformer() -> Program:
    from local_attention import LocalTransformer

    model = LocalTransformer(
        num_tokens=64, dim=32, depth=2, max_seq_len=32, local_attn_window_size=4, heads=4,
        dim_head=8, causal=True,
    )  # fmt: skip
    return Program(model, _tokens)


def linear_attention_transformer__causal() -> Program:
    from linear_attention_transformer import LinearAttentionTransformerLM

    model = LinearAttentionTransformerLM(
        num_tokens=64, dim=32, depth=2, max_seq_len=16, heads=4, dim_head=8, causal=True,
        n_local_attn_heads=2, local_attn_window_size=4, blindspot_size=2, ff_glu=True,
        use_axial_pos_emb=False,
    )  # fmt: skip
    return Program(model, lambda n: (torch.randint(0, 64, (n, 16)),))


def linear_attention_transformer__reversible() -> Program:
    from linear_attention_transformer import LinearAttentionTransformerLM

    model = LinearAttentionTransformerLM(
        num_tokens=64, dim=32, depth=2, max_seq_len=16, heads=4, dim_head=8, reversible=True,
        ff_chunks=2, use_rotary_emb=True, use_axial_pos_emb=False,
    )  # fmt: skip
    return Program(model, lambda n: (torch.randint(0, 64, (n, 16)),))


def linformer__language_model() -> Program:
    from linformer import LinformerLM

    model = LinformerLM(
        num_tokens=64, dim=32, seq_len=12, depth=2, heads=4, dim_head=8, k=6, one_kv_head=True,
        share_kv=True,
    )  # fmt: skip
    return Program(model, _tokens)


def performer_pytorch__language_model() -> Program:
    from performer_pytorch import PerformerLM

    model = PerformerLM(
        num_tokens=64, max_seq_len=16, dim=32, depth=2, heads=4, dim_head=8, nb_features=12,
        use_rezero=True, shift_tokens=True, auto_check_redraw=False,
    )  # fmt: skip
    return Program(model, _tokens)


def performer_pytorch__generalized_causal() -> Program:
    from performer_pytorch.performer_pytorch import FastAttention, causal_linear_attention_noncuda

    class Causal(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.project = nn.Linear(32, 96)
            self.attention = FastAttention(8, nb_features=12, generalized_attention=True)
            self.attention.causal_linear_fn = causal_linear_attention_noncuda
            self.attention.causal = True

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            q, k, v = self.project(x).unflatten(-1, (12, 8)).transpose(1, 2).chunk(3, dim=1)
            return self.attention(q, k, v)

    return Program(Causal(), _signal)


def nystrom_attention__nystromformer() -> Program:
    from nystrom_attention import Nystromformer

    model = Nystromformer(
        dim=32, depth=2, dim_head=8, heads=4, num_landmarks=4, attn_values_residual_conv_kernel=5
    )
    return Program(model, lambda n: (torch.randn(n, 14, 32), torch.ones(n, 14, dtype=torch.bool)))


def h_transformer_1d__causal() -> Program:
    from h_transformer_1d import HTransformer1D

    model = HTransformer1D(
        num_tokens=64, dim=32, depth=2, causal=True, max_seq_len=32, heads=4, dim_head=8,
        block_size=4, reversible=False, shift_tokens=True,
    )  # fmt: skip

    def make(n: int) -> tuple[torch.Tensor, ...]:
        return torch.randint(0, 64, (n, 24)), torch.arange(24) < torch.randint(4, 25, (n, 1))

    return Program(model, make)


def routing_transformer__causal() -> Program:
    """Tokens attend within the clusters of an online k-means."""
    from routing_transformer import RoutingTransformerLM

    model = RoutingTransformerLM(
        num_tokens=64, dim=32, depth=1, max_seq_len=16, heads=4, dim_head=8, window_size=4,
        causal=True, n_local_attn_heads=2, local_attn_window_size=4,
    )  # fmt: skip
    model.cancel_kmeans_update()  # its hook of the backward pass
    model.train()(torch.randint(0, 64, (8, 16)))  # places the means
    return Program(model, lambda n: (torch.randint(0, 64, (n, 16)),))


def reformer_pytorch__full_attention() -> Program:
    from reformer_pytorch import ReformerLM

    model = ReformerLM(
        num_tokens=64, dim=32, depth=2, max_seq_len=16, heads=4, dim_head=8, bucket_size=4,
        use_full_attn=True, causal=True, ff_chunks=2, axial_position_emb=True,
        axial_position_shape=(4, 4),
    )  # fmt: skip
    return Program(model, lambda n: (torch.randint(0, 64, (n, 16)),))


# -- latents and memories


def perceiver_pytorch__images() -> Program:
    from perceiver_pytorch import Perceiver

    model = Perceiver(
        input_channels=3, input_axis=2, num_freq_bands=2, max_freq=4.0, depth=2, num_latents=6,
        latent_dim=16, cross_dim_head=8, latent_heads=2, latent_dim_head=8, num_classes=5,
        weight_tie_layers=True,
    )  # fmt: skip
    return Program(model, lambda n: (torch.randn(n, 8, 8, 3),))


def perceiver_pytorch__queries() -> Program:
    from perceiver_pytorch import PerceiverIO

    model = PerceiverIO(
        dim=16, queries_dim=12, logits_dim=5, depth=2, num_latents=6, latent_dim=16,
        cross_dim_head=8, latent_heads=2, latent_dim_head=8, decoder_ff=True,
    )  # fmt: skip

    def make(n: int) -> tuple[torch.Tensor, ...]:
        mask = torch.arange(10) < torch.randint(3, 11, (n, 1))
        return torch.randn(n, 10, 16), mask, torch.randn(7, 12)

    return Program(model, make)


def recurrent_memory_transformer_pytorch__segments() -> Program:
    from recurrent_memory_transformer_pytorch import RecurrentMemoryTransformer

    class Segments(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.model = RecurrentMemoryTransformer(
                num_tokens=64, num_memory_tokens=3, dim=32, depth=2, causal=True, dim_head=8,
                heads=4, seq_len=8, use_xl_memories=True,
            )  # fmt: skip

        def forward(self, tokens: torch.Tensor) -> Any:
            memories, extended, logits = None, None, []
            for segment in tokens.split(8, dim=1):
                part, memories, extended = self.model(segment, memories, xl_memories=extended)
                logits.append(part)
            return torch.cat(logits, dim=1), memories

    return Program(Segments(), lambda n: (torch.randint(0, 64, (n, 16)),))


def titans_pytorch__neural_memory() -> Program:
    """The weights of a small network are updated by gradients within the forward pass."""
    from titans_pytorch import NeuralMemory

    class Memory(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.memory = NeuralMemory(dim=16, chunk_size=4, dim_head=8, heads=2)

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return self.memory(x)[0]

    return Program(Memory(), lambda n: (torch.randn(n, 16, 16),))


def titans_pytorch__memory_as_context() -> Program:
    from titans_pytorch import MemoryAsContextTransformer

    model = MemoryAsContextTransformer(
        num_tokens=64, dim=16, depth=2, segment_len=4, num_persist_mem_tokens=2,
        num_longterm_mem_tokens=2, dim_head=8, heads=2, neural_memory_layers=(2,),
    )  # fmt: skip
    return Program(model, lambda n: (torch.randint(0, 64, (n, 12)),))


def rotary_embedding_torch__axial_and_xpos() -> Program:
    from rotary_embedding_torch import RotaryEmbedding, apply_rotary_emb

    class Rotation(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.pixels = RotaryEmbedding(dim=4, freqs_for="pixel", max_freq=16)
            self.text = RotaryEmbedding(dim=8, use_xpos=True)
            self.learned = RotaryEmbedding(dim=8, learned_freq=True)

        def forward(self, q: torch.Tensor, k: torch.Tensor, image: torch.Tensor) -> Any:
            rotated = self.text.rotate_queries_and_keys(q, k)
            frequencies = self.pixels.get_axial_freqs(4, 6)
            return rotated, self.learned(q[0, 0].sum(-1)), apply_rotary_emb(frequencies, image)

    def make(n: int) -> tuple[torch.Tensor, ...]:
        return torch.randn(n, 2, 9, 8), torch.randn(n, 2, 9, 8), torch.randn(n, 4, 6, 8)

    return Program(Rotation(), make, modes=("compile", "export"))  # it cannot be copied


def colt5_attention__routed_block() -> Program:
    """The router picks tokens for the heavy branches by coordinate descent."""
    from colt5_attention import ConditionalRoutedTransformerBlock

    model = ConditionalRoutedTransformerBlock(
        32, light_dim_head=8, light_heads=2, light_window_size=4, heavy_dim_head=8, heavy_heads=2,
        heavy_ff_mult=2, num_heavy_ff_tokens=4, num_heavy_attn_tokens_q=4,
        num_heavy_attn_tokens_kv=4,
    )  # fmt: skip
    return Program(model, lambda n: (*_signal(n), torch.ones(n, 16, dtype=torch.bool)))

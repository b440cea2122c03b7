"""Structured prediction, sparse maps, mixtures of experts, codebooks and adapters."""

from __future__ import annotations

from typing import Any

import torch
from torch import nn

from tests.zoo.program import Program


def _signal(n: int) -> tuple[torch.Tensor]:
    return (torch.randn(n, 8, 16),)


# -- torchcrf (pytorch-crf)


def _tagged(n: int) -> tuple[torch.Tensor, ...]:
    mask = torch.arange(7) < torch.randint(1, 8, (n, 1))
    return torch.randn(n, 7, 8), torch.randint(0, 5, (n, 7)), mask


def torchcrf__likelihood() -> Program:
    from torchcrf import CRF

    class Tagger(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.rnn = nn.LSTM(8, 6, bidirectional=True, batch_first=True)
            self.head, self.crf = nn.Linear(12, 5), CRF(5, batch_first=True)

        def forward(self, x: torch.Tensor, tags: torch.Tensor, mask: torch.Tensor) -> Any:
            return -self.crf(self.head(self.rnn(x)[0]), tags, mask=mask, reduction="token_mean")

    return Program(Tagger(), _tagged, loss=lambda loss: loss)


def torchcrf__decode() -> Program:
    """The best tags, as lists of Python integers."""
    from torchcrf import CRF

    class Decoder(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.head, self.crf = nn.Linear(8, 5), CRF(5, batch_first=True)

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return torch.tensor(self.crf.decode(self.head(x)))

    return Program(Decoder(), lambda n: (torch.randn(n, 7, 8),), modes=("compile",))


# -- torch_struct


class _Structure(nn.Module):
    def __init__(self, distribution: Any, **options: Any) -> None:
        super().__init__()
        self.scale = nn.Parameter(torch.tensor(0.5))
        self.distribution, self.options = distribution, options

    def forward(self, potentials: torch.Tensor) -> Any:
        structure = self.distribution(self.scale * potentials, **self.options)
        return structure.partition, structure.marginals


def torch_struct__linear_chain() -> Program:
    from torch_struct import LinearChainCRF

    return Program(_Structure(LinearChainCRF), lambda n: (torch.randn(n, 6, 4, 4),))


def torch_struct__non_projective_trees() -> Program:
    from torch_struct import NonProjectiveDependencyCRF

    model = _Structure(NonProjectiveDependencyCRF)
    return Program(model, lambda n: (torch.randn(n, 5, 5),))


def torch_struct__best_chain_and_entropy() -> Program:
    from torch_struct import LinearChainCRF

    class Best(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.project = nn.Linear(4, 4)

        def forward(self, potentials: torch.Tensor) -> Any:
            chain = LinearChainCRF(self.project(potentials))
            best = chain.argmax
            return best.detach(), chain.max, chain.entropy, chain.log_prob(best.detach())

    return Program(Best(), lambda n: (torch.randn(n, 6, 4, 4),))


# -- entmax


def entmax__sparse_attention() -> Program:
    from entmax import entmax15, entmax_bisect, sparsemax

    class Attention(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.project = nn.Linear(16, 48)
            self.alpha = nn.Parameter(torch.tensor(1.3))

        def forward(self, x: torch.Tensor) -> Any:
            q, k, v = self.project(x).chunk(3, dim=-1)
            scores = q @ k.transpose(1, 2)
            bisected = entmax_bisect(scores, alpha=self.alpha, n_iter=12)
            return sparsemax(scores, dim=-1) @ v, entmax15(scores, dim=1), bisected

    return Program(Attention(), _signal)


def entmax__losses() -> Program:
    from entmax import Entmax15Loss, SparsemaxBisectLoss

    class Loss(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.head = nn.Linear(16, 9)
            self.full = Entmax15Loss(k=5, reduction="sum")
            self.bisected = SparsemaxBisectLoss(n_iter=12)

        def forward(self, x: torch.Tensor, y: torch.Tensor) -> Any:
            logits = self.head(x).flatten(0, 1)
            return self.full(logits, y.flatten()), self.bisected(logits, y.flatten())

    def make(n: int) -> tuple[torch.Tensor, ...]:
        return (*_signal(n), torch.randint(0, 9, (n, 8)))

    return Program(Loss(), make, loss=lambda losses: 0.1 * losses[0] + losses[1].mean())


# -- coral_pytorch


def coral_pytorch__ordinal_regression() -> Program:
    from coral_pytorch.dataset import levels_from_labelbatch, proba_to_label
    from coral_pytorch.layers import CoralLayer
    from coral_pytorch.losses import coral_loss

    class Ordinal(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.layer = CoralLayer(16, num_classes=5)

        def forward(self, x: torch.Tensor, y: torch.Tensor) -> Any:
            logits = self.layer(x)
            levels = levels_from_labelbatch(y, num_classes=5).type_as(logits)
            return coral_loss(logits, levels), proba_to_label(torch.sigmoid(logits))

    return Program(Ordinal(), lambda n: (torch.randn(n, 16), torch.randint(0, 5, (n,))))


def coral_pytorch__conditional_loss() -> Program:
    """The loss selects the samples of each task by their labels."""
    from coral_pytorch.losses import CornLoss

    class Ordinal(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.head, self.corn = nn.Linear(16, 4), CornLoss(num_classes=5)

        def forward(self, x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
            return self.corn(self.head(x), y)

    def make(n: int) -> tuple[torch.Tensor, ...]:
        return torch.randn(4 * n, 16), torch.randint(0, 5, (4 * n,))

    return Program(Ordinal(), make)


# -- mixtures of experts


def soft_moe_pytorch__slots() -> Program:
    from soft_moe_pytorch import DynamicSlotsSoftMoE, SoftMoE

    class Both(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.fixed = SoftMoE(dim=16, seq_len=8, num_experts=4, is_distributed=False)
            self.dynamic = DynamicSlotsSoftMoE(dim=16, num_experts=2, geglu=True)

        def forward(self, x: torch.Tensor, mask: torch.Tensor) -> torch.Tensor:
            return self.dynamic(x + self.fixed(x), mask=mask)

    def make(n: int) -> tuple[torch.Tensor, ...]:
        return (*_signal(n), torch.arange(8) < torch.randint(2, 9, (n, 1)))

    return Program(Both(), make)


def mixture_of_experts__hierarchical() -> Program:
    from mixture_of_experts import HeirarchicalMoE

    model = HeirarchicalMoE(
        dim=16, num_experts=(2, 2), hidden_dim=8, second_policy_train="all",
        second_policy_eval="all",
    )  # fmt: skip
    return Program(model, _signal)


def st_moe_pytorch__sparse_block() -> Program:
    from st_moe_pytorch import MoE, SparseMoEBlock

    class Block(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            moe = MoE(dim=16, num_experts=4, gating_top_n=2, is_distributed=False)
            self.block = SparseMoEBlock(moe, add_ff_before=True)

        def forward(self, x: torch.Tensor) -> tuple[torch.Tensor, ...]:
            return tuple(self.block(x))

    return Program(Block(), _signal)


# -- vector_quantize_pytorch


def vector_quantize_pytorch__moving_average() -> Program:
    """Codes and their counts are moving averages in train mode."""
    from vector_quantize_pytorch import VectorQuantize

    model = VectorQuantize(
        dim=16, codebook_size=12, codebook_dim=4, heads=2, separate_codebook_per_head=True,
        decay=0.8, commitment_weight=0.5, use_cosine_sim=True, orthogonal_reg_weight=0.1,
    )  # fmt: skip
    return Program(model, _signal)


def vector_quantize_pytorch__residual() -> Program:
    from vector_quantize_pytorch import ResidualVQ

    class Residual(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.quantizer = ResidualVQ(
                dim=16, num_quantizers=3, codebook_size=12, codebook_dim=8,
                shared_codebook=True, rotation_trick=True,
            )  # fmt: skip

        def forward(self, x: torch.Tensor) -> Any:
            quantized, indices, losses, codes = self.quantizer(x, return_all_codes=True)
            return (
                quantized,
                indices,
                losses,
                codes,
                self.quantizer.get_output_from_indices(indices),
            )

    return Program(Residual(), _signal)


def vector_quantize_pytorch__finite_scalars() -> Program:
    from vector_quantize_pytorch import FSQ, ResidualFSQ

    class Scalars(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.single = FSQ(levels=[8, 5, 5], dim=16)
            self.residual = ResidualFSQ(levels=[5, 3, 3], num_quantizers=2, dim=16)

        def forward(self, x: torch.Tensor) -> Any:
            codes, indices = self.single(x)
            return codes, indices, self.single.indices_to_codes(indices), self.residual(x)

    return Program(Scalars(), _signal)


def vector_quantize_pytorch__lookup_free() -> Program:
    from vector_quantize_pytorch import LFQ

    model = LFQ(codebook_size=16, dim=6, num_codebooks=2, entropy_loss_weight=0.2)
    return Program(model, lambda n: (torch.randn(n, 6, 3, 4),))


def vector_quantize_pytorch__frozen_basis() -> Program:
    from vector_quantize_pytorch import RandomProjectionQuantizer, SimVQ

    class Basis(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.simple = SimVQ(dim=16, codebook_size=12, rotation_trick=True)
            self.random = RandomProjectionQuantizer(
                dim=16, num_codebooks=3, codebook_dim=4, codebook_size=12
            )

        def forward(self, x: torch.Tensor) -> Any:
            return self.simple(x), self.random(x)

    return Program(Basis(), _signal)


# -- peft


def _adapted(config: Any) -> nn.Module:
    from peft import get_peft_model
    from transformers import LlamaConfig, LlamaForCausalLM

    llama = LlamaForCausalLM(
        LlamaConfig(
            vocab_size=64, hidden_size=16, intermediate_size=24, num_hidden_layers=1,
            num_attention_heads=2, num_key_value_heads=1, max_position_embeddings=32,
            use_cache=False, tie_word_embeddings=False,
        )
    )  # fmt: skip
    adapted = get_peft_model(llama, config)
    for name, parameter in adapted.named_parameters():
        if parameter.requires_grad:  # adapters start as the identity
            nn.init.normal_(parameter, std=0.1)
            parameter.data += 1.0 if "magnitude" in name or "ia3" in name else 0.0

    class Logits(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.model = adapted

        def forward(self, tokens: torch.Tensor) -> torch.Tensor:
            return self.model(input_ids=tokens).logits

    return Logits()


def _words(n: int) -> tuple[torch.Tensor]:
    return (torch.randint(0, 64, (n, 6)),)


def peft__dora() -> Program:
    from peft import LoraConfig

    config = LoraConfig(r=2, use_dora=True, target_modules=["q_proj", "v_proj", "embed_tokens"])
    return Program(_adapted(config), _words)


def peft__ia3() -> Program:
    from peft import IA3Config

    names = ["k_proj", "v_proj", "down_proj"]
    config = IA3Config(target_modules=names, feedforward_modules=["down_proj"])
    return Program(_adapted(config), _words)


def peft__orthogonal() -> Program:
    """Blocks are rotated by the Cayley transform of a learned matrix."""
    from peft import OFTConfig

    config = OFTConfig(oft_block_size=4, target_modules=["q_proj"], use_cayley_neumann=False)
    return Program(_adapted(config), _words)


def peft__prompt() -> Program:
    from peft import PrefixTuningConfig

    config = PrefixTuningConfig(task_type="CAUSAL_LM", num_virtual_tokens=3, prefix_projection=True)
    return Program(_adapted(config), _words)

"""Models of tables and click-through rates."""

from __future__ import annotations

from typing import Any

import torch
from torch import nn

from tests.zoo.program import Program

_SIZES = [4, 7, 3]


def _columns(n: int) -> tuple[torch.Tensor, torch.Tensor]:
    """Return five numbers and three categories of each row."""
    categories = torch.stack([torch.randint(0, size, (n,)) for size in _SIZES], dim=1)
    return torch.randn(n, 5), categories


def _reversed_columns(n: int) -> tuple[torch.Tensor, torch.Tensor]:
    return _columns(n)[::-1]


# -- rtdl


def rtdl_revisiting_models__ft_transformer() -> Program:
    from rtdl_revisiting_models import FTTransformer

    model = FTTransformer(
        n_cont_features=5, cat_cardinalities=_SIZES, d_out=2, n_blocks=2, d_block=16,
        attention_n_heads=2, attention_dropout=0.0, ffn_d_hidden_multiplier=4 / 3,
        ffn_dropout=0.0, residual_dropout=0.0, linformer_kv_compression_ratio=0.5,
        linformer_kv_compression_sharing="headwise",
    )  # fmt: skip
    return Program(model, _columns)


def rtdl_revisiting_models__resnet() -> Program:
    from rtdl_revisiting_models import ResNet

    model = ResNet(
        d_in=5, d_out=3, n_blocks=2, d_block=8, d_hidden_multiplier=2.0, dropout1=0.0,
        dropout2=0.0,
    )  # fmt: skip
    return Program(model, lambda n: (torch.randn(2 * n, 5),))


def rtdl_num_embeddings__piecewise_linear() -> Program:
    from rtdl_num_embeddings import (
        PeriodicEmbeddings,
        PiecewiseLinearEmbeddings,
        PiecewiseLinearEncoding,
        compute_bins,
    )

    bins = compute_bins(torch.randn(60, 5), n_bins=6)

    class Embeddings(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.encode = PiecewiseLinearEncoding(bins)
            self.embed = PiecewiseLinearEmbeddings(bins, 4, activation=True, version="B")
            self.periodic = PeriodicEmbeddings(5, 4, n_frequencies=3, lite=True)

        def forward(self, x: torch.Tensor) -> Any:
            return self.encode(x), self.embed(x), self.periodic(x)

    return Program(Embeddings(), lambda n: (torch.randn(n, 5),))


def tabm__ensemble() -> Program:
    from rtdl_num_embeddings import PiecewiseLinearEmbeddings, compute_bins
    from tabm import TabM

    bins = compute_bins(torch.randn(60, 5), n_bins=4)
    model = TabM.make(
        n_num_features=5, cat_cardinalities=_SIZES, d_out=2, n_blocks=2, d_block=16, k=4,
        dropout=0.0,
        num_embeddings=PiecewiseLinearEmbeddings(bins, 4, activation=False, version="B"),
    )  # fmt: skip
    return Program(model, _columns)


# -- pytorch_tabnet


def pytorch_tabnet__network() -> Program:
    from pytorch_tabnet.tab_network import TabNet

    model = TabNet(
        5, 3, n_d=4, n_a=4, n_steps=2, cat_idxs=[1], cat_dims=[4], cat_emb_dim=[2],
        virtual_batch_size=4, mask_type="entmax", group_attention_matrix=torch.eye(5),
    )  # fmt: skip

    def make(n: int) -> tuple[torch.Tensor]:
        x = torch.randn(4 * n, 5)
        x[:, 1] = torch.randint(0, 4, (4 * n,))
        return (x,)

    return Program(model, make)


def pytorch_tabnet__explanations() -> Program:
    from pytorch_tabnet.tab_network import TabNetNoEmbeddings

    class Masks(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            groups = torch.eye(5)
            self.net = TabNetNoEmbeddings(5, 2, n_d=4, n_a=4, group_attention_matrix=groups)

        def forward(self, x: torch.Tensor) -> Any:
            return self.net.forward_masks(x)

    return Program(Masks(), lambda n: (torch.randn(4 * n, 5),))


# -- tab_transformer_pytorch


def tab_transformer_pytorch__tab_transformer() -> Program:
    from tab_transformer_pytorch import TabTransformer

    model = TabTransformer(
        categories=tuple(_SIZES), num_continuous=5, dim=16, dim_out=2, depth=2, heads=2,
        dim_head=8, mlp_act=nn.SELU(), continuous_mean_std=torch.rand(5, 2) + 0.5,
    )  # fmt: skip
    return Program(model, _reversed_columns)


def tab_transformer_pytorch__attention_maps() -> Program:
    from tab_transformer_pytorch import FTTransformer

    class Maps(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.model = FTTransformer(
                categories=tuple(_SIZES), num_continuous=5, dim=16, dim_out=1, depth=2, heads=2,
                dim_head=8,
            )  # fmt: skip

        def forward(self, categories: torch.Tensor, numbers: torch.Tensor) -> Any:
            return self.model(categories, numbers, return_attn=True)

    return Program(Maps(), _reversed_columns)

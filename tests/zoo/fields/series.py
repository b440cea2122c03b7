"""Forecasts of time series and recurrent networks."""

from __future__ import annotations

from typing import Any

import torch
from torch import nn

from tests.zoo.program import Program

_LENGTH = 24


class _Returned(nn.Module):
    """A model that is called with named arguments, and some of its results."""

    def __init__(self, model: nn.Module, names: tuple[str, ...], results: tuple[str, ...]) -> None:
        super().__init__()
        self.model, self.names, self.results = model, names, results

    def forward(self, *args: torch.Tensor) -> Any:
        output = self.model(**dict(zip(self.names, args, strict=True)))
        return {name: getattr(output, name) for name in self.results}


def _history(n: int) -> torch.Tensor:
    steps = torch.arange(_LENGTH) * (0.2 + torch.rand(n, 1))
    return 3.0 + torch.sin(steps) + 0.1 * torch.randn(n, _LENGTH)


def _observed(n: int) -> tuple[torch.Tensor, torch.Tensor]:
    return _history(n), (torch.rand(n, _LENGTH) < 0.8).float()


# -- chronos


def chronos__bolt() -> Program:
    from chronos.chronos_bolt import ChronosBoltModelForForecasting
    from transformers import T5Config

    config = T5Config(
        d_model=16, d_kv=4, d_ff=32, num_layers=1, num_decoder_layers=1, num_heads=4,
        feed_forward_proj="relu", decoder_start_token_id=0, pad_token_id=0,
        chronos_config={
            "context_length": 32, "prediction_length": 6, "input_patch_size": 4,
            "input_patch_stride": 4, "quantiles": [0.1, 0.5, 0.9], "use_reg_token": True,
        },
    )  # fmt: skip
    model = ChronosBoltModelForForecasting(config)

    def make(n: int) -> tuple[torch.Tensor, ...]:
        history = _history(n)[:, :22]
        history[0, :3] = torch.nan
        target = torch.randn(n, 6)
        target[0, -1] = torch.nan
        return history, target

    model = _Returned(model, ("context", "target"), ("loss", "quantile_preds"))
    return Program(model, make, loss=lambda results: results["loss"])


def chronos__groups() -> Program:
    """Series of one group attend to each other."""
    from chronos.chronos2.config import Chronos2CoreConfig
    from chronos.chronos2.model import Chronos2Model

    config = Chronos2CoreConfig(
        d_model=16, d_kv=4, d_ff=32, num_layers=1, num_heads=4,
        chronos_config={
            "context_length": 32, "output_patch_size": 4, "input_patch_size": 4,
            "input_patch_stride": 4, "quantiles": [0.1, 0.5, 0.9], "use_reg_token": True,
            "use_arcsinh": True, "max_output_patches": 2, "time_encoding_scale": 32,
        },
    )  # fmt: skip

    class Groups(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.model = Chronos2Model(config)

        def forward(self, history: torch.Tensor, groups: torch.Tensor) -> Any:
            return self.model(history, group_ids=groups, num_output_patches=2).quantile_preds

    return Program(Groups(), lambda n: (_history(n), torch.randint(0, 2, (n,))))


# -- gluonts


def gluonts__deepar_loss() -> Program:
    from gluonts.torch.model.deepar.module import DeepARModel

    class Loss(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.model = DeepARModel(
                freq="h", context_length=8, prediction_length=4, num_feat_dynamic_real=2,
                num_feat_static_real=1, num_feat_static_cat=1, cardinality=[5], hidden_size=8,
                lags_seq=[1, 2, 7], dropout_rate=0.0,
            )  # fmt: skip

        def forward(self, *args: torch.Tensor) -> torch.Tensor:
            return self.model.loss(*args)

    def make(n: int) -> tuple[torch.Tensor, ...]:
        return (
            torch.randint(0, 5, (n, 1)), torch.randn(n, 1), torch.randn(n, 15, 2),
            2 + torch.rand(n, 15), (torch.rand(n, 15) < 0.9).float(), torch.randn(n, 4, 2),
            2 + torch.rand(n, 4), torch.ones(n, 4),
        )  # fmt: skip

    return Program(Loss(), make, loss=lambda losses: losses.mean())


def gluonts__patch_transformer() -> Program:
    from gluonts.torch.distributions import StudentTOutput
    from gluonts.torch.model.patch_tst.module import PatchTSTModel

    model = PatchTSTModel(
        prediction_length=4, context_length=_LENGTH, patch_len=8, stride=4, padding_patch="end",
        d_model=16, nhead=2, dim_feedforward=16, num_feat_dynamic_real=0, dropout=0.0,
        activation="relu", norm_first=False, num_encoder_layers=1, scaling="std",
        distr_output=StudentTOutput(),
    )  # fmt: skip
    return Program(model, _observed)


def gluonts__temporal_fusion() -> Program:
    from gluonts.torch.model.tft.module import TemporalFusionTransformerModel

    model = TemporalFusionTransformerModel(
        context_length=_LENGTH, prediction_length=4, d_feat_static_real=[2],
        c_feat_static_cat=[3], d_feat_dynamic_real=[1, 2], d_hidden=8, d_var=8, num_heads=2,
        dropout_rate=0.0,
    )  # fmt: skip

    def make(n: int) -> tuple[torch.Tensor, ...]:
        static = torch.randn(n, 2), torch.randint(0, 3, (n, 1))
        return (*_observed(n), *static, torch.randn(n, _LENGTH + 4, 3))

    return Program(model, make)


def gluonts__negative_binomial_loss() -> Program:
    from gluonts.torch.distributions import NegativeBinomialOutput
    from gluonts.torch.model.d_linear.module import DLinearModel

    class Loss(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.output = NegativeBinomialOutput()
            self.model = DLinearModel(
                prediction_length=4, context_length=_LENGTH, hidden_dimension=8, kernel_size=5,
                distr_output=self.output,
            )  # fmt: skip

        def forward(self, past: torch.Tensor, mask: torch.Tensor, future: torch.Tensor) -> Any:
            parameters, location, scale = self.model(past, mask)
            distribution = self.output.distribution(parameters, loc=location, scale=scale)
            return -distribution.log_prob(future), distribution.mean

    def make(n: int) -> tuple[torch.Tensor, ...]:
        return (*_observed(n), torch.randint(0, 9, (n, 4)).float())

    return Program(Loss(), make)


# -- pytorch_forecasting


def pytorch_forecasting__nhits() -> Program:
    from pytorch_forecasting.models.nhits.sub_modules import NHiTS

    model = NHiTS(
        context_length=_LENGTH, prediction_length=6, output_size=[2], static_size=3,
        encoder_covariate_size=2, decoder_covariate_size=1, static_hidden_size=4,
        n_blocks=[1, 1, 1], n_layers=[2, 2, 2], hidden_size=3 * [[16, 16]],
        pooling_sizes=[4, 2, 1], downsample_frequencies=[3, 2, 1], pooling_mode="max",
        interpolation_mode="linear", dropout=0.0, activation="ReLU",
        initialization="lecun_normal", batch_normalization=False, shared_weights=False,
        naive_level=True,
    )  # fmt: skip

    def make(n: int) -> tuple[torch.Tensor, ...]:
        return (
            _history(n)[..., None], torch.ones(n, _LENGTH), torch.randn(n, _LENGTH, 2),
            torch.randn(n, 6, 1), torch.randn(n, 3),
        )  # fmt: skip

    return Program(model, make)


def pytorch_forecasting__nbeats() -> Program:
    from pytorch_forecasting.models.nbeats.sub_modules import (
        NBEATSGenericBlock,
        NBEATSSeasonalBlock,
        NBEATSTrendBlock,
    )

    class Stack(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            sizes = {"backcast_length": _LENGTH, "forecast_length": 6}
            self.blocks = nn.ModuleList(
                [
                    NBEATSTrendBlock(units=16, thetas_dim=3, **sizes),
                    NBEATSSeasonalBlock(units=16, min_period=1, **sizes),
                    NBEATSGenericBlock(units=16, thetas_dim=4, **sizes),
                ]
            )

        def forward(self, history: torch.Tensor) -> Any:
            forecast = 0.0
            for block in self.blocks:
                backcast, part = block(history)
                history, forecast = history - backcast, forecast + part
            return forecast, history

    return Program(Stack(), lambda n: (_history(n),))


def pytorch_forecasting__variable_selection() -> Program:
    from pytorch_forecasting.models.temporal_fusion_transformer.sub_modules import (
        InterpretableMultiHeadAttention,
        VariableSelectionNetwork,
    )

    class Selection(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            scale = nn.ModuleDict({"price": nn.Linear(1, 8)})
            self.select = VariableSelectionNetwork(
                {"price": 8, "day": 4}, 8, {"day": True}, 0.0, 3, prescalers=scale
            )
            self.attend = InterpretableMultiHeadAttention(n_head=2, d_model=8)

        def forward(self, variables: dict[str, torch.Tensor], context: torch.Tensor) -> Any:
            x, weights = self.select(variables, context)
            mask = torch.ones(1, 9, 9, dtype=torch.bool).triu(1)
            return *self.attend(x, x, x, mask), weights

    def make(n: int) -> tuple[Any, ...]:
        variables = {"price": torch.randn(n, 9, 1), "day": torch.randn(n, 9, 4)}
        return variables, torch.randn(n, 9, 3)

    return Program(Selection(), make)


def pytorch_forecasting__quantile_loss() -> Program:
    from pytorch_forecasting.metrics import QuantileLoss

    class Loss(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.rnn = nn.GRU(1, 8, batch_first=True)
            self.head = nn.Linear(8, 3)
            self.quantile_loss = QuantileLoss(quantiles=[0.1, 0.5, 0.9])

        def forward(self, x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
            predicted = self.head(self.rnn(x[..., None])[0])
            return self.quantile_loss.loss(predicted, y)

    return Program(Loss(), lambda n: (_history(n), torch.randn(n, _LENGTH)))


# -- convolutions and transformers


def pytorch_tcn__gated() -> Program:
    from pytorch_tcn import TCN

    model = TCN(
        num_inputs=4, num_channels=[8, 8, 6], kernel_size=3, dropout=0.0, causal=True,
        use_skip_connections=True, use_gate=True, embedding_shapes=[(3,)], output_projection=2,
    )  # fmt: skip
    return Program(model, lambda n: (torch.randn(n, 4, 20), torch.randn(n, 3)))


def pytorch_tcn__not_causal() -> Program:
    from pytorch_tcn import TCN

    model = TCN(
        num_inputs=4, num_channels=[8, 8], dropout=0.0, causal=False, use_norm="batch_norm",
        activation="leaky_relu", input_shape="NLC", dilation_reset=2,
    )  # fmt: skip
    return Program(model, lambda n: (torch.randn(n, 20, 4),))


def itransformer__forecast() -> Program:
    from iTransformer import iTransformer

    model = iTransformer(
        num_variates=5, lookback_len=_LENGTH, dim=16, depth=2, heads=2, dim_head=8,
        pred_length=(4, 8), use_reversible_instance_norm=True,
    )  # fmt: skip
    return Program(
        model,
        lambda n: (torch.randn(n, _LENGTH, 5),),
        loss=lambda forecasts: sum(x.abs().clamp(max=1.0).mean() for x in forecasts.values()),
    )


def itransformer__time_and_variates() -> Program:
    from iTransformer import iTransformer2D

    model = iTransformer2D(
        num_variates=5, num_time_tokens=6, lookback_len=_LENGTH, dim=16, depth=1, heads=2,
        dim_head=8, pred_length=4, use_reversible_instance_norm=True,
    )  # fmt: skip
    return Program(model, lambda n: (torch.randn(n, _LENGTH, 5),))


# -- recurrent networks and state spaces


def ncps__closed_form() -> Program:
    from ncps.torch import CfC
    from ncps.wirings import AutoNCP

    model = CfC(4, AutoNCP(12, 3), mixed_memory=True, batch_first=True)
    return Program(model, lambda n: (torch.randn(n, 6, 4),))


def ncps__liquid_time_constants() -> Program:
    from ncps.torch import LTC
    from ncps.wirings import AutoNCP

    model = LTC(4, AutoNCP(10, 3), ode_unfolds=3)
    return Program(model, lambda n: (torch.randn(n, 5, 4), torch.randn(n, 10)))


def mambapy__parallel_scan() -> Program:
    from mambapy.mamba import Mamba, MambaConfig

    config = MambaConfig(d_model=16, n_layers=2, d_state=4, inner_layernorms=True, pscan=True)
    return Program(Mamba(config), lambda n: (torch.randn(n, 12, 16),))


def mambapy__sequential_scan() -> Program:
    from mambapy.mamba import Mamba, MambaConfig

    config = MambaConfig(d_model=16, n_layers=1, d_state=4, pscan=False)
    return Program(Mamba(config), lambda n: (torch.randn(n, 7, 16),))


def mambapy__cached_step() -> Program:
    from mambapy.mamba import Mamba, MambaConfig

    class Step(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.model = Mamba(MambaConfig(d_model=16, n_layers=2, d_state=4))

        def forward(self, x: torch.Tensor, caches: list[tuple[torch.Tensor, torch.Tensor]]) -> Any:
            return self.model.step(x, caches)

    def make(n: int) -> tuple[Any, ...]:
        caches = [(torch.randn(n, 32, 4), torch.randn(n, 32, 3)) for _ in range(2)]
        return torch.randn(n, 16), caches

    return Program(Step(), make)


def xlstm__block_stack() -> Program:
    from xlstm import (
        FeedForwardConfig,
        mLSTMBlockConfig,
        mLSTMLayerConfig,
        sLSTMBlockConfig,
        sLSTMLayerConfig,
        xLSTMBlockStack,
        xLSTMBlockStackConfig,
    )

    matrix = mLSTMLayerConfig(conv1d_kernel_size=4, qkv_proj_blocksize=4, num_heads=2)
    scalar = sLSTMLayerConfig(backend="vanilla", num_heads=2, conv1d_kernel_size=4)
    feed = FeedForwardConfig(proj_factor=1.3, act_fn="gelu")
    config = xLSTMBlockStackConfig(
        mlstm_block=mLSTMBlockConfig(mlstm=matrix),
        slstm_block=sLSTMBlockConfig(slstm=scalar, feedforward=feed),
        context_length=2, num_blocks=2, embedding_dim=16, slstm_at=[1],
    )  # fmt: skip
    return Program(xLSTMBlockStack(config), lambda n: (torch.randn(n, 2, 16),))


def xlstm__large() -> Program:
    from xlstm.xlstm_large.model import xLSTMLarge, xLSTMLargeConfig

    config = xLSTMLargeConfig(
        embedding_dim=32, num_heads=2, num_blocks=2, vocab_size=32, return_last_states=True,
        mode="train", chunkwise_kernel="chunkwise--native_autograd", chunk_size=4,
        sequence_kernel="native_sequence__native", step_kernel="native",
        autocast_kernel_dtype="float32", ffn_round_up_to_multiple_of=8,
    )  # fmt: skip
    return Program(xLSTMLarge(config), lambda n: (torch.randint(0, 32, (n, 8)),))


def minGRU_pytorch__gru_and_lstm() -> Program:  # the name of the package
    from minGRU_pytorch.minGRU import minGRU
    from minGRU_pytorch.minLSTM import minLSTM

    class Both(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.gru, self.lstm = minGRU(16, expansion_factor=1.5), minLSTM(16)

        def forward(self, x: torch.Tensor) -> Any:
            x, state = self.gru(x, return_next_prev_hidden=True)
            step = self.gru(x[:, -1:], prev_hidden=state)
            return self.lstm(x), step

    return Program(Both(), lambda n: (torch.randn(n, 9, 16),))


def gateloop_transformer__complex_states() -> Program:
    from gateloop_transformer import Transformer

    model = Transformer(
        num_tokens=64, dim=16, depth=2, dim_head=8, heads=2, checkpoint_gate_looped_attn=False,
        data_dependent_rel_pos=False,
    )  # fmt: skip
    return Program(model, lambda n: (torch.randint(0, 64, (n, 10)),))

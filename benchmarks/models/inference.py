"""Models of the benchmarks of inference, with random weights and tensor arguments.

``MODELS[name]`` builds a model and its arguments at the size of the benchmarks or of the tests.
Nothing is downloaded; transformers is a development dependency.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import nn

from .architectures import ARCHITECTURES
from .bert import bert
from .other import LstmTagger


@dataclass(frozen=True)
class InferenceModel:
    """A model of the benchmarks.

    `make(small)` returns the model, `inputs(small, batch)` its tensor arguments; `batch` is the
    default batch size.
    """

    name: str
    make: Callable[[bool], nn.Module]
    inputs: Callable[[bool, int], tuple[torch.Tensor, ...]]
    batch: int = 1


class PositionalModel(nn.Module):
    """A transformers model that takes positional tensors and returns its first output."""

    def __init__(self, model: nn.Module, *names: str) -> None:
        super().__init__()
        self.model = model
        self.names = names

    def forward(self, *args: torch.Tensor) -> torch.Tensor:
        arguments = dict(zip(self.names, args, strict=True))
        return self.model(**arguments, return_dict=False)[0]


def _images(size: int, small_size: int) -> Callable[[bool, int], tuple[torch.Tensor, ...]]:
    def inputs(small: bool, batch: int) -> tuple[torch.Tensor, ...]:
        side = small_size if small else size
        return (torch.randn(batch, 3, side, side),)

    return inputs


def _tokens(length: int, masked: bool = False) -> Callable[[bool, int], tuple[torch.Tensor, ...]]:
    def inputs(small: bool, batch: int) -> tuple[torch.Tensor, ...]:
        steps = 16 if small else length
        ids = torch.randint(0, 100, (batch, steps))
        return (ids, torch.ones_like(ids)) if masked else (ids,)

    return inputs


def _mlp(small: bool) -> nn.Module:
    width = 64 if small else 1024
    layers = [nn.Linear(width, width), nn.ReLU(), nn.Linear(width, width), nn.ReLU()]
    return nn.Sequential(*layers, nn.Linear(width, 10))


def _mlp_inputs(small: bool, batch: int) -> tuple[torch.Tensor, ...]:
    return (torch.randn(batch, 64 if small else 1024),)


def _tiny_mlp(small: bool) -> nn.Module:
    return nn.Sequential(nn.Linear(16, 16), nn.ReLU())


def _vit(small: bool) -> nn.Module:
    from transformers import ViTConfig, ViTModel

    layers, side = (2, 32) if small else (12, 224)
    config = ViTConfig(
        num_hidden_layers=layers,
        hidden_size=192,
        num_attention_heads=3,
        intermediate_size=768,
        image_size=side,
        patch_size=16,
    )
    return PositionalModel(ViTModel(config, add_pooling_layer=False), "pixel_values")


def _convnext(small: bool) -> nn.Module:
    from transformers import ConvNextConfig, ConvNextModel

    sizes = (16, 32, 64, 128) if small else (96, 192, 384, 768)
    depths = (1, 1, 2, 1) if small else (3, 3, 9, 3)
    config = ConvNextConfig(hidden_sizes=list(sizes), depths=list(depths))
    return PositionalModel(ConvNextModel(config), "pixel_values")


def _swin(small: bool) -> nn.Module:
    from transformers import SwinConfig, SwinModel

    config = SwinConfig(
        image_size=56 if small else 224,
        embed_dim=24 if small else 96,
        depths=[2, 2] if small else [2, 2, 6, 2],
        num_heads=[2, 4] if small else [3, 6, 12, 24],
    )
    return PositionalModel(SwinModel(config, add_pooling_layer=False), "pixel_values")


def _bert(small: bool) -> nn.Module:
    tiny = {"hidden_size": 64, "num_attention_heads": 4, "intermediate_size": 128}
    settings: dict[str, int] = {**tiny, "vocab_size": 100} if small else {}
    return PositionalModel(bert(2 if small else 12, **settings), "input_ids", "attention_mask")


def _gpt2(small: bool) -> nn.Module:
    from transformers import GPT2Config, GPT2LMHeadModel

    layers, width, heads, vocabulary = (2, 64, 4, 100) if small else (12, 768, 12, 50257)
    config = GPT2Config(
        n_layer=layers,
        n_embd=width,
        n_head=heads,
        use_cache=False,
        vocab_size=vocabulary,
        bos_token_id=0,
        eos_token_id=0,
    )
    return PositionalModel(GPT2LMHeadModel(config), "input_ids")


def _llama(small: bool) -> nn.Module:
    from transformers import LlamaConfig, LlamaForCausalLM

    layers, width, inner = (2, 64, 128) if small else (8, 512, 1376)
    config = LlamaConfig(
        num_hidden_layers=layers,
        hidden_size=width,
        intermediate_size=inner,
        num_attention_heads=8,
        num_key_value_heads=2,
        vocab_size=100 if small else 32000,
        use_cache=False,
    )
    return PositionalModel(LlamaForCausalLM(config), "input_ids")


def _t5(small: bool) -> nn.Module:
    from transformers import T5Config, T5EncoderModel

    layers, width, inner = (2, 64, 128) if small else (6, 512, 2048)
    config = T5Config(
        num_layers=layers, d_model=width, d_ff=inner, d_kv=width // 8, vocab_size=1000
    )
    return PositionalModel(T5EncoderModel(config), "input_ids")


def _whisper(small: bool) -> nn.Module:
    from transformers import WhisperConfig
    from transformers.models.whisper.modeling_whisper import WhisperEncoder

    config = WhisperConfig(
        encoder_layers=2 if small else 4,
        d_model=64 if small else 384,
        encoder_attention_heads=4 if small else 6,
        encoder_ffn_dim=128 if small else 1536,
        max_source_positions=32 if small else 500,
    )
    return PositionalModel(WhisperEncoder(config), "input_features")


def _whisper_inputs(small: bool, batch: int) -> tuple[torch.Tensor, ...]:
    return (torch.randn(batch, 80, 64 if small else 1000),)


def _lstm(small: bool) -> nn.Module:
    return LstmTagger(100, 16) if small else LstmTagger()


def _dlrm_inputs(small: bool, batch: int) -> tuple[torch.Tensor, ...]:
    tables, rows, bag = (3, 100, 3) if small else (8, 10000, 10)
    arguments = [torch.randn(batch, 13)]
    for _ in range(tables):
        arguments += [torch.randint(0, rows, (batch * bag,)), torch.arange(0, batch * bag, bag)]
    return tuple(arguments)


_MODELS = (
    InferenceModel("tiny_mlp", _tiny_mlp, lambda small, batch: (torch.randn(batch, 16),), batch=2),
    InferenceModel("mlp", _mlp, _mlp_inputs, batch=8),
    InferenceModel("resnet18", ARCHITECTURES["resnet18"].make, _images(224, 64)),
    InferenceModel("resnet50", ARCHITECTURES["resnet50"].make, _images(224, 64)),
    InferenceModel("densenet121", ARCHITECTURES["densenet121"].make, _images(224, 64)),
    InferenceModel("mobilenet", ARCHITECTURES["mobilenet"].make, _images(224, 64)),
    InferenceModel("unet", ARCHITECTURES["unet"].make, _images(128, 32)),
    InferenceModel("vit", _vit, _images(224, 32)),
    InferenceModel("convnext", _convnext, _images(224, 64)),
    InferenceModel("swin", _swin, _images(224, 56)),
    InferenceModel("bert", _bert, _tokens(128, masked=True)),
    InferenceModel("gpt2", _gpt2, _tokens(128)),
    InferenceModel("llama", _llama, _tokens(128)),
    InferenceModel("t5_encoder", _t5, _tokens(128)),
    InferenceModel("whisper_encoder", _whisper, _whisper_inputs),
    InferenceModel("lstm", _lstm, _tokens(32), batch=4),
    InferenceModel("dlrm", ARCHITECTURES["dlrm"].make, _dlrm_inputs, batch=64),
)

MODELS = {model.name: model for model in _MODELS}


def build(
    name: str, *, small: bool = False, batch: int | None = None
) -> tuple[nn.Module, tuple[torch.Tensor, ...]]:
    """Build model `name` in eval mode, and its arguments; `batch` replaces the default batch.

    Weights and arguments are reproducible. Dimension 0 of every argument is the batch or a multiple
    of it, and the dimension to mark as dynamic.
    """
    definition = MODELS[name]
    torch.manual_seed(0)
    model = definition.make(small).eval()
    size = batch if batch is not None else max(definition.batch, 2) if small else definition.batch
    return model, definition.inputs(small, size)

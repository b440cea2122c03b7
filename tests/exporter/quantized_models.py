"""Small models, torchao's recipes for them, and the optimized graphs of ONNX Runtime."""

from __future__ import annotations

import collections
from collections.abc import Callable, Sequence
from typing import Any

import onnx
import onnxruntime
import torch
from torch import nn

from .helpers import feeds_of


class ConvNet(nn.Module):
    """Convolution, batch norm, ReLU, a residual sum, pooling, linear."""

    def __init__(self) -> None:
        super().__init__()
        self.first = nn.Conv2d(3, 16, 3, padding=1)
        self.norm = nn.BatchNorm2d(16)
        self.second = nn.Conv2d(16, 16, 3, padding=1)
        self.last = nn.Linear(16, 5)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = torch.relu(self.norm(self.first(x)))
        x = torch.relu(self.second(x) + x)
        x = nn.functional.max_pool2d(x, 2)
        return self.last(torch.flatten(nn.functional.adaptive_avg_pool2d(x, 1), 1))


class Mlp(nn.Module):
    """Two linear layers."""

    def __init__(self) -> None:
        super().__init__()
        self.first, self.second = nn.Linear(64, 128), nn.Linear(128, 32)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.second(torch.relu(self.first(x)))


class Block(nn.Module):
    """An encoder layer of BERT: attention of two heads, GELU, layer norms."""

    def __init__(self) -> None:
        super().__init__()
        self.query, self.key, self.value = (nn.Linear(64, 64) for _ in range(3))
        self.out, self.up, self.down = nn.Linear(64, 64), nn.Linear(64, 128), nn.Linear(128, 64)
        self.before, self.after = nn.LayerNorm(64), nn.LayerNorm(64)

    def heads(self, x: torch.Tensor) -> torch.Tensor:
        return x.view(x.shape[0], x.shape[1], 2, 32).transpose(1, 2)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        query, key, value = (self.heads(f(x)) for f in (self.query, self.key, self.value))
        weights = torch.softmax(query @ key.transpose(-1, -2) / 32**0.5, dim=-1)
        attended = (weights @ value).transpose(1, 2).reshape(x.shape)
        x = self.before(x + self.out(attended))
        return self.after(x + self.down(nn.functional.gelu(self.up(x))))


def recipe(name: str, **options: Any) -> Any:
    """Return torchao's quantizer for x86 (uint8 activations) or XNNPACK (int8)."""
    if name == "x86":
        from torchao.quantization.pt2e.quantizer import x86_inductor_quantizer as x86

        config = x86.get_default_x86_inductor_quantization_config(**options)
        return x86.X86InductorQuantizer().set_global(config)
    from torchao.testing.pt2e import _xnnpack_quantizer as xnnpack

    config = xnnpack.get_symmetric_quantization_config(is_per_channel=True, **options)
    return xnnpack.XNNPACKQuantizer().set_global(config)


def converted(module: nn.Module, x: torch.Tensor, quantizer: Any, dynamic: Any = None) -> nn.Module:
    """Return the module after PT2E, calibrated on normal values, with quantized weights."""
    from torchao.quantization.pt2e.quantize_pt2e import convert_pt2e, prepare_pt2e

    graph = torch.export.export(module.eval(), (x,), dynamic_shapes=dynamic).module()
    prepared = prepare_pt2e(graph, quantizer)
    generator = torch.Generator().manual_seed(0)
    for _ in range(3):
        prepared(torch.randn(x.shape, generator=generator))
    return convert_pt2e(prepared)


def operators(model: onnx.ModelProto) -> dict[str, int]:
    """Count the nodes of each operator in a model."""
    return dict(collections.Counter(node.op_type for node in model.graph.node))


def results(
    model: onnx.ModelProto, args: Sequence[torch.Tensor], folder: Any
) -> tuple[torch.Tensor, torch.Tensor, dict[str, int]]:
    """Return the first output without and with optimizations, and the optimized operators."""
    feeds = feeds_of(model, args)
    proto = model.SerializeToString()
    outputs: list[Callable[..., Any] | Any] = []
    for level in ("ORT_DISABLE_ALL", "ORT_ENABLE_ALL"):
        options = onnxruntime.SessionOptions()
        options.log_severity_level = 3
        options.graph_optimization_level = getattr(onnxruntime.GraphOptimizationLevel, level)
        options.optimized_model_filepath = str(folder / f"{level}.onnx")
        session = onnxruntime.InferenceSession(proto, options, providers=["CPUExecutionProvider"])
        outputs.append(torch.from_numpy(session.run(None, feeds)[0]))
    optimized = onnx.load(folder / "ORT_ENABLE_ALL.onnx")
    return outputs[0], outputs[1], operators(optimized)

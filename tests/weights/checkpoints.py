"""Write small quantized checkpoints, as the published formats say, with models of their floats."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import torch
from safetensors.torch import save_file

from .models import build

GROUP = 32
Layer = tuple[dict[str, torch.Tensor], torch.Tensor, np.ndarray]  # tensors, weight, codes [N, K]


def pack_rows(codes: np.ndarray, bits: int) -> torch.Tensor:
    """Pack each row into int32: code i is at bit ``bits * i`` of one large number."""
    words = -(-codes.shape[1] * bits // 32)
    rows = [sum(int(code) << (bits * i) for i, code in enumerate(row)) for row in codes]
    data = b"".join(row.to_bytes(4 * words, "little") for row in rows)
    return torch.from_numpy(np.frombuffer(data, np.int32).reshape(len(codes), words).copy())


def draw_codes(bits: int, rows: int, columns: int, random: Any) -> np.ndarray:
    return random.randint(0, 1 << bits, (rows, columns))


def draw_scales(groups: int, outer: int, random: Any) -> torch.Tensor:
    return torch.from_numpy(random.rand(groups, outer) * 0.02 + 0.001).to(torch.float16)


def weight_of(codes: Any, zeros: Any, scales: torch.Tensor, index: np.ndarray) -> torch.Tensor:
    """Return ``(codes [N, K] - zeros [N, G]) * scales [N, G]``, with the group of each column."""
    steps = torch.from_numpy(codes - zeros[:, index]).float()
    return steps * scales.float()[:, torch.from_numpy(index)]


def gptq(bits: int, random: Any, shape: tuple[int, int], **settings: Any) -> Layer:
    """GPTQ: qweight [K * bits / 32, N], qzeros [groups, N * bits / 32], less 1 in version 1."""
    (outer, inner), offset = shape, int(settings.get("checkpoint_format") != "gptq_v2")
    groups = 1 if settings.get("group_size") == -1 else inner // GROUP
    codes, zeros = (draw_codes(bits, outer, size, random) for size in (inner, groups))
    scales, index = draw_scales(groups, outer, random), np.arange(inner) // (inner // groups)
    if settings.get("desc_act"):
        random.shuffle(index)
    tensors = {
        "qweight": pack_rows(codes, bits).t(),
        "qzeros": pack_rows((zeros.T - offset) % (1 << bits), bits),
        "scales": scales,
        "g_idx": torch.from_numpy(index).int(),
        "bias": torch.zeros(outer),  # which AutoGPTQ writes for layers without a bias
    }
    return tensors, weight_of(codes, zeros, scales.t(), index), codes


def awq(bits: int, random: Any, shape: tuple[int, int], **settings: Any) -> Layer:
    """AWQ: qweight [K, N / 8], qzeros [groups, N / 8], with columns 0, 2, 4, 6, 1, 3, 5, 7."""
    outer, inner = shape
    order = np.arange(outer).reshape(-1, 8)[:, [0, 2, 4, 6, 1, 3, 5, 7]].ravel()
    codes, zeros = (draw_codes(bits, outer, size, random) for size in (inner, inner // GROUP))
    scales = draw_scales(inner // GROUP, outer, random)
    tensors = {
        "qweight": pack_rows(codes.T[:, order], bits),
        "qzeros": pack_rows(zeros.T[:, order], bits),
        "scales": scales,
    }
    return tensors, weight_of(codes, zeros, scales.t(), np.arange(inner) // GROUP), codes


def compressed(bits: int, random: Any, shape: tuple[int, int], **settings: Any) -> Layer:
    """compressed-tensors: weight_packed [N, K * bits / 32]; zero points are packed along N."""
    outer, inner = shape
    groups = 1 if settings.get("strategy") == "channel" else inner // GROUP
    codes, scales = draw_codes(bits, outer, inner, random), draw_scales(groups, outer, random).t()
    zeros = np.full((outer, groups), 1 << (bits - 1))
    tensors = {"weight_scale": scales}
    if settings.get("format") == "int-quantized":
        tensors["weight"] = torch.from_numpy(codes - 128).to(torch.int8)
    else:
        tensors["weight_packed"] = pack_rows(codes, bits)
        tensors["weight_shape"] = torch.tensor([outer, inner])
    if not settings.get("symmetric", True):
        zeros = draw_codes(bits, outer, groups, random)
        tensors["weight_zero_point"] = pack_rows(zeros.T, bits).t()
    return tensors, weight_of(codes, zeros, scales, np.arange(inner) // (inner // groups)), codes


WRITERS: dict[str, Callable[..., Layer]] = {
    "gptq": gptq, "awq": awq, "compressed-tensors": compressed,
}  # fmt: skip


def write_checkpoint(
    folder: Path, method: str, bits: int, **settings: Any
) -> tuple[Any, dict[str, np.ndarray]]:
    """Write a Llama with quantized layers; return the float model and the codes by layer."""
    model, _ = build("llama")
    model.config.use_cache = True
    model.generation_config.eos_token_id = None
    random, tensors, codes = np.random.RandomState(0), {}, {}
    for name, layer in model.named_modules():
        if isinstance(layer, torch.nn.Linear) and name != "lm_head":
            parts, weight, codes[name] = WRITERS[method](
                bits, random, tuple(layer.weight.shape), **settings
            )
            layer.weight.data = weight
            tensors |= {f"{name}.{role}": part.contiguous() for role, part in parts.items()}
    for name, tensor in model.state_dict().items():
        if name.removesuffix(".weight") not in codes:
            tensors[name] = tensor.clone()
    save_file(tensors, folder / "model.safetensors")
    model.config.save_pretrained(folder)
    model.generation_config.save_pretrained(folder)
    path = folder / "config.json"
    config = json.loads(path.read_text())
    config["quantization_config"] = {"quant_method": method, "bits": bits, **settings}
    path.write_text(json.dumps(config))
    return model, codes

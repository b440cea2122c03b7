"""Quantized checkpoints: models whose codes are those of the file, in PyTorch and in ONNX."""

from __future__ import annotations

import hashlib
import json
import sys
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
import torch
import yaml
from onnx import numpy_helper
from safetensors.torch import load_file, save_file
from torchao.quantization import Int8WeightOnlyConfig, IntxWeightOnlyConfig
from torchao.quantization.granularity import PerGroup
from transformers import AutoModelForCausalLM, TorchAoConfig

import ortable
from ortable.errors import InputError, VersionError
from ortable.exporter.checkpoints import gguf_files
from ortable.exporter.checkpoints.gguf_files import read_blocks
from ortable.exporter.checkpoints.packed_formats import READERS
from ortable.exporter.checkpoints.weight_codes import CodedLinear

from .checkpoints import write_checkpoint
from .models import build, distance, operators

pytestmark = pytest.mark.alternates(parts=3)

ROUNDING_ERROR = 1e-5
IDS = torch.arange(3, 9)[None]
RECORDED = yaml.safe_load((Path(__file__).parent / "recorded_formats.yaml").read_text())
# method, bits and settings of a checkpoint
CHECKPOINTS: dict[str, tuple[str, int, dict[str, Any]]] = {
    "gptq": ("gptq", 4, {}),
    "gptq, columns in another order": ("gptq", 4, {"desc_act": True}),
    "gptq of 8 bits, by rows": ("gptq", 8, {"checkpoint_format": "gptq_v2", "group_size": -1}),
    "gptq of 3 bits": ("gptq", 3, {"checkpoint_format": "gptq"}),
    "awq": ("awq", 4, {"version": "gemm"}),
    "compressed-tensors": ("compressed-tensors", 4, {}),
    "compressed-tensors of 8 bits": ("compressed-tensors", 8, {"symmetric": False}),
    "compressed-tensors, int8": ("compressed-tensors", 8, {"format": "int-quantized"}),
    "compressed-tensors by rows": ("compressed-tensors", 4, {"strategy": "channel"}),
}


def logits_of(model: Any) -> torch.Tensor:
    with torch.no_grad():
        return model(IDS).logits


def greedy_tokens(model: Any) -> torch.Tensor:
    return model.generate(IDS, do_sample=False, max_new_tokens=8, pad_token_id=0)


def stored_codes(folder: Path) -> list[np.ndarray]:
    """Return the codes [N, K] of each MatMulNBits; rows of layers with one input may be joined."""
    model = onnx.load(folder / "model.onnx")
    arrays = {item.name: numpy_helper.to_array(item) for item in model.graph.initializer}
    assert operators(model)["MatMul"] == 1  # the last layer, which the checkpoints keep as floats
    nodes = [node for node in model.graph.node if node.op_type == "MatMulNBits"]
    packed = [arrays[node.input[1]].reshape(len(arrays[node.input[1]]), -1) for node in nodes]
    return [np.stack((data & 15, data >> 4), -1).reshape(len(data), -1) for data in packed]


def has_rows(stored: list[np.ndarray], codes: np.ndarray) -> bool:
    """Whether the rows of ``codes`` are one after another in an array of ``stored``."""
    return any(
        np.array_equal(array[start : start + len(codes)], codes)
        for array in stored
        if array.shape[1] == codes.shape[1]
        for start in range(len(array) - len(codes) + 1)
    )


@pytest.mark.alternates(parts=3)
@pytest.mark.parametrize("name", CHECKPOINTS)
def test_codes_of_a_checkpoint_are_those_of_the_onnx_model(name, tmp_path) -> None:
    method, bits, settings = CHECKPOINTS[name]
    model, codes = write_checkpoint(tmp_path, method, bits, **settings)
    loaded = ortable.load_quantized_checkpoint(tmp_path)
    assert distance(logits_of(loaded), logits_of(model)) < ROUNDING_ERROR
    exported = ortable.export_language_model(tmp_path, tmp_path / "onnx")
    assert torch.equal(exported.generate(IDS, max_new_tokens=8), greedy_tokens(model))
    stored = stored_codes(tmp_path / "onnx")
    for expected in codes.values():
        if settings.get("desc_act"):
            stored, expected = [np.sort(array) for array in stored], np.sort(expected)
        halves = [expected] if bits <= 4 else [expected >> 4, expected & 15]
        assert all(has_rows(stored, half) for half in halves)


def digest(weight: torch.Tensor) -> str:
    return hashlib.sha256(weight.contiguous().numpy().tobytes()).hexdigest()[:16]


def random_tensors(kind: str, bits: int, order: bool, symmetric: bool) -> dict[str, torch.Tensor]:
    """Return the tensors of a layer [64, 128] whose ints are random."""
    random = np.random.RandomState(bits)
    outer, inner, groups = 64, 128, 4

    def draw_ints(rows: int, columns: int) -> torch.Tensor:
        return torch.from_numpy(random.randint(-(1 << 31), 1 << 31, (rows, columns))).int()

    scales = torch.from_numpy(random.rand(groups, outer)).half()
    if kind == "compressed-tensors":
        tensors = {
            "weight_packed": draw_ints(outer, inner * bits // 32),
            "weight_scale": scales.t(),
        }
        zeros = {} if symmetric else {"weight_zero_point": draw_ints(outer * bits // 32, groups)}
        return {**tensors, **zeros}
    rows, columns = (inner, outer * bits // 32) if kind == "awq" else (inner * bits // 32, outer)
    tensors = {"qweight": draw_ints(rows, columns), "scales": scales}
    tensors["qzeros"] = draw_ints(groups, outer * bits // 32)
    if order:
        index = np.arange(inner) // (inner // groups)
        random.shuffle(index)
        tensors["g_idx"] = torch.from_numpy(index)
    return tensors


@pytest.mark.parametrize("entry", RECORDED["layers"], ids=str)
def test_weights_of_random_ints_are_those_of_other_readers(entry) -> None:
    kind, bits, settings = entry["kind"], entry["bits"], {"checkpoint_format": entry.get("format")}
    symmetric = entry.get("symmetric", False)
    tensors = random_tensors(kind, bits, entry.get("order", False), symmetric)
    weight = READERS[kind][0](tensors, (64, 128), settings)
    assert digest(weight.in_kernel_blocks().dequantize_weight()) == entry["digest"]


def random_blocks(size: int, halves: list[int]) -> np.ndarray:
    """Return rows of GGUF blocks with random bytes, and float16 numbers at the bytes ``halves``."""
    random = np.random.RandomState(size)
    data = random.randint(0, 256, (6 * 4, size)).astype(np.uint8)
    for start in halves:
        numbers = (random.rand(len(data), 1) * 0.1).astype(np.float16)
        data[:, start : start + 2] = numbers.view(np.uint8)
    return data.reshape(6, -1)


@pytest.mark.parametrize("name", RECORDED["blocks"])
def test_blocks_of_random_bytes_are_those_of_gguf(name) -> None:
    size, halves, expected = RECORDED["blocks"][name]
    weight = read_blocks(random_blocks(size, halves), name)
    assert digest(weight.in_kernel_blocks().dequantize_weight()) == expected


@pytest.mark.alternates("bits")
@pytest.mark.parametrize("bits", [4, 8])
def test_torchao_tensors_of_a_folder(bits, tmp_path) -> None:
    model, _ = build("llama")
    model.config.use_cache = True
    model.generation_config.eos_token_id = None
    model.save_pretrained(tmp_path / "whole")
    int4 = IntxWeightOnlyConfig(weight_dtype=torch.int4, granularity=PerGroup(32))
    quantized = AutoModelForCausalLM.from_pretrained(
        tmp_path / "whole",
        quantization_config=TorchAoConfig(int4 if bits == 4 else Int8WeightOnlyConfig()),
        dtype=torch.float32,
    )
    quantized.save_pretrained(tmp_path / "folder")
    loaded = ortable.load_quantized_checkpoint(tmp_path / "folder")
    assert distance(logits_of(loaded), logits_of(quantized)) < ROUNDING_ERROR
    exported = ortable.export_language_model(loaded, tmp_path / "onnx")
    assert torch.equal(exported.generate(IDS, max_new_tokens=8), greedy_tokens(quantized))
    codes = quantized.model.layers[1].mlp.down_proj.weight.qdata.numpy().astype(np.int16)
    codes += 1 << (bits - 1)
    halves = [codes] if bits == 4 else [codes >> 4, codes & 15]
    assert all(has_rows(stored_codes(tmp_path / "onnx"), half) for half in halves)


@pytest.mark.alternates("keywords")
@pytest.mark.parametrize(
    "keywords",
    [
        {"target": None},
        {"target": None, "target_opset": 21},
        {"loop": "greedy", "merged": False},
        {"weights": "int8"},
        {"weights": "float16"},
    ],
    ids=str,
)
def test_other_forms_of_an_export(keywords, tmp_path) -> None:
    model, _ = write_checkpoint(tmp_path, "gptq", 4, desc_act=True)
    exported = ortable.export_language_model(tmp_path, tmp_path / "onnx", **keywords)
    assert torch.equal(exported.generate(IDS, max_new_tokens=8), greedy_tokens(model))


def test_a_layer_of_codes_in_torch_compile(tmp_path) -> None:
    write_checkpoint(tmp_path, "gptq", 4)
    layer = ortable.load_quantized_checkpoint(tmp_path).model.layers[0].mlp
    x = torch.randn(2, 3, 64)
    run = torch.compile(layer, backend="ortable")
    with torch.no_grad():
        for _ in range(6):  # weights become constants after a few calls
            assert distance(run(x), layer(x)) < ROUNDING_ERROR


def test_groups_that_no_kernel_reads_become_floats(tmp_path) -> None:
    model, _ = write_checkpoint(tmp_path, "gptq", 4)
    path = tmp_path / "model.safetensors"
    tensors = load_file(path)
    name = "model.layers.0.self_attn.q_proj"
    for role in ("qzeros", "scales"):  # groups of 8
        tensors[f"{name}.{role}"] = tensors[f"{name}.{role}"].repeat_interleave(4, 0)
    tensors[f"{name}.g_idx"] = torch.arange(64, dtype=torch.int32) // 8
    save_file(tensors, path)
    with pytest.warns(UserWarning, match=rf"{name}.weight \(8 numbers share a scale"):
        loaded = ortable.load_quantized_checkpoint(tmp_path)
    assert type(loaded.get_submodule(name)) is torch.nn.Linear
    assert isinstance(loaded.model.layers[0].self_attn.k_proj, CodedLinear)
    assert distance(logits_of(loaded), logits_of(model)) < ROUNDING_ERROR


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"quant_method": "eetq"}, "quant_method 'eetq'"),
        ({"checkpoint_format": "marlin"}, "GPTQ in the layout 'marlin'"),
        ({"quant_method": "awq", "version": "gemv"}, "AWQ in the layout 'gemv'"),
    ],
)
def test_layouts_that_are_refused(settings, message, tmp_path) -> None:
    write_checkpoint(tmp_path, "gptq", 4)
    path = tmp_path / "config.json"
    config = json.loads(path.read_text())
    config["quantization_config"].update(settings)
    path.write_text(json.dumps(config))
    with pytest.raises(InputError, match=message):
        ortable.load_quantized_checkpoint(tmp_path)


def test_tensors_that_are_refused(tmp_path) -> None:
    write_checkpoint(tmp_path, "compressed-tensors", 4)
    path = tmp_path / "model.safetensors"
    tensors = load_file(path)
    groups = {"group_0": {"input_activations": {"num_bits": 8}}}
    read, _ = READERS["compressed-tensors"]
    with pytest.raises(ortable.UnsupportedCase, match="activations that are quantized"):
        read({}, (64, 64), {"config_groups": groups})
    save_file({**tensors, "model.other.weight": torch.zeros(2)}, path)
    with pytest.raises(InputError, match=r"unexpected keys \['model.other.weight'\]"):
        ortable.load_quantized_checkpoint(tmp_path)
    name = "model.layers.0.mlp.experts.0.gate_proj.weight_packed"
    save_file({**tensors, name: torch.zeros(2, 2, dtype=torch.int32)}, path)
    with pytest.raises(InputError, match="no linear layer of LlamaForCausalLM"):
        ortable.load_quantized_checkpoint(tmp_path)


def test_paths_that_are_refused(tmp_path, monkeypatch) -> None:
    with pytest.raises(InputError, match="neither a file"):
        ortable.export_language_model("name/of-a-model", tmp_path / "onnx")
    (tmp_path / "model.gguf").write_bytes(b"GGUF")
    monkeypatch.setitem(sys.modules, "gguf", None)
    with pytest.raises(VersionError, match="pip install gguf"):
        ortable.load_quantized_checkpoint(tmp_path / "model.gguf")
    with pytest.raises(VersionError, match="pip install gguf"):
        gguf_files.import_gguf()

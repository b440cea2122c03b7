"""Quantized copies of the model: ortable's, and those of other quantizers."""

from __future__ import annotations

import copy
import ctypes
import importlib.util
import logging
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any
from unittest import mock

import numpy as np
import torch
from onnx import ModelProto, numpy_helper

import ortable
from benchmarks.packages import CACHE
from ortable.passes.code_search import round_to_nearest

FOLDER = CACHE / "accuracy"
# pywhispercpp's wheel has ggml, the library of llama.cpp with the quantizers of both
PACKAGES = (
    "gguf==0.19.0", "pywhispercpp==1.5.1", "nncf==3.4.0", "openvino==2026.4.1",
    "openvino-telemetry==2025.2.0", "pydot==4.0.1",
)  # fmt: skip


@dataclass(frozen=True)
class Quantized:
    """A quantized model: ``logits`` of tokens [batch, length], and the bytes of its constants."""

    logits: Callable[[torch.Tensor], torch.Tensor]
    bytes: int


@dataclass(frozen=True)
class Source:
    """The trained model, its float32 graph, and texts to calibrate with."""

    model: Any
    graph: ModelProto
    texts: torch.Tensor


def export_float32(model: Any) -> ModelProto:
    """Return the float32 graph of the model for any number of texts of any length."""
    keywords = {**_KEYWORDS, "target": None}  # OpenVINO cannot read ONNX Runtime's operators
    return ortable.to_onnx(_Logits(model), (_example(),), **keywords)


def run_graph(graph: ModelProto) -> Quantized:
    """Return a graph as a session of ONNX Runtime."""
    import onnxruntime

    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = torch.get_num_threads()
    session = onnxruntime.InferenceSession(graph.SerializeToString(), options)
    name = session.get_inputs()[0].name
    size = sum(_byte_size(item) for item in graph.graph.initializer)
    return Quantized(lambda ids: torch.from_numpy(session.run(None, {name: ids.numpy()})[0]), size)


def _byte_size(tensor: Any) -> int:
    return len(tensor.raw_data) or numpy_helper.to_array(tensor).nbytes


class _Logits(torch.nn.Module):
    """The model with token ids as its only input, and logits as its only output."""

    def __init__(self, model: Any) -> None:
        super().__init__()
        self.model = model

    def forward(self, ids: torch.Tensor) -> torch.Tensor:
        return self.model(input_ids=ids).logits


def _example() -> torch.Tensor:
    return torch.arange(12).reshape(2, 6)


_SHAPES = ({0: torch.export.Dim.DYNAMIC, 1: torch.export.Dim.DYNAMIC},)
_KEYWORDS: Mapping[str, Any] = {"target": "onnxruntime", "dynamic_shapes": _SHAPES}


# -- ortable


def _export(source: Source, calibrate: bool = False, **options: Any) -> Quantized:
    weights = ortable.WeightOptions(**options)
    calls = [(source.texts,)] if calibrate else None
    model = _Logits(source.model)
    return run_graph(
        ortable.to_onnx(model, (_example(),), weights=weights, calibration=calls, **_KEYWORDS)
    )


def _export_nearest(source: Source, **options: Any) -> Quantized:
    """Round to the nearest code of the scale that reaches the extremes of a group."""
    with mock.patch("ortable.passes.weight_quantization.search_codes", round_to_nearest):
        return _export(source, **options)


_MIXED = {"model.model.embed_tokens.weight": 8, "model.lm_head.weight": 8, "*.down_proj.weight": 8}


# -- onnxruntime's quantizers


def _quantize_in_onnxruntime(source: Source, algorithm: str, **options: Any) -> Quantized:
    from onnxruntime.quantization import matmul_nbits_quantizer as quantizer

    logging.disable(logging.INFO)
    graph = ModelProto()
    graph.CopyFrom(source.graph)
    config = getattr(quantizer, algorithm)(**options)
    runner = quantizer.MatMulNBitsQuantizer(graph, accuracy_level=4, algo_config=config)
    runner.process()
    return run_graph(runner.model.model)


# -- llama.cpp's formats, computed in float32 with the dequantized weights


def _quantize_in_ggml(
    source: Source, type_of: Callable[[str], str], calibrate: bool = False
) -> Quantized:
    """Replace each matrix by what ggml makes of it; ``type_of`` gives the format by name.

    With ``calibrate``, mean squares of the inputs weight the errors (an importance matrix).
    """
    from gguf import GGMLQuantizationType
    from gguf.quants import dequantize

    library = _load_ggml()
    importance = _measure_squares(source) if calibrate else {}
    model, size = copy.deepcopy(source.model), 0
    for name, weight in model.named_parameters():
        if weight.ndim < 2:
            size += weight.nbytes
            continue
        kind = GGMLQuantizationType[type_of(name)]
        rows, inner = weight.shape
        array = np.ascontiguousarray(weight.detach().numpy())
        packed = np.zeros((rows, library.ggml_row_size(int(kind), inner)), np.uint8)
        squares = importance.get(name)
        library.ggml_quantize_chunk(
            int(kind), array.ctypes.data, packed.ctypes.data, 0, rows, inner,
            None if squares is None else squares.ctypes.data,
        )  # fmt: skip
        weight.data = torch.from_numpy(dequantize(packed, kind).reshape(rows, inner).copy())
        size += packed.nbytes
    size += _byte_count_of_constants(source)
    return Quantized(lambda ids: model(input_ids=ids).logits.detach(), size)


@torch.no_grad()
def _measure_squares(source: Source) -> dict[str, np.ndarray]:
    """Return the mean squares of the inputs of linear layers, by the name of the weight."""
    squares: dict[str, np.ndarray] = {}

    def make_hook(name: str) -> Callable[..., None]:
        def store(module: Any, inputs: Any, output: Any) -> None:
            squares[f"{name}.weight"] = inputs[0].square().mean((0, 1)).numpy()

        return store

    layers = [
        (name, module)
        for name, module in source.model.named_modules()
        if isinstance(module, torch.nn.Linear)
    ]
    handles = [module.register_forward_hook(make_hook(name)) for name, module in layers]
    source.model(input_ids=source.texts)
    for handle in handles:
        handle.remove()
    return squares


def _byte_count_of_constants(source: Source) -> int:
    """Return the bytes of the constants of the float32 graph that are no weights of the model."""
    weights = sum(parameter.nbytes for parameter in source.model.parameters())
    return sum(map(_byte_size, source.graph.graph.initializer)) - weights


def _load_ggml() -> Any:
    spec = importlib.util.find_spec("pywhispercpp")
    assert spec is not None and spec.origin is not None
    library = ctypes.CDLL(str(next(FOLDER.glob("libggml-base.so"))))
    library.ggml_row_size.restype = ctypes.c_size_t
    library.ggml_row_size.argtypes = [ctypes.c_int, ctypes.c_int64]
    library.ggml_quantize_chunk.restype = ctypes.c_size_t
    library.ggml_quantize_chunk.argtypes = [
        ctypes.c_int, ctypes.c_void_p, ctypes.c_void_p, ctypes.c_int64, ctypes.c_int64,
        ctypes.c_int64, ctypes.c_void_p,
    ]  # fmt: skip
    return library


def _medium_mix(layers: int) -> Callable[[str], str]:
    """Return the formats of llama.cpp's Q4_K_M: some matrices have 6 bits."""

    def type_of(name: str) -> str:
        if "lm_head" in name:
            return "Q6_K"
        if "v_proj" in name or "down_proj" in name:
            layer = int(name.split(".layers.")[1].split(".")[0])
            first, last = layers // 8, 7 * layers // 8
            if layer < first or layer >= last or (layer - first) % 3 == 2:
                return "Q6_K"
        return "Q4_K"

    return type_of


# -- OpenVINO's quantizer


def _quantize_in_nncf(source: Source, calibrate: bool, **options: Any) -> Quantized:
    import nncf
    import openvino

    graph = openvino.Core().read_model(source.graph.SerializeToString())
    if calibrate:
        options["dataset"] = nncf.Dataset([text[None].numpy() for text in source.texts])
    graph = nncf.compress_weights(
        graph, mode=nncf.CompressWeightsMode.INT4_ASYM, all_layers=True, ratio=1.0, **options
    )
    settings = {"INFERENCE_PRECISION_HINT": "f32"}
    request = openvino.Core().compile_model(graph, "CPU", settings).create_infer_request()
    size = sum(
        node.get_byte_size() for node in graph.get_ops() if node.get_type_name() == "Constant"
    )
    return Quantized(lambda ids: torch.from_numpy(request.infer([ids.numpy()])[0].copy()), size)


CANDIDATES: Mapping[str, Callable[[Source], Quantized]] = {
    "float32": lambda source: run_graph(source.graph),
    "ortable int8": lambda source: _export(source, kind="int8"),
    "ortable int4": _export,
    "ortable int4, groups of 64": lambda source: _export(source, group_size=64),
    "ortable int4, groups of 128": lambda source: _export(source, group_size=128),
    "ortable int4, some int8": lambda source: _export(source, bits=_MIXED),
    "ortable int4, calibrated": lambda source: _export(source, True),
    "ortable int4, calibrated, groups of 64": lambda source: _export(source, True, group_size=64),
    "ortable int4, calibrated, groups of 128": lambda source: _export(source, True, group_size=128),
    "ortable int4, calibrated, some int8": lambda source: _export(source, True, bits=_MIXED),
    "ortable int4+float16": lambda source: _export(source, rest="float16"),
    "ortable int4+float16, calibrated": lambda source: _export(source, True, rest="float16"),
    "nearest, symmetric": lambda source: _export_nearest(source, symmetric=True),
    "nearest": _export_nearest,
    "onnxruntime, RTN": lambda source: _quantize_in_onnxruntime(
        source,
        "DefaultWeightOnlyQuantConfig",
        block_size=32,
        is_symmetric=True,
        accuracy_level=4,
        op_types_to_quantize=("MatMul", "Gather"),
    ),
    "onnxruntime, HQQ": lambda source: _quantize_in_onnxruntime(
        source, "HQQWeightOnlyQuantConfig", block_size=32
    ),
    "onnxruntime, k_quant": lambda source: _quantize_in_onnxruntime(
        source, "KQuantWeightOnlyQuantConfig"
    ),
    "llama.cpp, Q4_0": lambda source: _quantize_in_ggml(source, lambda name: "Q4_0"),
    "llama.cpp, Q4_1": lambda source: _quantize_in_ggml(source, lambda name: "Q4_1"),
    "llama.cpp, Q4_K": lambda source: _quantize_in_ggml(source, lambda name: "Q4_K"),
    "llama.cpp, Q4_K_M": lambda source: _quantize_in_ggml(
        source, _medium_mix(source.model.config.num_hidden_layers)
    ),
    "llama.cpp, Q4_K_M, importance matrix": lambda source: _quantize_in_ggml(
        source, _medium_mix(source.model.config.num_hidden_layers), calibrate=True
    ),
    "nncf, int4": lambda source: _quantize_in_nncf(source, False, group_size=32),
    "nncf, int4, scale estimation": lambda source: _quantize_in_nncf(
        source, True, group_size=32, scale_estimation=True
    ),
    "nncf, int4, GPTQ": lambda source: _quantize_in_nncf(source, True, group_size=32, gptq=True),
}

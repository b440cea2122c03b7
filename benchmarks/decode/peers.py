"""Candidates from torch.onnx's graph of a generation step: an ONNX Runtime session and OpenVINO."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import torch

from .sizes import Lengths


class Session:
    """A session of torch.onnx's graph; its caches stay in ONNX Runtime and grow by a token."""

    def __init__(self, model: Any, lengths: Lengths, folder: Path) -> None:
        import onnxruntime

        self.config, self.lengths = model.config, lengths
        path = folder / "model.onnx"
        export_step(model, path)
        options = onnxruntime.SessionOptions()
        self.session = onnxruntime.InferenceSession(path, options, ["CPUExecutionProvider"])
        self.names = [value.name for value in self.session.get_inputs()]
        self.ids = lengths.make_ids().numpy()
        self.past = (lengths.prompt + lengths.total) // 2
        self.caches = {past: self._make_caches(past) for past in (0, self.past)}

    def _make_caches(self, past: int) -> list[Any]:
        import onnxruntime

        heads = self.config.num_key_value_heads
        shape = (self.lengths.batch, heads, past, self.config.head_dim)
        count = 2 * self.config.num_hidden_layers
        make_value = onnxruntime.OrtValue.ortvalue_from_numpy
        return [make_value(np.random.randn(*shape).astype(np.float32)) for _ in range(count)]

    def _run(self, ids: np.ndarray, past: int) -> Any:
        import onnxruntime

        inputs = [onnxruntime.OrtValue.ortvalue_from_numpy(ids), *self.caches[past]]
        feeds = dict(zip(self.names, inputs, strict=True))
        return self.session.run_with_ort_values(None, feeds)[0].numpy()

    def prompt(self) -> Any:
        """Return the logits after the prompt."""
        return self._run(self.ids, 0)

    def token_again(self) -> Any:
        """Return the logits after one more token."""
        return self._run(self.ids[:, :1], self.past)


def export_step(model: Any, path: Path) -> None:
    """Write torch.onnx's graph of a step, for the prompt and for a token."""
    path.parent.mkdir(parents=True, exist_ok=True)
    from transformers import DynamicCache

    class Flat(torch.nn.Module):
        """The model with its cache as tensors."""

        def __init__(self) -> None:
            super().__init__()
            self.model = model

        def forward(self, ids: torch.Tensor, *flat: torch.Tensor) -> Any:
            cache = DynamicCache(list(zip(flat[0::2], flat[1::2], strict=True)))
            output = self.model(input_ids=ids, past_key_values=cache, use_cache=True)
            layers = output.past_key_values.layers
            return (
                output.logits[:, -1:],
                *(t for layer in layers for t in (layer.keys, layer.values)),
            )

    config, dynamic = model.config, torch.export.Dim.DYNAMIC
    ids = torch.zeros(2, 3, dtype=torch.int64)
    shape = (2, config.num_key_value_heads, 5, config.head_dim)
    flat = tuple(torch.randn(shape) for _ in range(2 * config.num_hidden_layers))
    shapes = ({0: dynamic, 1: dynamic}, tuple({0: dynamic, 2: dynamic} for _ in flat))
    torch.onnx.export(Flat().eval(), (ids, *flat), path, dynamo=True, dynamic_shapes=shapes)


class OpenVino:
    """The same graph in OpenVINO, with caches as states that grow by a token, or reset if full.

    ``mode`` is a mode of nncf.compress_weights, with which OpenVINO chooses the other precisions.
    """

    def __init__(self, path: Path, config: Any, lengths: Lengths, mode: str | None = None) -> None:
        import openvino
        from openvino._offline_transformations import apply_make_stateful_transformation

        self.lengths = lengths
        core = openvino.Core()
        graph = core.read_model(path)
        ids_shape = [lengths.batch, -1]
        past_shape = [lengths.batch, config.num_key_value_heads, -1, config.head_dim]
        graph.reshape({port: past_shape if n else ids_shape for n, port in enumerate(graph.inputs)})
        cache_inputs, cache_outputs = graph.inputs[1:], graph.outputs[1:]
        for number, (past, present) in enumerate(zip(cache_inputs, cache_outputs, strict=True)):
            past.get_tensor().set_names({f"past.{number}"})
            present.get_tensor().set_names({f"present.{number}"})
        pairs = {f"past.{number}": f"present.{number}" for number in range(len(cache_inputs))}
        apply_make_stateful_transformation(graph, pairs)
        settings: dict[str, Any] = {"INFERENCE_NUM_THREADS": torch.get_num_threads()}
        if mode is None:
            # float32 like the others: OpenVINO's default is bfloat16 on processors that have it
            settings |= {"INFERENCE_PRECISION_HINT": "f32", "KV_CACHE_PRECISION": "f32"}
        else:
            graph = _compress_weights(graph, mode)
        self.request = core.compile_model(graph, "CPU", settings).create_infer_request()
        self.ids = lengths.make_ids().numpy()
        self.cached_tokens = 0

    def prompt(self) -> Any:
        """Return the logits after the prompt."""
        self.request.reset_state()
        self.cached_tokens = self.lengths.prompt
        return self.request.infer([self.ids])[0]

    def token_again(self) -> Any:
        """Return the logits after one more token."""
        if self.cached_tokens in (0, self.lengths.total):
            self.prompt()
        self.cached_tokens += 1
        return self.request.infer([self.ids[:, :1]])[0]


def _compress_weights(graph: Any, mode: str) -> Any:
    """Compress all matrices as OpenVINO's exporter of transformers models does by default."""
    import nncf

    options = {"ratio": 1.0, "group_size": 128} if mode.startswith("INT4") else {}
    return nncf.compress_weights(graph, mode=nncf.CompressWeightsMode[mode], **options)

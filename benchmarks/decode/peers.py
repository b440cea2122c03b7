"""torch.onnx's graph of a step of generation, in a bare session of ONNX Runtime and in OpenVINO. In
come a model and lengths, out come objects that `measure` calls in turns."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import torch

from .sizes import VOCABULARY, Lengths


class Session:
    """torch.onnx's graph of the same step, in a bare session: caches are inputs and outputs, which
    stay in ONNX Runtime's memory, and grow by a token."""

    def __init__(self, model: Any, lengths: Lengths, folder: Path) -> None:
        import onnxruntime

        self.config, self.lengths = model.config, lengths
        path = folder / "model.onnx"
        _export(model, lengths, path)
        options = onnxruntime.SessionOptions()
        self.session = onnxruntime.InferenceSession(path, options, ["CPUExecutionProvider"])
        self.names = [each.name for each in self.session.get_inputs()]
        ids = torch.arange(lengths.batch * lengths.prompt) * 7919 % VOCABULARY
        self.ids = ids.reshape(lengths.batch, lengths.prompt).numpy()
        self.past = (lengths.prompt + lengths.whole) // 2
        self.caches = {past: self._values(past) for past in (0, self.past)}

    def _values(self, past: int) -> list[Any]:
        import onnxruntime

        heads = self.config.num_key_value_heads
        shape = (self.lengths.batch, heads, past, self.config.head_dim)
        count = 2 * self.config.num_hidden_layers
        make = onnxruntime.OrtValue.ortvalue_from_numpy
        return [make(np.random.randn(*shape).astype(np.float32)) for _ in range(count)]

    def _run(self, ids: np.ndarray, past: int) -> Any:
        import onnxruntime

        given = [onnxruntime.OrtValue.ortvalue_from_numpy(ids), *self.caches[past]]
        feeds = dict(zip(self.names, given, strict=True))
        return self.session.run_with_ort_values(None, feeds)[0].numpy()

    def prompt(self) -> Any:
        """The scores behind the prompt."""
        return self._run(self.ids, 0)

    def token_again(self) -> Any:
        """The scores behind one more token."""
        return self._run(self.ids[:, :1], self.past)


def _export(model: Any, lengths: Lengths, path: Path) -> None:
    from transformers import DynamicCache

    class Flat(torch.nn.Module):
        """The model with its cache as tensors."""

        def __init__(self) -> None:
            super().__init__()
            self.model = model

        def forward(self, ids: torch.Tensor, *flat: torch.Tensor) -> Any:
            cache = DynamicCache(list(zip(flat[0::2], flat[1::2], strict=True)))
            found = self.model(input_ids=ids, past_key_values=cache, use_cache=True)
            layers = found.past_key_values.layers
            return (
                found.logits[:, -1:],
                *(t for layer in layers for t in (layer.keys, layer.values)),
            )

    config, dynamic = model.config, torch.export.Dim.DYNAMIC
    ids = torch.zeros(2, 3, dtype=torch.int64)
    shape = (2, config.num_key_value_heads, 5, config.head_dim)
    flat = tuple(torch.randn(shape) for _ in range(2 * config.num_hidden_layers))
    shapes = ({0: dynamic, 1: dynamic}, tuple({0: dynamic, 2: dynamic} for _ in flat))
    torch.onnx.export(Flat(), (ids, *flat), path, dynamo=True, dynamic_shapes=shapes)


class OpenVino:
    """The same graph compiled by OpenVINO, with its caches as states of the request, as
    optimum-intel makes them: they grow by a token with each call, and begin anew when full."""

    def __init__(self, model: Any, lengths: Lengths, folder: Path) -> None:
        import openvino
        from openvino._offline_transformations import apply_make_stateful_transformation

        self.lengths = lengths
        path = folder / "model.onnx"
        if not path.exists():
            _export(model, lengths, path)
        core = openvino.Core()
        graph = core.read_model(path)
        free, config = [lengths.batch, -1], model.config
        cache = [lengths.batch, config.num_key_value_heads, -1, config.head_dim]
        graph.reshape({each: cache if n else free for n, each in enumerate(graph.inputs)})
        given, made = graph.inputs[1:], graph.outputs[1:]
        for number, (past, present) in enumerate(zip(given, made, strict=True)):
            past.get_tensor().set_names({f"past.{number}"})
            present.get_tensor().set_names({f"present.{number}"})
        pairs = {f"past.{number}": f"present.{number}" for number in range(len(given))}
        apply_make_stateful_transformation(graph, pairs)
        settings = {
            "INFERENCE_NUM_THREADS": torch.get_num_threads(),
            # float32 as all others: where the processor has bfloat16, OpenVINO computes with that
            "INFERENCE_PRECISION_HINT": "f32",
            "KV_CACHE_PRECISION": "f32",
        }
        self.request = core.compile_model(graph, "CPU", settings).create_infer_request()
        ids = torch.arange(lengths.batch * lengths.prompt) * 7919 % VOCABULARY
        self.ids = ids.reshape(lengths.batch, lengths.prompt).numpy()
        self.held = 0

    def prompt(self) -> Any:
        """The scores behind the prompt."""
        self.request.reset_state()
        self.held = self.lengths.prompt
        return self.request.infer([self.ids])[0]

    def token_again(self) -> Any:
        """The scores behind one more token."""
        if self.held in (0, self.lengths.whole):
            self.prompt()
        self.held += 1
        return self.request.infer([self.ids[:, :1]])[0]

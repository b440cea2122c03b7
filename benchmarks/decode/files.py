"""Language models as files, each written and run as the users of an engine do.

ortable's folder and that of onnxruntime-genai's model builder run in onnxruntime-genai, GGUF files
in llama.cpp, and torch.onnx's graph, with weights compressed by nncf, in OpenVINO.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch

import ortable
from benchmarks.packages import CACHE

from .peers import OpenVino, export_step
from .sizes import VOCABULARY, Lengths

FOLDER = CACHE / "decode"
MODELS = Path(__file__).resolve().parents[2] / "build" / "decode"
PACKAGES = (
    "onnxruntime-genai==0.18.0", "llama-cpp-python==0.3.36", "diskcache==5.6.3", "gguf==0.19.0",
    "openvino==2026.4.1", "openvino-telemetry==2025.2.0", "nncf==3.4.0", "pydot==4.0.1",
)  # fmt: skip


class GenaiSteps:
    """A folder in onnxruntime-genai; the cache is cut back to the prompt when it is full."""

    def __init__(self, folder: Path, lengths: Lengths) -> None:
        import onnxruntime_genai

        self.genai, self.lengths = onnxruntime_genai, lengths
        config = onnxruntime_genai.Config(str(folder))
        # ONNX Runtime's default is a thread for each physical core, the others' is what we say
        options = {"intra_op_num_threads": torch.get_num_threads()}
        config.overlay(json.dumps({"model": {"decoder": {"session_options": options}}}))
        self.model = onnxruntime_genai.Model(config)
        self.ids = lengths.make_ids().numpy().astype(np.int32)
        self.generator: Any = None

    def prompt(self) -> Any:
        """Return the logits after the prompt."""
        parameters = self.genai.GeneratorParams(self.model)
        parameters.set_search_options(max_length=self.lengths.total, batch_size=self.lengths.batch)
        self.generator = self.genai.Generator(self.model, parameters)
        self.generator.append_tokens(self.ids)
        return self.generator.get_logits()

    def token_again(self) -> Any:
        """Return the logits after one more token."""
        if self.generator.token_count() == self.lengths.total:
            self.generator.rewind_to(self.lengths.prompt)
        self.generator.append_tokens(self.ids[:, :1])
        return self.generator.get_logits()


class LlamaSteps:
    """A GGUF file in llama.cpp; the cache is cut back to the prompt when it is full."""

    def __init__(self, path: Path, lengths: Lengths) -> None:
        import llama_cpp

        threads = torch.get_num_threads()
        self.llama = llama_cpp.Llama(
            str(path), n_ctx=lengths.total, n_threads=threads, n_threads_batch=threads,
            verbose=False,
        )  # fmt: skip
        self.lengths = lengths
        self.ids = lengths.make_ids()[0].tolist()

    def _evaluate(self, ids: list[int]) -> Any:
        self.llama.eval(ids)
        return np.array(self.llama._ctx.get_logits()[:VOCABULARY])

    def prompt(self) -> Any:
        """Return the logits after the prompt."""
        self.llama.reset()
        return self._evaluate(self.ids)

    def token_again(self) -> Any:
        """Return the logits after one more token."""
        if self.llama.n_tokens == self.lengths.total:
            self.llama.n_tokens = self.lengths.prompt
        return self._evaluate(self.ids[:1])


# -- files of ortable, the model builder and llama.cpp


def export_with_ortable(model: Any, path: Path, weights: str) -> None:
    """Write a folder with ``ortable.export_language_model``."""
    ortable.export_language_model(model, path, weights=weights)


def write_with_builder(model: Any, path: Path, precision: str) -> None:
    """Write a folder with onnxruntime-genai's model builder."""
    source = _save_model(model, path.parent)
    arguments = ["-i", source, "-o", path, "-p", precision, "-e", "cpu", "-c", path.parent]
    environment = {**os.environ, "PYTHONPATH": str(FOLDER), "HF_HUB_OFFLINE": "1"}
    command = [sys.executable, "-m", "onnxruntime_genai.models.builder", *map(str, arguments)]
    subprocess.run(command, env=environment, check=True, capture_output=True)


def _save_model(model: Any, folder: Path) -> Path:
    """Save the model once as transformers does, with a tokenizer of a word for each token."""
    from tokenizers import Tokenizer, models
    from transformers import PreTrainedTokenizerFast

    path = folder / "transformers"
    if not path.exists():
        words = {f"<{number}>": number for number in range(VOCABULARY)}
        tokenizer = Tokenizer(models.WordLevel(words, unk_token="<0>"))
        PreTrainedTokenizerFast(tokenizer_object=tokenizer, eos_token="<2>").save_pretrained(path)
        model.save_pretrained(path)
    return path


def write_gguf(model: Any, path: Path, kind: str) -> None:
    """Write a GGUF file in float32, or quantize that file to a format of llama.cpp."""
    import llama_cpp

    source = path.parent / "F32.gguf"
    if not source.exists():
        _write_float32_gguf(model, source)
    if kind == "F32":
        return
    parameters = llama_cpp.llama_model_quantize_default_params()
    parameters.ftype = getattr(llama_cpp, f"LLAMA_FTYPE_MOSTLY_{kind}")
    status = llama_cpp.llama_model_quantize(bytes(source), bytes(path), parameters)
    if status:
        raise RuntimeError(f"llama_model_quantize returned {status}")


def _write_float32_gguf(model: Any, path: Path) -> None:
    import gguf

    config = model.config
    writer = gguf.GGUFWriter(str(path), "llama")
    writer.add_context_length(config.max_position_embeddings)
    writer.add_embedding_length(config.hidden_size)
    writer.add_block_count(config.num_hidden_layers)
    writer.add_feed_forward_length(config.intermediate_size)
    writer.add_head_count(config.num_attention_heads)
    writer.add_head_count_kv(config.num_key_value_heads)
    writer.add_layer_norm_rms_eps(config.rms_norm_eps)
    writer.add_rope_dimension_count(config.head_dim)
    writer.add_vocab_size(VOCABULARY)
    writer.add_tokenizer_model("none")
    names = gguf.get_tensor_name_map(gguf.MODEL_ARCH.LLAMA, config.num_hidden_layers)
    heads = {"q_proj": config.num_attention_heads, "k_proj": config.num_key_value_heads}
    for name, weight in model.state_dict().items():
        array = weight.numpy()
        for projection, count in heads.items():
            if projection in name:  # llama.cpp rotates pairs of neighbours, transformers halves
                halves = array.reshape(count, 2, -1, array.shape[1])
                array = np.ascontiguousarray(halves.swapaxes(1, 2).reshape(array.shape))
        writer.add_tensor(names.get_name(name, try_suffixes=(".weight",)), array)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()


# -- candidates


@dataclass(frozen=True)
class ModelFile:
    """How the file, or the folder, of a candidate is written, and how it runs.

    ``write`` takes the model and the path to write; ``open`` takes the path, the configuration of
    the model and the lengths, and returns an object with ``prompt`` and ``token_again``.
    """

    name: str
    write: Callable[[Any, Path], None]
    open: Callable[[Path, Any, Lengths], Any]


def _describe_ortable(weights: str) -> ModelFile:
    return ModelFile(
        f"ortable-{weights}",
        lambda model, path: export_with_ortable(model, path, weights),
        lambda path, config, lengths: GenaiSteps(path, lengths),
    )


def _describe_builder(precision: str) -> ModelFile:
    return ModelFile(
        f"builder-{precision}",
        lambda model, path: write_with_builder(model, path, precision),
        lambda path, config, lengths: GenaiSteps(path, lengths),
    )


def _describe_llama(kind: str) -> ModelFile:
    return ModelFile(
        f"{kind}.gguf",
        lambda model, path: write_gguf(model, path, kind),
        lambda path, config, lengths: LlamaSteps(path, lengths),
    )


def _describe_openvino(mode: str | None) -> ModelFile:
    return ModelFile(
        "openvino",
        lambda model, path: export_step(model, path / "model.onnx"),
        lambda path, config, lengths: OpenVino(path / "model.onnx", config, lengths, mode),
    )


FILES: Mapping[str, Mapping[str, ModelFile]] = {
    "float32": {
        "ortable": _describe_ortable("float32"),
        "model builder": _describe_builder("fp32"),
        "llama.cpp": _describe_llama("F32"),
        "OpenVINO": _describe_openvino(None),
    },
    "int8": {
        "ortable": _describe_ortable("int8"),
        "model builder": _describe_builder("int8"),
        "llama.cpp Q8_0": _describe_llama("Q8_0"),
        "OpenVINO": _describe_openvino("INT8_ASYM"),
    },
    "int4": {
        "ortable": _describe_ortable("int4"),
        "model builder": _describe_builder("int4"),
        "llama.cpp Q4_0": _describe_llama("Q4_0"),
        "llama.cpp Q4_K_M": _describe_llama("Q4_K_M"),
        "OpenVINO": _describe_openvino("INT4_ASYM"),
    },
}


def write_file(size: str, model: Any, file: ModelFile) -> Path:
    """Return the path of a candidate's file; write it, unless a peer's has been written before."""
    path = MODELS / size / file.name
    if not path.exists() or file.name.startswith("ortable"):
        path.parent.mkdir(parents=True, exist_ok=True)
        file.write(model, path)
    return path


def count_bytes(path: Path) -> int:
    """Return the bytes of a file, or of the graphs and weights of a folder."""
    if path.is_file():
        return path.stat().st_size
    return sum(item.stat().st_size for item in path.glob("*.onnx*"))

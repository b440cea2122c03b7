"""Load a quantized checkpoint as a model of transformers whose layers keep the codes of the file.

`packed_formats` and `gguf_files` read the tensors. transformers' ``from_pretrained`` gets them as a
state dict, with a quantizer that puts the layers of `weight_codes` into the model.
"""

from __future__ import annotations

import json
import os
import warnings
from collections.abc import Iterator, Mapping
from functools import cache
from pathlib import Path
from typing import Any

import torch

from ortable.errors import InputError, UnsupportedCase, VersionError

from ..signature.dimension_names import caller_stack_level
from .gguf_files import GgufTensors, import_gguf
from .packed_formats import READERS, read_torchao
from .weight_codes import CodedEmbedding, CodedLinear, WeightCodes

_METHOD = "ortable_codes"  # the name of the quantizer among those of transformers
# Embeddings that multiply their rows by the attribute ``scalar_embed_scale``.
_SCALED_EMBEDDINGS = ("Gemma2TextScaledWordEmbedding", "Gemma3TextScaledWordEmbedding")


def load_quantized_checkpoint(path: str | os.PathLike[str]) -> Any:
    """Load a quantized language model whose linear layers keep the integers of the checkpoint.

    The model computes in float32 and runs in PyTorch, too. With ``target="onnxruntime"``, an export
    stores the integers for ONNX Runtime's ``MatMulNBits``. docs/language-models.md lists the
    formats.

    Args:
        path: a local folder with ``config.json`` and safetensors files in the format GPTQ, AWQ,
            compressed-tensors or torchao; or a file ``.gguf``.

    Returns:
        A causal language model of transformers, in eval mode.

    Raises:
        InputError: ``path`` has no checkpoint in one of these formats, or tensors that the model
            does not have.
        VersionError: a package that reads the format is missing (gguf, torchao).
    """
    location = Path(path)
    if location.is_file() and location.suffix == ".gguf":
        return _load_gguf(location)
    config_file = location / "config.json"
    if not config_file.is_file():
        raise InputError(
            f"'{location}' is neither a file .gguf nor a local folder with config.json: download a "
            "checkpoint first, for example with huggingface_hub.snapshot_download"
        )
    settings = json.loads(config_file.read_text(encoding="utf-8")).get("quantization_config") or {}
    method = str(settings.get("quant_method"))
    if method == "torchao":
        return _load_torchao(location)
    if method not in READERS:
        methods = ", ".join((*READERS, "torchao"))
        raise InputError(
            f"'{location}' has quant_method {method!r} in its quantization_config; known are "
            f"{methods}, and files .gguf. Load it with from_pretrained, and give the model"
        )
    return _load_folder(location, method, settings)


def _load_folder(folder: Path, method: str, settings: Mapping[str, Any]) -> Any:
    from transformers import AutoConfig, GenerationConfig

    config = AutoConfig.from_pretrained(folder, local_files_only=True, trust_remote_code=False)
    del config.quantization_config
    skeleton = _make_skeleton(config)
    tensors = dict(_read_folder(folder, skeleton, method, settings))
    model = _build_model(skeleton, config, tensors, str(folder))
    if (folder / "generation_config.json").is_file():
        model.generation_config = GenerationConfig.from_pretrained(
            folder, local_files_only=True, trust_remote_code=False
        )
    return model


def _load_torchao(folder: Path) -> Any:
    """Load the tensors of torchao with transformers, and replace the layers that have them."""
    from transformers import AutoModelForCausalLM

    try:
        model = AutoModelForCausalLM.from_pretrained(
            folder, dtype=torch.float32, local_files_only=True, trust_remote_code=False
        )
    except ImportError as error:
        raise VersionError(f"'{folder}' needs the package torchao: {error}") from error
    for name, layer in list(model.named_modules()):
        weight = getattr(layer, "weight", None)
        if not hasattr(weight, "qdata"):
            continue
        try:
            codes = read_torchao(weight).in_kernel_blocks()
            _check_layer(layer, codes)
        except UnsupportedCase as error:
            raise InputError(
                f"'{name}' in '{folder}': {error.message}. Load it with from_pretrained, and give "
                "the model"
            ) from error
        model.set_submodule(name, _coded_layer(layer, codes))
    model.hf_quantizer.remove_quantization_config(model)
    return model.eval()


def _load_gguf(path: Path) -> Any:
    from transformers import AutoConfig

    import_gguf()
    config = AutoConfig.from_pretrained(
        path.parent, gguf_file=path.name, local_files_only=True, trust_remote_code=False
    )
    skeleton = _make_skeleton(config)
    file = GgufTensors(path, config, list(skeleton.state_dict()))
    tensors = dict(file.read_tensors())
    model = _build_model(skeleton, config, tensors, str(path))
    factors = file.rotary_factors()
    if factors is not None:
        model.model.rotary_emb.inv_freq.div_(factors)
    return model


def _make_skeleton(config: Any) -> Any:
    """Return the model of a configuration without data."""
    from transformers import AutoModelForCausalLM

    with torch.device("meta"):
        return AutoModelForCausalLM.from_config(config, dtype=torch.float32)


def _read_folder(
    folder: Path, skeleton: Any, method: str, settings: Mapping[str, Any]
) -> Iterator[tuple[str, torch.Tensor | WeightCodes]]:
    """Yield the parameters of a model from safetensors files, those that are codes as codes."""
    from safetensors import safe_open

    opened_files = [safe_open(path, "pt") for path in sorted(folder.glob("*.safetensors"))]
    files = {name: file for file in opened_files for name in file.keys()}  # noqa: SIM118
    if not files:
        raise InputError(f"'{folder}' has no safetensors files")
    read, markers = READERS[method]
    roles_by_layer: dict[str, list[str]] = {}
    for name, file in files.items():
        layer, _, role = name.rpartition(".")
        if role != "bias" and any(f"{layer}.{marker}" in files for marker in markers):
            roles_by_layer.setdefault(layer, []).append(role)
        else:
            yield name, file.get_tensor(name)
    for layer, roles in roles_by_layer.items():
        shape = _weight_shape(skeleton, layer)
        names = {role: f"{layer}.{role}" for role in roles}
        tensors = {role: files[name].get_tensor(name) for role, name in names.items()}
        try:
            yield f"{layer}.weight", read(tensors, shape, settings)
        except UnsupportedCase as error:
            raise InputError(f"'{layer}' in '{folder}': {error.message}") from error


def _weight_shape(skeleton: Any, name: str) -> tuple[int, int]:
    """Return N and K of the linear layer ``name``."""
    try:
        layer = skeleton.get_submodule(name)
    except AttributeError:
        layer = None
    if not isinstance(layer, torch.nn.Linear):
        raise InputError(
            f"the checkpoint has codes for '{name}', which is no linear layer of "
            f"{type(skeleton).__name__}: experts of a mixture, for example, are not read"
        )
    return layer.out_features, layer.in_features


# -- the model


def _build_model(
    skeleton: Any, config: Any, tensors: dict[str, torch.Tensor | WeightCodes], source: str
) -> Any:
    """Return the model with the parameters ``tensors``, whose layers of codes are `CodedLinear`.

    Codes that kernels do not read become floats, and a warning lists their names.

    Raises InputError if the model has other parameters.
    """
    ties = config.tie_word_embeddings
    if ties and _copy_tied_codes(skeleton, tensors):
        config.tie_word_embeddings = False
    layers, state, reasons = _split_parameters(skeleton, tensors)
    if reasons:
        lines = [f"{name} ({reason})" for name, reason in reasons.items()]
        warnings.warn(
            f"{len(lines)} weights of '{source}' become float32: {'; '.join(lines[:8])}",
            UserWarning,
            stacklevel=caller_stack_level(),
        )
    model, report = type(skeleton).from_pretrained(
        None,
        config=config,
        state_dict=state,
        dtype=torch.float32,
        quantization_config=_quantizer_settings()(layers),
        output_loading_info=True,
        local_files_only=True,
        trust_remote_code=False,
    )
    for kind in ("missing_keys", "unexpected_keys", "mismatched_keys"):
        if report[kind]:
            raise InputError(
                f"'{source}' does not fit {type(model).__name__}: {kind.replace('_', ' ')} "
                f"{sorted(map(str, report[kind]))[:8]}"
            )
    model.hf_quantizer.remove_quantization_config(model)
    model.config.tie_word_embeddings = ties
    return model.eval()


def _copy_tied_codes(skeleton: Any, tensors: dict[str, torch.Tensor | WeightCodes]) -> bool:
    """Give the last layer the codes of the embeddings if it has none; whether either is codes.

    Layers of codes are not tied by transformers, which ties the attribute ``weight``.
    """
    names = {id(module): f"{name}.weight" for name, module in skeleton.named_modules()}
    table, head = (
        names.get(id(module), "")
        for module in (skeleton.get_input_embeddings(), skeleton.get_output_embeddings())
    )
    if not any(isinstance(tensors.get(name), WeightCodes) for name in (table, head)):
        return False
    if head and table in tensors:
        tensors.setdefault(head, tensors[table])
    return True


def _split_parameters(
    skeleton: Any, tensors: Mapping[str, torch.Tensor | WeightCodes]
) -> tuple[dict[str, WeightCodes], dict[str, torch.Tensor], dict[str, str]]:
    """Return layers of codes, the state dict, and why weights of codes become floats."""
    layers: dict[str, WeightCodes] = {}
    state: dict[str, torch.Tensor] = {}
    reasons: dict[str, str] = {}
    unused_biases: set[str] = set()  # AutoGPTQ writes a bias of zeros for layers without one
    for name, value in tensors.items():
        if isinstance(value, torch.Tensor):
            state[name] = value
            continue
        layer = name.removesuffix(".weight")
        module, bias = skeleton.get_submodule(layer), tensors.get(f"{layer}.bias")
        if isinstance(bias, torch.Tensor) and getattr(module, "bias", None) is None:
            unused_biases |= set() if bias.any() else {f"{layer}.bias"}
        try:
            weight = value.in_kernel_blocks()
            _check_layer(module, weight)
        except UnsupportedCase as error:
            reasons[name], state[name] = error.message, value.dequantize_weight()
            continue
        layers[layer] = weight
        state |= {f"{layer}.{part}": tensor for part, tensor in weight.named_parts().items()}
    for name in unused_biases & state.keys():
        del state[name]
    return layers, state, reasons


def _check_layer(layer: torch.nn.Module, weight: WeightCodes) -> None:
    """Raise UnsupportedCase if no layer of codes computes what ``layer`` does."""
    is_scaled = type(layer).__name__ in _SCALED_EMBEDDINGS
    if type(layer) not in (torch.nn.Linear, torch.nn.Embedding) and not is_scaled:
        raise UnsupportedCase(f"of a {type(layer).__name__}")


@cache
def _quantizer_settings() -> Any:
    """Register a quantizer with transformers; return the class of its settings."""
    from transformers.quantizers import HfQuantizer
    from transformers.quantizers.auto import register_quantization_config, register_quantizer
    from transformers.utils.quantization_config import QuantizationConfigMixin

    @register_quantization_config(_METHOD)
    class CodedLayersConfig(QuantizationConfigMixin):
        """Has the layers whose weights are codes, by name."""

        def __init__(self, layers: Mapping[str, WeightCodes]) -> None:
            self.quant_method = _METHOD
            self.layers = layers

        def __deepcopy__(self, memo: Any) -> Any:
            return self

        def to_dict(self) -> dict[str, Any]:
            return {"quant_method": _METHOD}

    @register_quantizer(_METHOD)
    class CodedLayersQuantizer(HfQuantizer):
        """Replaces layers of a model without data, before transformers loads the data."""

        def _process_model_before_weight_loading(self, model: Any, **_: Any) -> None:
            for name, weight in self.quantization_config.layers.items():
                layer = model.get_submodule(name)
                model.set_submodule(name, _coded_layer(layer, weight.map_parts(_without_data)))

        def is_serializable(self) -> bool:
            return False

        @property
        def is_trainable(self) -> bool:
            return False

    return CodedLayersConfig


def _without_data(tensor: torch.Tensor) -> torch.Tensor:
    return tensor.to("meta")


def _coded_layer(layer: Any, weight: WeightCodes) -> torch.nn.Module:
    """Return the layer of codes that replaces ``layer``."""
    if isinstance(layer, torch.nn.Embedding):
        return CodedEmbedding(weight, getattr(layer, "scalar_embed_scale", None))
    return CodedLinear(weight, layer.bias)

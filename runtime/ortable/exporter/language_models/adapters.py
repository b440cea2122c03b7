"""Read LoRA adapters in the layout of PEFT, and write the files that ONNX Runtime reads.

An adapter adds ``x @ A @ B`` to the results of some linear layers. adapted_decoder.py makes A and B
inputs of the graph; runner.py binds them.
"""

from __future__ import annotations

import json
import math
import os
import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeAlias

import torch

from ortable import dtypes
from ortable.errors import ExportError, InputError, OptionError
from ortable.exporter.reporting.sessions import array_of, ort_value
from ortable.ir.proto.atomic_files import unused_path
from ortable.ir.schemas import TENSOR_TYPES

from .model_folder import ADAPTER_SUFFIX

# A folder of PEFT's `save_pretrained`, or the contents of its two files: settings and tensors.
Adapter: TypeAlias = str | os.PathLike[str] | tuple[Mapping[str, Any], Mapping[str, torch.Tensor]]

_CONFIG, _WEIGHTS = "adapter_config.json", "adapter_model.safetensors"
_KEY = re.compile(r"(?:base_model\.model\.)?(.+)\.lora_([AB])\.weight")
_NAME = re.compile(r"[\w-][\w.-]*")
# Settings of PEFT that do not change the result of trained weights, or that are read below. Others
# must have no value.
_READ_SETTINGS = frozenset((
    "alpha_pattern", "auto_mapping", "base_model_name_or_path", "bias", "ensure_weight_tying",
    "eva_config", "exclude_modules", "fan_in_fan_out", "inference_mode", "init_lora_weights",
    "layers_pattern", "layers_to_transform", "lora_alpha", "lora_dropout", "megatron_core",
    "peft_type", "peft_version", "qalora_group_size", "r", "rank_pattern", "revision",
    "target_modules", "task_type", "use_rslora",
))  # fmt: skip
# Other settings start from weights of the base model that they changed.
_INITIAL_WEIGHTS = (None, True, False, "gaussian", "orthogonal", "eva")


@dataclass(frozen=True)
class LoraWeights:
    """Weights of an adapted layer: ``a`` (in, rank) and ``b`` (rank, out), which is scaled."""

    a: torch.Tensor
    b: torch.Tensor


@dataclass(frozen=True)
class AdapterInput:
    """Dtype and shape of an input for an adapter, in which the rank is a name."""

    dtype: torch.dtype
    shape: tuple[int | str, ...]


def session_inputs(session: Any) -> dict[str, AdapterInput]:
    """Return the inputs for adapters of a session: those that have defaults."""
    return {
        value.name: AdapterInput(dtypes.to_torch(TENSOR_TYPES[value.type]), tuple(value.shape))
        for value in session.get_overridable_initializers()
    }


def input_name(module: str, kind: str) -> str:
    """Return the name of the input that holds A or B of a module."""
    return f"{module}.lora_{kind}"


def check_adapter_name(name: Any) -> None:
    """Raise OptionError if a name cannot be the name of a file."""
    if not isinstance(name, str) or not _NAME.fullmatch(name):
        raise OptionError(
            f"the name of an adapter has letters, digits, '_', '-' and '.', unlike {name!r:.80}"
        )


def read_adapters(adapters: Mapping[str, Adapter] | None) -> dict[str, dict[str, LoraWeights]]:
    """Return the weights of adapters by name and module; raise as read_adapter does."""
    if adapters is not None and not isinstance(adapters, Mapping):
        raise OptionError(f"adapters is a dict of adapters by name, not {adapters!r:.80}")
    return {name: read_adapter(name, adapter) for name, adapter in (adapters or {}).items()}


def read_adapter(name: str, adapter: Adapter) -> dict[str, LoraWeights]:
    """Return the weights of an adapter by module.

    Raises InputError if the files are not those of PEFT, or if the adapter is more than a sum of
    products: DoRA, biases, trained embeddings, other types than LoRA.
    """
    check_adapter_name(name)
    if isinstance(adapter, tuple) and len(adapter) == 2:
        config, tensors = adapter
    elif isinstance(adapter, (str, os.PathLike)):
        config, tensors = _read_folder(name, Path(adapter))
    else:
        raise InputError(
            f"adapter {name!r} is a folder of PEFT, or its settings and its tensors (two dicts), "
            f"not {type(adapter).__name__}"
        )
    _check_config(name, config)
    matches = {key: _KEY.fullmatch(key) for key in tensors}
    unknown = [key for key, match in matches.items() if match is None]
    if unknown:
        raise InputError(
            f"adapter {name!r} has {unknown[0]!r}; only lora_A.weight and lora_B.weight of linear "
            "layers become inputs (PEFT leaves out copies of embeddings and of lm_head with "
            "save_embedding_layers=False)"
        )
    modules: dict[str, Any] = {match[1]: {} for match in matches.values() if match}
    for key, match in matches.items():
        if match is not None:
            modules[match[1]][match[2]] = tensors[key]
    return {
        module: _make_weights(f"adapter {name!r}, {module}", module, config, pair)
        for module, pair in modules.items()
    }


def _read_folder(name: str, folder: Path) -> tuple[Mapping[str, Any], Mapping[str, torch.Tensor]]:
    from safetensors import SafetensorError
    from safetensors.torch import load_file

    try:
        config = json.loads((folder / _CONFIG).read_text(encoding="utf-8"))
        return config, load_file(folder / _WEIGHTS)
    except (OSError, ValueError, SafetensorError) as error:
        raise InputError(
            f"adapter {name!r} is a folder with {_CONFIG} and {_WEIGHTS}, as PEFT's "
            f"save_pretrained writes it: {error}"
        ) from None


def _check_config(name: str, config: Any) -> None:
    if not isinstance(config, Mapping):
        raise InputError(f"the settings of adapter {name!r} are a dict, not {config!r:.80}")
    unsupported = {
        key: value for key, value in config.items() if value and key not in _READ_SETTINGS
    }
    if str(config.get("peft_type", "LORA")).rpartition(".")[2] != "LORA":
        unsupported["peft_type"] = config["peft_type"]
    if config.get("bias", "none") != "none":
        unsupported["bias"] = config["bias"]
    if config.get("init_lora_weights") not in _INITIAL_WEIGHTS:
        unsupported["init_lora_weights"] = config["init_lora_weights"]
    if unsupported:
        key, value = next(iter(unsupported.items()))
        raise InputError(
            f"adapter {name!r} has {key}={value!r:.80}: only adapters that add the product of x, "
            "lora_A and lora_B become inputs. Merge it into the model: merge_and_unload()"
        )


def _make_weights(
    words: str, module: str, config: Mapping[str, Any], pair: Mapping[str, torch.Tensor]
) -> LoraWeights:
    """Return the weights of a module, transposed, with the factor of PEFT in B."""
    if len(pair) != 2:
        raise InputError(f"{words}: lora_{next(iter(pair))} without its counterpart")
    down, up = (pair[kind].detach() for kind in "AB")
    is_matrix = down.dim() == up.dim() == 2 and down.is_floating_point() and up.is_floating_point()
    if not is_matrix or down.shape[0] != up.shape[1]:
        raise InputError(
            f"{words}: lora_A is floats (rank, in) and lora_B (out, rank), not {down.dtype} "
            f"{tuple(down.shape)} and {up.dtype} {tuple(up.shape)}"
        )
    factor = _compute_scaling(words, module, config, down.shape[0])
    return LoraWeights(
        down.to(torch.float32).T.contiguous(), (up.to(torch.float32).T * factor).contiguous()
    )


def _compute_scaling(words: str, module: str, config: Mapping[str, Any], rank: int) -> float:
    """Return alpha / rank, or alpha / sqrt(rank), with the alpha of the module's pattern."""
    alpha = config.get("lora_alpha")
    for pattern, value in (config.get("alpha_pattern") or {}).items():
        if re.match(rf"(.*\.)?({pattern})$", module):  # as PEFT matches names
            alpha = value
            break
    if not isinstance(alpha, (int, float)) or isinstance(alpha, bool):
        raise InputError(f"{words}: lora_alpha is a number, not {alpha!r:.80}")
    if rank == 0:
        return 1.0
    return alpha / (math.sqrt(rank) if config.get("use_rslora") else rank)


# -- files of ONNX Runtime


def adapter_path(folder: Path, name: str) -> Path:
    """Return the file of an adapter."""
    return folder / f"{name}{ADAPTER_SUFFIX}"


def write_adapters(
    folder: Path,
    adapters: Mapping[str, Mapping[str, LoraWeights]],
    inputs: Mapping[str, AdapterInput],
) -> None:
    """Write a file for each adapter."""
    for name, weights in adapters.items():
        write_adapter(folder, name, weights, inputs)


def write_adapter(
    folder: Path, name: str, weights: Mapping[str, LoraWeights], inputs: Mapping[str, AdapterInput]
) -> None:
    """Write ``<name>.onnx_adapter``.

    Raises InputError if the weights do not fit the inputs, and ExportError if writing fails.
    """
    import onnxruntime

    parameters = {}
    for module, pair in weights.items():
        for kind, value in (("A", pair.a), ("B", pair.b)):
            key = input_name(module, kind)
            _check_shape(name, key, list(value.shape), inputs)
            parameters[key] = ort_value(array_of(value.to(inputs[key].dtype)))
    adapter = onnxruntime.AdapterFormat()
    adapter.set_adapter_version(1)
    adapter.set_model_version(1)
    adapter.set_parameters(parameters)
    path = adapter_path(folder, name)
    staging = unused_path(folder, path.name)
    try:
        adapter.export_adapter(str(staging))
        os.replace(staging, path)
    except Exception as error:  # ONNX Runtime's error classes have no narrower base
        raise ExportError(f"adapter {name!r} could not be written to '{path}': {error}") from error
    finally:
        staging.unlink(missing_ok=True)


@dataclass(frozen=True)
class LoadedAdapter:
    """The inputs of an adapter, OrtValues in the memory of ``file``."""

    file: Any
    inputs: Mapping[str, Any]


def load_adapter(folder: Path, name: str, inputs: Mapping[str, AdapterInput]) -> LoadedAdapter:
    """Read the file of an adapter; raise InputError if it is missing or has other inputs."""
    import onnxruntime

    check_adapter_name(name)
    path = adapter_path(folder, name)
    if not path.is_file():
        names = sorted(file.stem for file in folder.glob(f"*{ADAPTER_SUFFIX}"))
        raise InputError(
            f"'{folder}' has no adapter {name!r}; it has {', '.join(map(repr, names)) or 'none'}. "
            "add_adapter adds one"
        )
    try:
        file = onnxruntime.AdapterFormat.read_adapter(str(path))
    except Exception as error:  # its error classes have no narrower base
        raise InputError(f"'{path}' is no adapter of ONNX Runtime: {error}") from None
    values = file.get_parameters()
    for key, value in values.items():
        _check_shape(name, key, value.shape(), inputs)
        dtype = dtypes.to_torch(TENSOR_TYPES[value.data_type()])
        if dtype != inputs[key].dtype:
            raise InputError(f"adapter {name!r}: {key} is {dtype}, the input {inputs[key].dtype}")
    return LoadedAdapter(file, values)


def _check_shape(name: str, key: str, shape: list[int], inputs: Mapping[str, AdapterInput]) -> None:
    if key not in inputs:
        raise InputError(
            f"adapter {name!r} adapts '{key.rpartition('.')[0]}', for which the graph has no "
            "inputs: export the model with an adapter of this layer"
        )
    expected = inputs[key].shape
    if any(
        isinstance(want, int) and want != size for want, size in zip(expected, shape, strict=True)
    ):
        raise InputError(f"adapter {name!r}: {key} has the shape {shape}, the input {expected}")

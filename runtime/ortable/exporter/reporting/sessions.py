"""Create ONNX Runtime sessions of exported models, run them, and convert tensors.

The exporter and the debugger call this module; the backend makes its sessions elsewhere.
"""

from __future__ import annotations

import ctypes
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import torch
from onnx import numpy_helper

from ortable import dtypes
from ortable.compat.bisector import disabled_optimizers
from ortable.compat.providers import (
    CPU,
    apply_settings,
    check_configured,
    check_providers,
    provider_names,
    record_assignment,
    warn_cpu_nodes,
)
from ortable.errors import ExportError, OptionError, ProviderError
from ortable.interpreter.complex_numbers import real_tensor
from ortable.ir import initializers


def proto_of(model: Any) -> onnx.ModelProto:
    """Return a ModelProto itself, or the proto of a LargeModel, which lacks the weights."""
    return model if isinstance(model, onnx.ModelProto) else model.proto


# -- sessions


def make_session(
    model: Any, providers: Sequence[Any] | None = None, session_options: Any = None
) -> Any:
    """Create an InferenceSession of a ModelProto, a LargeModel or the Path of a file.

    The weights of a LargeModel are passed by address. ``providers``: the CPU by default.
    ``session_options``: a SessionOptions, or a dict of its settings, in which a name with a dot
    (``"session.use_env_allocators"``) is a config entry.

    Raises:
        ProviderError: a provider is missing or could not start.
        OptionError: SessionOptions has no such setting.
        Exception: ONNX Runtime cannot load the model; its error classes have no narrower base.
    """
    import onnxruntime

    from ortable_generated.optimizers import DISABLED, ENABLED

    requested = [CPU] if providers is None else list(providers)
    check_providers(requested)
    options = _session_options(session_options)
    check_configured(options, requested)
    record_assignment(options, requested)
    if isinstance(model, (onnx.ModelProto, Path)):
        source = str(model) if isinstance(model, Path) else model.SerializeToString()
    else:
        arrays = model.numpy_tensors()
        values = [ort_value(array) for array in arrays.values()]
        options.add_external_initializers(list(arrays), values)
        source = model.session_proto().SerializeToString()
    session = onnxruntime.InferenceSession(
        source,
        options,
        providers=requested,
        disabled_optimizers=disabled_optimizers(
            (*ENABLED, *DISABLED)
        ),  # the bisector disables some
    )
    failed = [name for name in provider_names(requested) if name not in session.get_providers()]
    if failed:
        raise ProviderError(
            f"Execution provider {failed[0]!r} could not start; the session has "
            f"{', '.join(session.get_providers())}. ONNX Runtime wrote the reason to stderr."
        )
    warn_cpu_nodes(session, requested)
    return session


_NO_KERNEL = "is not a registered function/op"
_KERNEL_ADVICE = (
    "What to do: give the session the library of its kernels: `options.register_custom_ops_library",
    "  (path)` of an onnxruntime.SessionOptions, then `program.session(session_options=options)`;",
    "  to_onnx writes the model with validate=False.",
)


def make_load_error(error: Exception, words: str) -> ExportError:
    """Return the error for a model that ONNX Runtime cannot load; ``words`` starts its message."""
    load_error = ExportError(f"{words}: {error}")
    return load_error.with_advice(*_KERNEL_ADVICE) if _NO_KERNEL in str(error) else load_error


def _session_options(settings: Any) -> Any:
    import onnxruntime

    if settings is not None and not isinstance(settings, Mapping):
        if not isinstance(settings, onnxruntime.SessionOptions):
            raise OptionError(
                "session_options is an onnxruntime.SessionOptions or a dict of its settings, not "
                f"{type(settings).__name__}"
            )
        return settings
    options = onnxruntime.SessionOptions()
    options.log_severity_level = 3
    apply_settings(options, settings or {}, "session_options", options.add_session_config_entry)
    return options


# -- tensors


def run_session(
    session: Any, feeds: Mapping[str, Any], names: Sequence[str] | None = None
) -> list[torch.Tensor]:
    """Run a session and return copies of its outputs as tensors.

    Args:
        session: an InferenceSession.
        feeds: a tensor, an integer or an array by input name. Dense tensors on the CPU are passed
            without a copy.
        names: the outputs to compute, in order; None computes all.
    """
    from ortable.compat.onnxruntime import bound_session

    if names is None:
        names = [output.name for output in session.get_outputs()]
    wrappers: list[Any] = []
    values = {name: _make_feed(value, wrappers) for name, value in feeds.items()}
    fetched = bound_session(session).run_with_ort_values(values, list(names), None)
    return [_to_tensor(fetched, index) for index in range(len(names))]


def _make_feed(value: Any, wrappers: list[Any]) -> Any:
    """Return the C object of an OrtValue; append the owner of its array to ``wrappers``."""
    from ortable.compat import onnxruntime

    if isinstance(value, torch.Tensor) and value.dtype not in _FLOAT8_DTYPES:
        return onnxruntime.ort_value(real_tensor(value).detach().cpu().resolve_neg().contiguous())
    wrapper = ort_value(value if isinstance(value, np.ndarray) else array_of(value))
    wrappers.append(wrapper)
    return onnxruntime.unwrap_ort_value(wrapper)


_FLOAT8_DTYPES = frozenset(map(dtypes.to_torch, dtypes.FLOAT8_TYPES))


def array_of(leaf: Any) -> np.ndarray:
    """Convert a tensor to an array, or an integer to an int64 array of shape [1]."""
    if isinstance(leaf, torch.Tensor):
        return initializers.to_numpy(real_tensor(leaf).detach().cpu().contiguous())
    return np.array([leaf], dtype=np.int64)


def ort_value(array: np.ndarray) -> Any:
    """Wrap an array in an OrtValue: by reference, except codes below 8 bits, which are packed."""
    import onnxruntime

    if array.dtype.isbuiltin == 1:
        return onnxruntime.OrtValue.ortvalue_from_numpy(array)
    onnx_type = dtypes.from_numpy(array.dtype)
    if onnx_type in dtypes.SUB_BYTE:  # packed codes at the start; the shape is that of the tensor
        packed = np.zeros(array.size, np.uint8)
        content = numpy_helper.from_array(array).raw_data
        packed[: len(content)] = np.frombuffer(content, np.uint8)
        array = packed.reshape(array.shape)
    return onnxruntime.OrtValue.ortvalue_from_numpy_with_onnx_type(array, onnx_type)


def _to_tensor(values: Any, index: int) -> torch.Tensor:
    """Copy one value of an OrtValueVector into a tensor.

    torch would copy a large one in threads, which then spin for 20 ms on the processors that the
    next run needs: a call of a vision transformer took 1.2 times as long.
    """
    from ortable.compat.onnxruntime import tensor_at

    element = values.element_type_at(index)
    if element == onnx.TensorProto.BOOL:
        return torch.from_numpy(values[index].numpy().copy())
    if element in dtypes.FLOAT8_TYPES:  # ONNX Runtime does not export them through dlpack
        value = values[index]
        tensor = torch.empty(value.shape(), dtype=dtypes.to_torch(element))
        ctypes.memmove(tensor.data_ptr(), value.data_ptr(), tensor.numel())
        return tensor
    source = tensor_at(values, index)
    if source.device.type != "cpu":
        return source.clone()
    tensor = torch.empty_like(source)
    ctypes.memmove(tensor.data_ptr(), source.data_ptr(), source.nbytes)
    return tensor

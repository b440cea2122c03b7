"""Register the key-value caches of transformers as pytrees, so that torch.export takes and returns
them: growing ones where to_onnx gets one, all inside bypass_export_some_errors.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

import torch

from ortable.compat.scoped_patch import apply_or_undo
from ortable.compat.torch import fx_pytree, pytree, unregister_pytree
from ortable.errors import InputError
from ortable.exporter.frontend.module_state import exclusive_export

_PAIR = ("self_attention_cache", "cross_attention_cache")
# Of a layer of a StaticCache, in the order of the flattened tensors.
_STATIC = ("keys", "values", "cumulative_length")


def register_cache_classes(static: bool = True) -> Callable[[], None] | None:
    """Register DynamicCache, EncoderDecoderCache and, with ``static``, StaticCache, where missing.

    DynamicCache as transformers does: all keys, then all values; EncoderDecoderCache: its two
    caches; StaticCache: keys, values and length of each layer. Returns how to undo it; None when
    all of them were registered before.
    """
    from transformers.cache_utils import DynamicCache, EncoderDecoderCache, StaticCache

    classes = (DynamicCache, EncoderDecoderCache, *([StaticCache] if static else []))
    if all(cls in pytree.SUPPORTED_NODES for cls in classes):
        return None  # a call of a program, which asks each time, waits for no export
    added: list[type] = []
    return apply_or_undo(
        lambda: _register_missing(classes, added), lambda: unregister_classes(added)
    )


@exclusive_export()
def _register_missing(classes: Iterable[type], added: list[type]) -> None:
    from transformers.cache_utils import DynamicCache, EncoderDecoderCache, StaticCache
    from transformers.integrations.executorch import register_dynamic_cache_export_support

    added += [cls for cls in classes if cls not in pytree.SUPPORTED_NODES]
    if DynamicCache in added:
        register_dynamic_cache_export_support()
    if EncoderDecoderCache in added:
        _register_class(
            EncoderDecoderCache, _flatten_pair, lambda caches, _: EncoderDecoderCache(*caches)
        )
    if StaticCache in added:
        _register_class(StaticCache, _flatten_static, _unflatten_static)


def unregister_classes(classes: Iterable[type]) -> None:
    """Remove ``classes`` from torch's pytrees."""
    for cls in classes:
        if cls in pytree.SUPPORTED_NODES:
            unregister_pytree(cls)


def _register_class(
    cls: Any, open_: Callable[[Any], Any], close: Callable[[Any, Any], Any]
) -> None:
    def with_keys(cache: Any) -> Any:
        values, context = open_(cache)
        names, _ = context
        pairs = zip(names, values, strict=True)
        return [(pytree.GetAttrKey(name), value) for name, value in pairs], context

    pytree.register_pytree_node(
        cls,
        open_,
        close,
        serialized_type_name=f"{cls.__module__}.{cls.__qualname__}",
        flatten_with_keys_fn=with_keys,
    )
    fx_pytree.register_pytree_flatten_spec(cls, lambda cache, spec: open_(cache)[0])


def _flatten_pair(cache: Any) -> tuple[list[Any], list[Any]]:
    """Return the two caches; the context is the names of the children, and what else the class
    has.
    """
    return [getattr(cache, name) for name in _PAIR], [list(_PAIR), None]


def _flatten_static(cache: Any) -> tuple[list[Any], list[Any]]:
    """One tensor for each of ``_STATIC`` and each layer; the rest of a layer is its length, and its
    window when it slides.

    Raises InputError for a layer without tensors yet, or of another class.
    """
    from transformers.cache_utils import StaticLayer

    layers = list(cache.layers)
    for layer in layers:
        if type(layer) is not StaticLayer or not layer.is_initialized:
            raise InputError(
                f"a StaticCache is opened when all its layers are StaticLayer with tensors, not "
                f"{type(layer).__name__}: call cache.early_initialization(...) first"
            )
    values = [getattr(layer, name) for layer in layers for name in _STATIC]
    names = [f"{name}_{number}" for number in range(len(layers)) for name in _STATIC]
    return values, [names, [layer.max_cache_len for layer in layers]]


def _unflatten_static(values: Any, context: list[Any]) -> Any:
    from transformers.cache_utils import Cache, StaticCache, StaticLayer

    values = list(values)
    layers: list[Any] = []
    for number, length in enumerate(context[1]):
        layer: Any = StaticLayer(max_cache_len=length)
        keys, states, filled = values[number * 3 : number * 3 + 3]
        layer.keys, layer.values, layer.cumulative_length = keys, states, filled
        layer.is_initialized = True
        if isinstance(keys, torch.Tensor):
            layer.dtype, layer.device = keys.dtype, keys.device
            layer.batch_size, layer.num_heads = keys.shape[:2]
            layer.k_head_dim, layer.v_head_dim = keys.shape[-1], states.shape[-1]
        layers.append(layer)
    cache = StaticCache.__new__(StaticCache)
    Cache.__init__(cache, layers=layers)
    return cache

"""Register the key-value caches of transformers as pytrees, so that torch.export accepts them.

to_onnx registers DynamicCache and EncoderDecoderCache if a call or module needs them;
bypass_export_some_errors also registers StaticCache.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

import torch

from ortable.compat.scoped_patch import apply_or_undo
from ortable.compat.torch import fx_pytree, pytree, unregister_pytree
from ortable.errors import InputError
from ortable.exporter.frontend.module_state import exclusive_export

_CACHE_ATTRIBUTES = ("self_attention_cache", "cross_attention_cache")
# Tensors of a layer of a StaticCache, in the order of the flattened cache.
_LAYER_TENSORS = ("keys", "values", "cumulative_length")


def register_cache_classes(static: bool = True) -> Callable[[], None] | None:
    """Register the cache classes of transformers that are not registered yet.

    These are DynamicCache (all keys, then all values, as transformers registers it),
    EncoderDecoderCache (its two caches) and, with ``static``, StaticCache (keys, values and length
    of each layer). Returns a function that undoes it, or None if all classes were registered
    before.
    """
    from transformers.cache_utils import DynamicCache, EncoderDecoderCache, StaticCache

    classes = (DynamicCache, EncoderDecoderCache, *([StaticCache] if static else []))
    if all(cls in pytree.SUPPORTED_NODES for cls in classes):
        return None  # checked before the export lock, so that calls of a program do not wait
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
    cls: Any, flatten: Callable[[Any], Any], unflatten: Callable[[Any, Any], Any]
) -> None:
    def with_keys(cache: Any) -> Any:
        values, context = flatten(cache)
        names, _ = context
        pairs = zip(names, values, strict=True)
        return [(pytree.GetAttrKey(name), value) for name, value in pairs], context

    pytree.register_pytree_node(
        cls,
        flatten,
        unflatten,
        serialized_type_name=f"{cls.__module__}.{cls.__qualname__}",
        flatten_with_keys_fn=with_keys,
    )
    fx_pytree.register_pytree_flatten_spec(cls, lambda cache, spec: flatten(cache)[0])


def _flatten_pair(cache: Any) -> tuple[list[Any], list[Any]]:
    """Return the two caches, and the context: their names, and None."""
    return [getattr(cache, name) for name in _CACHE_ATTRIBUTES], [list(_CACHE_ATTRIBUTES), None]


def _flatten_static(cache: Any) -> tuple[list[Any], list[Any]]:
    """Return the tensors of all layers, and the context: their names, and the layer lengths.

    Raises InputError for a layer of another class or without tensors.
    """
    from transformers.cache_utils import StaticLayer

    layers = list(cache.layers)
    for layer in layers:
        if type(layer) is not StaticLayer or not layer.is_initialized:
            raise InputError(
                "a StaticCache can be exported if all its layers are StaticLayer with tensors, not "
                f"{type(layer).__name__}: call cache.early_initialization(...) first"
            )
    values = [getattr(layer, name) for layer in layers for name in _LAYER_TENSORS]
    names = [f"{name}_{number}" for number in range(len(layers)) for name in _LAYER_TENSORS]
    return values, [names, [layer.max_cache_len for layer in layers]]


def _unflatten_static(values: Any, context: list[Any]) -> Any:
    """Rebuild a StaticCache from its tensors, or from other leaves in their place."""
    from transformers.cache_utils import Cache, StaticCache, StaticLayer

    values = list(values)
    layers: list[Any] = []
    for number, length in enumerate(context[1]):
        layer: Any = StaticLayer(max_cache_len=length)
        keys, layer_values, cumulative_length = values[number * 3 : number * 3 + 3]
        layer.keys, layer.values, layer.cumulative_length = keys, layer_values, cumulative_length
        layer.is_initialized = True
        if isinstance(keys, torch.Tensor):
            layer.dtype, layer.device = keys.dtype, keys.device
            layer.batch_size, layer.num_heads = keys.shape[:2]
            layer.k_head_dim, layer.v_head_dim = keys.shape[-1], layer_values.shape[-1]
        layers.append(layer)
    cache = StaticCache.__new__(StaticCache)
    Cache.__init__(cache, layers=layers)
    return cache

"""Make the matrices of LoRA adapters inputs of a decoder's graph, whose defaults have rank 0.

The adapted decoder is a torch module, which is exported and validated like any other. Called by
export.py; adapters.py reads the matrices.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from typing import Any

import torch
from onnx import GraphProto, TensorProto

from ortable import dtypes
from ortable.errors import ExportError, InputError

from .adapters import AdapterInput, LoraWeights, input_name
from .decoder import AdaptedLayer, Decoder


def adapt_decoder(decoder: Decoder, adapters: Mapping[str, Mapping[str, LoraWeights]]) -> Decoder:
    """Return a decoder that also takes A and B of each layer that one of the adapters has.

    Raises InputError for layers that the model does not have or that have other sizes, and
    ExportError for layers that the model computes without calling them.
    """
    layers: dict[str, AdaptedLayer] = {}
    for name, weights in adapters.items():
        for module, pair in weights.items():
            layer = layers.setdefault(module, _find_layer(name, decoder, module))
            if (len(pair.a), pair.b.shape[1]) != (layer.in_features, layer.out_features):
                raise InputError(
                    f"adapter {name!r} is for {len(pair.a)} inputs and {pair.b.shape[1]} outputs "
                    f"of '{module}', which has {layer.in_features} and {layer.out_features}"
                )
    # a fixed order, whatever the order of the adapters
    numbers = {path: number for number, (path, _) in enumerate(decoder.model.named_modules())}
    ordered = tuple(sorted(layers.values(), key=lambda layer: numbers[layer.name]))
    adapted = replace(
        decoder,
        model=AdaptedModel(decoder, ordered).eval(),
        cache="past_key_values",
        adapted_layers=ordered,
    )
    _check_calls(adapted)
    return adapted


def _find_layer(name: str, decoder: Decoder, module: str) -> AdaptedLayer:
    from transformers.pytorch_utils import Conv1D

    try:
        layer = decoder.model.get_submodule(module)
    except AttributeError:
        raise InputError(
            f"adapter {name!r} adapts '{module}', which {decoder.name} does "
            "not have: give the base model of the adapter"
        ) from None
    if hasattr(layer, "base_layer"):
        raise InputError(
            f"'{module}' of the model is adapted already: give the base model (`unload()` of PEFT)"
        )
    if not isinstance(layer, (torch.nn.Linear, Conv1D)):
        raise InputError(
            f"adapter {name!r} adapts '{module}', a {type(layer).__name__}: only linear layers "
            "have inputs for adapters"
        )
    sizes = layer.weight.shape
    return AdaptedLayer(module, *(sizes if isinstance(layer, Conv1D) else reversed(sizes)))


class AdaptedModel(torch.nn.Module):
    """A language model whose call has the matrices of an adapter as arguments."""

    def __init__(self, decoder: Decoder, layers: Sequence[AdaptedLayer]) -> None:
        super().__init__()
        self.model, self.cache = decoder.model, decoder.cache
        self.config, self.generation_config = decoder.model.config, decoder.model.generation_config
        self.device, self.base_name = decoder.model.device, decoder.name
        self.layer_names = [layer.name for layer in layers]

    def forward(
        self,
        input_ids: torch.Tensor,
        attention_mask: torch.Tensor,
        position_ids: torch.Tensor | None = None,
        past_key_values: Any = None,
        use_cache: bool = True,
        logits_to_keep: int | None = None,
        adapters: Sequence[torch.Tensor] = (),
    ) -> Any:
        """Run the model with an adapter.

        Args:
            input_ids: int64 (batch, sequence).
            attention_mask: int64 (batch, past + sequence).
            position_ids: int64 (batch, sequence), if the model has position ids.
            past_key_values: the cache.
            use_cache: always True.
            logits_to_keep: how many of the last tokens get logits, if forward has the argument.
            adapters: float32 (in, rank) and (rank, out), two tensors for each adapted layer.
        """
        options = {
            "position_ids": position_ids,
            "logits_to_keep": logits_to_keep,
            self.cache: past_key_values,
        }
        with self._add_products(adapters):
            return self.model(
                input_ids=input_ids,
                attention_mask=attention_mask,
                use_cache=use_cache,
                **{name: value for name, value in options.items() if value is not None},
            )

    @contextmanager
    def _add_products(self, adapters: Sequence[torch.Tensor]) -> Iterator[None]:
        """Hook the layers for a block, as the model itself stays as it is."""
        with ExitStack() as stack:
            pairs = zip(adapters[::2], adapters[1::2], strict=True)
            for name, (a, b) in zip(self.layer_names, pairs, strict=bool(adapters)):
                layer = self.model.get_submodule(name)
                stack.callback(layer.register_forward_hook(_make_hook(a, b)).remove)
            yield


def _make_hook(a: torch.Tensor, b: torch.Tensor) -> Any:
    def add_product(module: Any, args: tuple[Any, ...], output: torch.Tensor) -> torch.Tensor:
        product = args[0].to(a.dtype) @ a @ b
        return (output + product).to(output.dtype)  # as PEFT rounds

    return add_product


def _check_calls(decoder: Decoder) -> None:
    """Raise ExportError if the model computes an adapted layer without calling it."""
    called: set[str] = set()
    base = decoder.model.model
    with ExitStack() as stack, torch.no_grad():
        for layer in decoder.adapted_layers:

            def record_call(module: Any, args: Any, output: Any, name: str = layer.name) -> None:
                called.update([name] if args else [])

            hook = base.get_submodule(layer.name).register_forward_hook(record_call)
            stack.callback(hook.remove)
        decoder.model(**decoder.prompt_call(torch.zeros(1, 2, dtype=torch.int64)))
    missing = [layer.name for layer in decoder.adapted_layers if layer.name not in called]
    if missing:
        raise ExportError(
            f"{decoder.name} reads the weights of '{missing[0]}' without calling the layer, "
            "so an adapter would have no effect there: merge it into the model"
        )


def adapter_arguments(decoder: Decoder, weights: Mapping[str, LoraWeights]) -> list[torch.Tensor]:
    """Return the argument ``adapters`` for an adapter, of rank 0 for layers that it leaves."""
    pairs = [
        weights.get(layer.name)
        or LoraWeights(torch.zeros(layer.in_features, 0), torch.zeros(0, layer.out_features))
        for layer in decoder.adapted_layers
    ]
    return [value.to(decoder.model.device) for pair in pairs for value in (pair.a, pair.b)]


def adapter_input_names(decoder: Decoder) -> list[str]:
    """Return the names of the inputs for adapters, in the order of the arguments."""
    return [input_name(layer.name, kind) for layer in decoder.adapted_layers for kind in "AB"]


def make_adapter_inputs_optional(graph: GraphProto, decoder: Decoder) -> None:
    """Add defaults of rank 0 to the inputs of adapters, which add zero."""
    for name, value in adapter_inputs(graph, decoder).items():
        sizes = [size if isinstance(size, int) else 0 for size in value.shape]
        dtype = dtypes.from_torch(value.dtype)
        graph.initializer.append(TensorProto(name=name, dims=sizes, data_type=dtype, raw_data=b""))


def adapter_inputs(graph: GraphProto, decoder: Decoder) -> dict[str, AdapterInput]:
    """Return the inputs for adapters of the graph of a step, by name."""
    types = {value.name: value.type.tensor_type for value in graph.input}
    return {
        name: AdapterInput(
            dtypes.to_torch(types[name].elem_type),
            tuple(size.dim_param or size.dim_value for size in types[name].shape.dim),
        )
        for name in adapter_input_names(decoder)
    }

"""Make the inputs of a model of transformers, by parameter of forward, from the table tiny.yaml."""

from __future__ import annotations

import ast
import inspect
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import torch

from .shrink import table

SPEC = re.compile(r"(?P<kind>[a-z]+)\[(?P<dims>.*)\]\s*(?P<rest>.*)")
FIRST_ID = 20  # smaller ids are special tokens


@dataclass(frozen=True)
class Sizes:
    """Batch, tokens, tokens of a decoder, and frames or samples of a call."""

    batch: int = 2
    tokens: int = 7
    decoder: int = 5
    frames: int = 64

    def named(self) -> dict[str, int]:
        """Return the sizes by the letters that the table uses."""
        return {"B": self.batch, "S": self.tokens, "D": self.decoder, "T": self.frames}


class Fields(Mapping[str, Any]):
    """Sizes by letter, and the fields of a configuration and of its parts."""

    def __init__(self, config: Any, sizes: Sizes) -> None:
        self.config, self.letters = config, sizes.named()

    def __getitem__(self, name: str) -> Any:
        if name in self.letters:
            return self.letters[name]
        for part in parts(self.config):
            value = getattr(part, name, None)
            if value is not None:
                return value[0] if isinstance(value, (list, tuple)) else value
        return table()["fields"][name]

    def __iter__(self) -> Iterator[str]:
        return iter(self.letters)

    def __len__(self) -> int:
        return len(self.letters)


def parts(config: Any) -> Iterator[Any]:
    """Yield a configuration and its parts."""
    yield config
    for name in getattr(config, "sub_configs", ()):
        part = getattr(config, name, None)
        if part is not None:
            yield from parts(part)


def required_inputs(model: Any) -> dict[str, str]:
    """Return the parameters that the model needs, with the table's texts for their values."""
    known_specs = table()["inputs"]
    parameters = inspect.signature(model.forward).parameters
    main = model.main_input_name
    names = [main] if isinstance(main, str) else list(main)
    if main == "input_ids":
        names += ["attention_mask"]
    names += [name for name, p in parameters.items() if p.default is inspect.Parameter.empty]
    names += table()["also"]
    if getattr(model.config, "is_encoder_decoder", False):
        names += ["decoder_input_ids"]
    specs = {
        name: known_specs[name] for name in names if name in parameters and name in known_specs
    }
    for kind in (model.config.model_type, type(model).__name__):
        specs.update(table()["calls"].get(kind, {}))
    return {name: spec for name, spec in specs.items() if spec is not None}


def make(model: Any, sizes: Sizes) -> dict[str, Any]:
    """Return values of the arguments, the same for the same sizes."""
    generator = torch.Generator().manual_seed(1)
    fields = Fields(model.config, sizes)
    return {name: value(spec, fields, generator) for name, spec in required_inputs(model).items()}


def value(spec: Any, fields: Fields, generator: torch.Generator) -> Any:
    """Return the value for a text of the table; raise ValueError for an invalid text."""
    if not isinstance(spec, str):
        return spec
    if spec.startswith("="):
        return ast.literal_eval(spec[1:].strip())
    if spec.startswith("tensor "):
        return torch.tensor(eval(spec[7:], {"__builtins__": {}}, fields))
    match = SPEC.fullmatch(spec)
    if match is None:
        raise ValueError(f"no way to make an input: {spec}")
    shape = [int(eval(dim, {"__builtins__": {}}, fields)) for dim in _split(match["dims"])]
    rest = [eval(text, {"__builtins__": {}}, fields) for text in match["rest"].split()]
    return _tensor(match["kind"], shape, rest, fields, generator)


def _split(dims: str) -> list[str]:
    return [text.strip() for text in dims.split(",") if text.strip()]


def _tensor(kind: str, shape: list[int], rest: list[Any], fields: Fields, seed: Any) -> Any:
    if kind == "float":
        return torch.randn(shape, generator=seed)
    if kind == "ids":
        limit = min(rest[0] if rest else fields["vocab_size"], 160)
        return torch.randint(min(FIRST_ID, limit // 2), limit, shape, generator=seed)
    if kind == "led":  # random tokens after a repeated special token
        tensor = torch.randint(FIRST_ID, min(fields["vocab_size"], 160), shape, generator=seed)
        tensor[:, : int(rest[1])] = int(rest[0])
        return tensor
    if kind == "int":
        return torch.randint(int(rest[0]), int(rest[1]), shape, generator=seed)
    if kind == "zeros":
        return torch.zeros(shape, dtype=torch.int64)
    if kind in ("bool", "false"):
        return torch.full(shape, kind == "bool")
    tensor = torch.ones(shape, dtype=torch.int64)
    if kind == "mask":
        tensor[1:2, -2:] = 0
    elif kind != "ones":
        raise ValueError(f"no such kind of input: {kind}")
    return tensor

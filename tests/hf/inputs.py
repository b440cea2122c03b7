"""What a model of transformers is called with, by the table tiny.yaml. In come a model and sizes,
out come tensors by the parameters of forward. Called by models.py."""

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
FIRST_ID = 20  # below are the tokens that mean something


@dataclass(frozen=True)
class Sizes:
    """Batch, tokens, tokens of a decoder, and frames or samples of a call."""

    batch: int = 2
    tokens: int = 7
    decoder: int = 5
    frames: int = 64

    def named(self) -> dict[str, int]:
        """By the letters that the table uses."""
        return {"B": self.batch, "S": self.tokens, "D": self.decoder, "T": self.frames}


class Fields(Mapping[str, Any]):
    """Sizes by letter, and the fields of a configuration: of its own, then of its parts."""

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
    """A configuration, and those in it."""
    yield config
    for name in getattr(config, "sub_configs", ()):
        part = getattr(config, name, None)
        if part is not None:
            yield from parts(part)


def wanted(model: Any) -> dict[str, str]:
    """Parameter -> how to make its value, of what the model is called with."""
    known = table()["inputs"]
    parameters = inspect.signature(model.forward).parameters
    main = model.main_input_name
    given = [main] if isinstance(main, str) else list(main)
    if main == "input_ids":
        given += ["attention_mask"]
    given += [name for name, each in parameters.items() if each.default is inspect.Parameter.empty]
    given += table()["also"]
    if getattr(model.config, "is_encoder_decoder", False):
        given += ["decoder_input_ids"]
    chosen = {name: known[name] for name in given if name in parameters and name in known}
    for kind in (model.config.model_type, type(model).__name__):
        chosen.update(table()["calls"].get(kind, {}))
    return {name: spec for name, spec in chosen.items() if spec is not None}


def make(model: Any, sizes: Sizes) -> dict[str, Any]:
    """Values of the arguments, the same for the same sizes."""
    generator = torch.Generator().manual_seed(1)
    fields = Fields(model.config, sizes)
    return {name: value(spec, fields, generator) for name, spec in wanted(model).items()}


def value(spec: Any, fields: Fields, generator: torch.Generator) -> Any:
    """The value that a text of the table describes. Raises ValueError for another text."""
    if not isinstance(spec, str):
        return spec
    if spec.startswith("="):
        return ast.literal_eval(spec[1:].strip())
    if spec.startswith("tensor "):
        return torch.tensor(eval(spec[7:], {"__builtins__": {}}, fields))
    found = SPEC.fullmatch(spec)
    if found is None:
        raise ValueError(f"no way to make an input: {spec}")
    shape = [int(eval(dim, {"__builtins__": {}}, fields)) for dim in _split(found["dims"])]
    rest = [eval(each, {"__builtins__": {}}, fields) for each in found["rest"].split()]
    return _tensor(found["kind"], shape, rest, fields, generator)


def _split(dims: str) -> list[str]:
    return [each.strip() for each in dims.split(",") if each.strip()]


def _tensor(kind: str, shape: list[int], rest: list[Any], fields: Fields, seed: Any) -> Any:
    if kind == "float":
        return torch.randn(shape, generator=seed)
    if kind == "ids":
        most = min(rest[0] if rest else fields["vocab_size"], 160)
        return torch.randint(min(FIRST_ID, most // 2), most, shape, generator=seed)
    if kind == "led":  # random tokens after one that means something, repeated
        made = torch.randint(FIRST_ID, min(fields["vocab_size"], 160), shape, generator=seed)
        made[:, : int(rest[1])] = int(rest[0])
        return made
    if kind == "int":
        return torch.randint(int(rest[0]), int(rest[1]), shape, generator=seed)
    if kind == "zeros":
        return torch.zeros(shape, dtype=torch.int64)
    if kind in ("bool", "false"):
        return torch.full(shape, kind == "bool")
    made = torch.ones(shape, dtype=torch.int64)
    if kind == "mask":
        made[1:2, -2:] = 0
    elif kind != "ones":
        raise ValueError(f"no such kind of input: {kind}")
    return made

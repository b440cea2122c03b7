"""The modules that a loop of decoding is made of: what comes before it, and one step of it, written
in torch so that they are exported like any model. In come a Decoder and a Decoding. Called by
loop.py."""

from __future__ import annotations

from typing import Any

import torch

from .decoder import BATCH, SEQUENCE, TOTAL, Decoder
from .decoding import Decoding, drawn, scored

STEPS = "steps"  # the dimension of random numbers
_STEPS = 5  # its size in the example


class Start(torch.nn.Module):
    """What the loop starts with besides the prompt: no text has ended, and the cache is empty."""

    def __init__(self, decoder: Decoder) -> None:
        super().__init__()
        self.layers = decoder.layers

    def forward(
        self, input_ids: torch.Tensor
    ) -> tuple[torch.Tensor, list[torch.Tensor], list[torch.Tensor]]:
        """From tokens (batch, sequence): bools (batch,), keys and values (batch, heads, 0, width)
        of each layer."""
        batch = input_ids.shape[0]
        finished = torch.zeros(batch, dtype=torch.bool)
        keys = [torch.zeros(batch, e.heads, 0, e.key_width, dtype=e.dtype) for e in self.layers]
        values = [torch.zeros(batch, e.heads, 0, e.value_width, dtype=e.dtype) for e in self.layers]
        return finished, keys, values


class Step(torch.nn.Module):
    """One step of the loop. Its results are whether to go on, and the arguments of the next step in
    the order of its own, but for the number of the step and the random numbers."""

    def __init__(self, decoder: Decoder, decoding: Decoding) -> None:
        super().__init__()
        self.model, self.positions, self.decoding = decoder.model, decoder.positions, decoding
        self.cache = decoder.cache
        self.ends: torch.Tensor | None
        device = decoder.model.device
        ends = torch.tensor(decoding.ends, device=device) if decoding.ends else None
        self.register_buffer("ends", ends, persistent=False)

    def forward(
        self,
        input_ids: torch.Tensor,
        attention_mask: torch.Tensor,
        finished: torch.Tensor,
        sequences: torch.Tensor,
        past_key_values: Any,
        number: torch.Tensor | None = None,
        random: torch.Tensor | None = None,
    ) -> tuple[Any, ...]:
        """Tokens (batch, sequence) that are not in the cache yet, mask and texts (batch, past +
        sequence), bools (batch,) of the texts that have ended, the cache; and where tokens are
        drawn the number of the step, and numbers of [0, 1) (steps, batch)."""
        positions = {}
        if self.positions:
            known = (attention_mask.cumsum(-1) - 1).clamp(min=0)
            positions["position_ids"] = known[:, -input_ids.shape[1] :]
        out = self.model(
            input_ids=input_ids,
            attention_mask=attention_mask,
            use_cache=True,
            **{self.cache: past_key_values},
            **positions,
        )
        scores = scored(self.decoding, out.logits[:, -1], sequences, attention_mask)
        if random is None or number is None:
            token = scores.argmax(-1)
        else:
            token = drawn(scores, random.index_select(0, number[None])[0])
        token = torch.where(finished, self.decoding.fill, token)
        ended = finished if self.ends is None else finished | (token[:, None] == self.ends).any(-1)
        token = token[:, None]
        mask = torch.cat([attention_mask, torch.ones_like(token)], dim=1)
        texts = torch.cat([sequences, token], dim=1)
        return ~ended.all(), token, mask, ended, texts, getattr(out, self.cache)


def step_example(decoder: Decoder, sample: bool) -> tuple[dict[str, Any], dict[str, Any]]:
    """Keywords of a call of Step, and their dynamic dimensions."""
    call, shapes = decoder.example(), decoder.dynamic_shapes()
    mask = call["attention_mask"]
    arguments = {
        "input_ids": (call["input_ids"], {0: BATCH, 1: SEQUENCE}),
        "attention_mask": (mask, {0: BATCH, 1: TOTAL}),
        "finished": (torch.zeros_like(mask[:, 0], dtype=torch.bool), {0: BATCH}),
        "sequences": (torch.zeros_like(mask), {0: BATCH, 1: TOTAL}),
        "past_key_values": (call[decoder.cache], shapes[decoder.cache]),
    }
    if sample:
        arguments["number"] = (mask.new_zeros(()), None)
        random = torch.zeros(_STEPS, len(mask), device=mask.device)
        arguments["random"] = (random, {0: STEPS, 1: BATCH})
    return (
        {name: value for name, (value, _) in arguments.items()},
        {name: shape for name, (_, shape) in arguments.items()},
    )

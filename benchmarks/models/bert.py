"""transformers' BertModel with random weights, and inputs for it. Base: 12 layers, 438 MB."""

from __future__ import annotations

import torch


def bert(layers: int = 12, *, attention: str = "sdpa", **config: object) -> torch.nn.Module:
    """``BertModel`` in eval mode, built from a configuration: nothing is downloaded.

    ``layers=12`` without further settings is BERT base. ``config`` goes to ``BertConfig``, for
    instance ``hidden_size=64, num_attention_heads=4, intermediate_size=128`` for a small one.
    """
    from transformers import BertConfig, BertModel

    settings = BertConfig(num_hidden_layers=layers, attn_implementation=attention, **config)
    return BertModel(settings).eval()


def narrow_bert(layers: int) -> torch.nn.Module:
    """A BERT of narrow layers: what a node of the graph costs does not depend on how wide it is."""
    narrow = {"hidden_size": 64, "num_attention_heads": 4, "intermediate_size": 128}
    return bert(layers, **narrow, vocab_size=1000)


def bert_inputs(
    batch: int = 2, length: int = 16, *, vocabulary: int = 30522, padded: bool = True
) -> dict[str, torch.Tensor]:
    """``input_ids`` and ``attention_mask``, int64[batch, length].

    With ``padded`` the last row ends in a quarter of padding, so that the mask matters.
    """
    ids = torch.randint(0, vocabulary, (batch, length))
    mask = torch.ones((batch, length), dtype=torch.int64)
    if padded:
        mask[-1, length - length // 4 :] = 0
    return {"input_ids": ids, "attention_mask": mask}

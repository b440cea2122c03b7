"""BertModel of transformers with random weights. BERT base has 12 layers and 438 MB."""

from __future__ import annotations

import torch


def bert(layers: int = 12, *, attention: str = "sdpa", **config: object) -> torch.nn.Module:
    """Build a ``BertModel`` in eval mode from a configuration; nothing is downloaded.

    ``layers=12`` without further settings is BERT base. ``config`` goes to ``BertConfig``, for
    example ``hidden_size=64, num_attention_heads=4, intermediate_size=128`` for a small model.
    """
    from transformers import BertConfig, BertModel

    settings = BertConfig(num_hidden_layers=layers, attn_implementation=attention, **config)
    return BertModel(settings).eval()


def narrow_bert(layers: int) -> torch.nn.Module:
    """Build a BERT with narrow layers: the time per node does not depend on the width."""
    settings = {"hidden_size": 64, "num_attention_heads": 4, "intermediate_size": 128}
    return bert(layers, **settings, vocab_size=1000)


def bert_inputs(
    batch: int = 2, length: int = 16, *, vocabulary: int = 30522, padded: bool = True
) -> dict[str, torch.Tensor]:
    """Return ``input_ids`` and ``attention_mask``, int64[batch, length].

    With ``padded``, the last quarter of the last row is padding, so that the mask has an effect.
    """
    ids = torch.randint(0, vocabulary, (batch, length))
    mask = torch.ones((batch, length), dtype=torch.int64)
    if padded:
        mask[-1, length - length // 4 :] = 0
    return {"input_ids": ids, "attention_mask": mask}

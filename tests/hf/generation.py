"""Compare the tokens of a language model's folder, run without the model's code, with eager's."""

from __future__ import annotations

import inspect
import tempfile
from pathlib import Path
from typing import Any

import torch

import ortable
from tests.suites.model_check import Stop, tried

from . import inputs

NEW_TOKENS = 6


def check_generation(model: Any, classify: Any) -> None:
    """Check greedy tokens after two prompts, the first with padding in front where it has a mask.

    Args:
        model: a model of transformers with ``generate``.
        classify: a function that calls another, and ends the check with an outcome if that raises.
    """
    prompts = tried("unrunnable", lambda: _prompts(model))
    settings = model.generation_config
    settings.eos_token_id = settings.forced_eos_token_id = None
    settings.do_sample = False
    if model.config.is_encoder_decoder and settings.decoder_start_token_id is None:
        settings.decoder_start_token_id = inputs.FIRST_ID
    options = {**prompts[1], "max_new_tokens": NEW_TOKENS}
    expected = tried("unrunnable", lambda: model.generate(prompts[0], **options))
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "model"
        exported = classify(lambda: ortable.export_language_model(model, path, genai=False))
        tokens = classify(lambda: exported.generate(prompts[0], **options))
    if not torch.equal(tokens, expected):
        raise Stop("mismatch", "generate", f"{tokens.tolist()}, not {expected.tolist()}")


def _prompts(model: Any) -> tuple[torch.Tensor, dict[str, torch.Tensor]]:
    """Return the first argument of ``generate``, and the mask if there is one."""
    made = inputs.make(model, inputs.Sizes())
    prompts = made.get("input_ids", made.get(model.main_input_name))
    if (
        "input_ids" not in made
        or "attention_mask" not in inspect.signature(model.forward).parameters
    ):
        return prompts, {}
    mask = torch.ones_like(prompts)
    mask[0, :2] = 0
    return prompts, {"attention_mask": mask}

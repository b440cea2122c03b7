"""Causal language models of transformers as folders that onnxruntime-genai and optimum read. In
comes a model, out go graphs with a cache, the files beside them, and what runs them. Public:
export_language_model, OnnxLanguageModel. Called by users."""

from __future__ import annotations

from .export import export_language_model
from .runner import OnnxLanguageModel

__all__ = ["OnnxLanguageModel", "export_language_model"]

"""Causal language models of transformers as folders that onnxruntime-genai and optimum read. In
comes a model, out go graphs with a cache, the files beside them, and what runs them. Public:
export_language_model, CacheOptions, OnnxLanguageModel. Called by users."""

from __future__ import annotations

from .coded_cache import CacheOptions
from .export import export_language_model
from .runner import OnnxLanguageModel

__all__ = ["CacheOptions", "OnnxLanguageModel", "export_language_model"]

"""Causal language models of transformers as folders that onnxruntime-genai and optimum read. In
comes a model, out go graphs with a cache, the files beside them, and what runs them. Called by
users."""

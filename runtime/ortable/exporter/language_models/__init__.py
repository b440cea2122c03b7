"""Export causal language models of transformers to folders that onnxruntime-genai and optimum
read.
"""

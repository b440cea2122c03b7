"""Export language models of transformers to folders for onnxruntime-genai and optimum."""

"""Models on CUDA: inference and training steps next to eager, inductor and a bare session."""

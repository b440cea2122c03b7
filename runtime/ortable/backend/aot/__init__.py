"""Entry points of torch.compile, and what compiles the graphs of AOTAutograd."""

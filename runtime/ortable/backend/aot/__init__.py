"""Entry points of torch.compile, and the compilation of AOTAutograd's graphs."""

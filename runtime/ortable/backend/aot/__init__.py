"""The entry points of torch.compile: options, AOTAutograd with forward and backward compilers,
decompositions, cached artifacts."""

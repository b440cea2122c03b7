"""Models of the benchmarks and tests, with random weights; nothing is downloaded.

- ``architectures.ARCHITECTURES``: exported models with dynamic dimensions, at several sizes
  (defined in ``language``, ``pictures`` and ``networks``);
- ``inference.MODELS``: models of the benchmarks of the backend and of rewrites;
- ``training.TRAINABLES`` and ``training.SMALL_TRAINABLES``: modules whose forward is the loss.
"""

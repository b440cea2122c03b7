"""Models that benchmarks and tests share: written here or built from configurations, random
weights, nothing downloaded. Each set goes by name.

- ``architectures.ARCHITECTURES``: what people export, with free dimensions, at more than one size
  (``language``, ``pictures``, ``networks`` have the rows, ``architecture`` what a row is);
- ``inference.MODELS``: what the benchmarks of the backend and of rewrites run;
- ``training.TRAINABLES`` and ``training.SMALL_TRAINABLES``: modules whose forward is the loss.

The other files hold one network each, or one family.
"""

"""Functions that the specs share: queries of dtypes and shapes, promotion, constants, casts.

Generated converters, `lowerings` and `passes.rewrite` call them; the ``__all__`` of a module lists
the functions that specs may use.
"""

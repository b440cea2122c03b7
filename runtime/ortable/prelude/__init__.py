"""Functions that specs share, and the facts behind them: dtypes, ranks, sizes, promotion, constants
and casts. Generated converters, `lowerings` and `passes.rewrite` call them; the ``__all__`` of a
module lists those that specs may use.
"""

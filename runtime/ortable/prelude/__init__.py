"""The words that specs share, and the facts behind them: dtypes, ranks, sizes, promotion,
constants and casts. In come results (names) and Python numbers, out go facts or names of new
results. Called by generated converters, `lowerings` and `passes.rewrite`; a module's ``__all__``
lists its words."""

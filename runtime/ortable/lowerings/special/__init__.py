"""Special functions: gamma, Bessel, error functions, orthogonal polynomials, and their tables of
coefficients. In comes a result, out goes the name of another. Called by generated converters."""

"""Special functions: gamma, Bessel, error functions, orthogonal polynomials, and their tables of
coefficients.
"""

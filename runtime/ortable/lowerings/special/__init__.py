"""Lower special functions: gamma, Bessel, error functions, orthogonal polynomials.

The package also has their tables of coefficients.
"""

"""Lower special functions: gamma, zeta, Bessel and Airy functions, orthogonal polynomials.

`prelude.rational_tables` has their coefficients, `prelude.error_functions` the error functions.
"""

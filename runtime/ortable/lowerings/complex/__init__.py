"""Complex numbers as pairs of real results: arithmetic, functions, the real parts of real
operators.
"""

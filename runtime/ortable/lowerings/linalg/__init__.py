"""Linear algebra: products, factorizations, solvers, eigenvalues by Jacobi rotations, powers.
In come batches of matrices, out go results. Called by generated converters."""

"""What prelude words and lowerings share and is no word itself: loops, factorisations of matrices,
tables of coefficients."""

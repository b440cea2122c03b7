"""Dense linear algebra over batches of matrices."""

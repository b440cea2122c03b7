"""Calls that torch refuses for their data must fail in the same way under torch.compile."""

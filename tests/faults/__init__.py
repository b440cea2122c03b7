"""What may go wrong around the code, done to it on purpose."""

"""Helper functions that the rules of specs/rewrites call, listed in ``__all__`` of each module."""

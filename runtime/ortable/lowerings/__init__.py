"""Hand-written algorithms that specs name with ``python:`` and a reason."""

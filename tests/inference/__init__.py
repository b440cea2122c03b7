"""Tests of the inference rules for shapes, dtypes and contents."""

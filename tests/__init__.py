"""Tests of ortable; the folders mirror those of the project."""

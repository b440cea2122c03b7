"""Tests of ortable. The folders mirror those of the project."""

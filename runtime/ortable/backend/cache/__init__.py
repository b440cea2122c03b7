"""Caches of the backend in memory, on disk and in torch's own AOTAutograd cache."""

from __future__ import annotations

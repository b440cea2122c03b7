"""Caches of conversions and sessions, their keys, and the file format of a conversion."""

from __future__ import annotations

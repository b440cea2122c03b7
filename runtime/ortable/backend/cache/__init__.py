"""Caches of the backend: conversions and sessions in memory, conversions on disk, and what torch's
own cache of AOTAutograd stores of a compiled graph.
"""

from __future__ import annotations

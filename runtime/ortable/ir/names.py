"""Unique names: the first user of a prefix gets it as it is, the next ones prefix2, prefix3, ...
A counter per prefix keeps this linear however many results share a prefix."""

from __future__ import annotations


class Names:
    """Names already taken, for results or for nodes. Shared by a graph and its subgraphs."""

    __slots__ = ("_next", "taken")

    def __init__(self) -> None:
        self.taken: set[str] = set()
        self._next: dict[str, int] = {}

    def reserve(self, name: str) -> None:
        """Takes a name that somebody else chose."""
        self.taken.add(name)

    def release(self, name: str) -> None:
        """Gives a name back that nobody has any more."""
        self.taken.discard(name)

    def unique(self, prefix: str) -> str:
        """Takes and returns the prefix, or the prefix with the first free number behind it."""
        taken = self.taken
        if prefix not in taken:
            taken.add(prefix)
            return prefix
        number = self._next.get(prefix, 2)
        name = f"{prefix}{number}"
        while name in taken:
            number += 1
            name = f"{prefix}{number}"
        self._next[prefix] = number + 1
        taken.add(name)
        return name

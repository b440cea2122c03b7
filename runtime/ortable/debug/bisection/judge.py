"""What is switched off in one run, and where a search stands. In come names of subsystems and a
number of applications, out come the answers that the parts of a compilation ask for; made by
`search` for each run."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection

from ortable.compat.bisector import Application


class Switches:
    """The judge of one run: whole subsystems that are off, and one whose first applications alone
    are on.

    :param off: subsystems without any application
    :param searching: the subsystem whose applications are counted
    :param limit: how many of them are on; None: all
    """

    def __init__(
        self, off: Collection[str] = (), searching: str = "", limit: int | None = None
    ) -> None:
        self.off = frozenset(off)
        self.searching = searching
        self.limit = limit
        self.counts: Counter[str] = Counter()  # of the applications that asked
        self.last: Application | None = None  # the last one that is on

    def searches(self, subsystem: str) -> bool:
        """Whether applications of a subsystem have to stay where they are."""
        return subsystem == self.searching or subsystem in self.off

    def disabled(self, subsystem: str, about: Callable[[], Application]) -> bool:
        """Whether the next application of a subsystem is off."""
        self.counts[subsystem] += 1
        if subsystem in self.off:
            return True
        if subsystem != self.searching:
            return False
        count = self.counts[subsystem]
        if count == self.limit:
            self.last = about()
        return self.limit is not None and count > self.limit

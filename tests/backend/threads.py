"""Several callers at once, as the tests of threads need them."""

from __future__ import annotations

import threading


def in_threads(count, work):
    """Runs `work(number)` in that many threads, which start together; errors are raised here."""
    barrier, errors = threading.Barrier(count), []

    def one(number):
        try:
            barrier.wait()
            work(number)
        except Exception as exc:
            errors.append(exc)

    threads = [threading.Thread(target=one, args=(i,)) for i in range(count)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    if errors:
        raise errors[0]

"""Run a function in several threads at once."""

from __future__ import annotations

import threading


def in_threads(count, work):
    """Run `work(index)` in `count` threads that start together, and raise the first error here."""
    barrier, errors = threading.Barrier(count), []

    def run_worker(index):
        try:
            barrier.wait()
            work(index)
        except Exception as exc:
            errors.append(exc)

    threads = [threading.Thread(target=run_worker, args=(i,)) for i in range(count)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    if errors:
        raise errors[0]

"""Write docs/options.md and docs/api.md: python -m tests.reference."""

from __future__ import annotations

import sys

from . import api, options


def main() -> int:
    """Write the pages and return the exit status."""
    options.PAGE.write_text(options.page(), encoding="utf-8")
    api.PAGE.write_text(api.page(), encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())

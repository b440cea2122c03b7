"""python -m tests.reference  # writes docs/options.md"""

from __future__ import annotations

import sys

from . import options


def main() -> int:
    """Writes the pages."""
    options.PAGE.write_text(options.page(), encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())

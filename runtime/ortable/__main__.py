"""Run the shell command as `python -m ortable`, for use without the console script."""

from __future__ import annotations

import sys

from ortable.cli.main import main

sys.exit(main())

"""`python -m ortable`: the shell command, where the console script is not on the path."""

from __future__ import annotations

import sys

from ortable.cli.main import main

sys.exit(main())

"""Run the command line; if nothing changed, ``generate`` exits before torch is imported."""

from __future__ import annotations

import sys
from pathlib import Path

from ortablegen.stamp import is_unchanged

if sys.argv[1:] == ["generate"] and is_unchanged(Path.cwd()):
    print("nothing changed since the last run: generated/ is fresh")
    sys.exit(0)

from ortablegen.cli import main

sys.exit(main())

"""Runs the command line of codegen."""

from __future__ import annotations

import sys

from ortablegen.cli import main

sys.exit(main())

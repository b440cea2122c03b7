"""Run torch's CompilerBisector with ortable among its backends.

The command is `python -m ortable.debug.bisection`, with the arguments of
`python -m torch._inductor.compiler_bisector`.
"""

from __future__ import annotations

from ortable.compat.bisector import run_shell

if __name__ == "__main__":
    run_shell()

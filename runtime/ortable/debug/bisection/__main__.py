"""`python -m ortable.debug.bisection`: the command line of torch's CompilerBisector, with ortable
among the backends that it walks through. Arguments are those of
`python -m torch._inductor.compiler_bisector`."""

from __future__ import annotations

from ortable.compat.bisector import run_shell

if __name__ == "__main__":
    run_shell()

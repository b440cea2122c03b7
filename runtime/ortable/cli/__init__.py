"""The shell: `ortable compile`, `export`, `rewrites` ... In come arguments of a command line,
out go text and an exit status; called by the console script."""

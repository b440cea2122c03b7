"""The command line interface: `ortable compile`, `export`, `rewrites` ..."""

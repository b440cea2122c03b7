"""The command line interface: `ortable export`, `explain`, `rewrites` and other commands."""

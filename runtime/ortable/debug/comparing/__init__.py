"""The parts of `ortable.first_difference`: what is compared, what a difference is, where the entry
of the specs stands, and a script that shows it alone. In come graphs and values of one call, out
come records; called by `debug.difference` and by the debug backend."""

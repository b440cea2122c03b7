"""The expression language of all specs: `parse` returns a syntax tree, `emit` Python text.

`check` checks the tree; `kinds` and `narrowing` are the types and facts that it infers. The front
ends call these modules with their own names and functions.
"""

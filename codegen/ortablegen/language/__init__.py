"""The one expression language of all specs. Text with a position comes in; `parse` gives a syntax
tree, `check` what is known of its value (`kinds`, `narrowing`), `emit` Python text. The front ends
call it and bring their own names and words."""

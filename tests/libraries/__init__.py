"""The code of docs/libraries.md, run with the libraries that it names, and its results compared."""

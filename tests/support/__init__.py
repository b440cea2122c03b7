"""Run the tests with other versions of Python and the libraries: ``make support``."""

"""Programs and models that others wrote, by topic; run by ``make sweeps``, not by ``make test``."""

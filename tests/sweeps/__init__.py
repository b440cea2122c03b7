"""Long runs over third-party programs and models, by ``make sweeps`` and not ``make test``."""

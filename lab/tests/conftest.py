"""Properties are tried on the same examples everywhere, and may take their time."""

from hypothesis import settings

settings.register_profile("lab", deadline=None, derandomize=True)
settings.load_profile("lab")

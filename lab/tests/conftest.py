"""Properties are tried on the same examples everywhere, and may take their time."""

import os

from hypothesis import settings

# Before numpy is loaded, whose threads would spin while they wait for each other.
os.environ["OPENBLAS_NUM_THREADS"] = "1"

settings.register_profile("lab", deadline=None, derandomize=True)
settings.load_profile("lab")

"""What holds for every test."""

from __future__ import annotations

from hypothesis import HealthCheck, settings

# How long an example takes says how busy the machine is, not whether the code is right. Other seeds come with
# every run, so fewer examples each still see many in a week.
settings.register_profile(
    "replaydiff", deadline=None, max_examples=50, suppress_health_check=[HealthCheck.too_slow]
)
settings.load_profile("replaydiff")

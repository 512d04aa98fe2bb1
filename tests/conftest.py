"""What every test shares: how hypothesis behaves here.

A first call compiles kernels for seconds, so no example has a deadline; pytest-timeout guards the whole test instead.
A failure prints the line that reproduces it.
"""

from hypothesis import HealthCheck, settings

settings.register_profile(
    "millrace",
    deadline=None,
    print_blob=True,
    derandomize=True,  # the same examples on every machine; `millrace verify` is where new seeds are tried
    suppress_health_check=[HealthCheck.too_slow],
)
settings.load_profile("millrace")

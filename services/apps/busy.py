"""The workloads' C: a busy loop inside a user function, which a compiler can neither drop nor shorten.

The loop squares a number modulo a prime again and again, starting from the event or the record. It returns that the
result is not -1 modulo that prime: always true, because the prime is 3 modulo 4 and so -1 is no square, but nothing a
compiler knows. A starting value from 2 to 1001 is not -1 either, so no iteration at all is right too.
"""

# mypy: allow-untyped-defs
# (user functions are typed by numba when they are declared)

from millrace import udf

PRIME = 2**31 - 1
MINUS_ONE = PRIME - 1


@udf
def busy(start, iterations):
    """Always true, after a while."""
    number = start % 1000 + 2
    for _ in range(iterations):
        number = number * number % PRIME
    return number != MINUS_ONE


def iterations_of(busy_us: float, iterations_per_us: float) -> int:
    """How often to loop for `busy_us`, given the speed that the caller measured on its machine."""
    return max(0, round(busy_us * iterations_per_us))

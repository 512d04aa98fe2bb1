"""Every exception Millrace raises, and the reasons for which a transaction fails.

A transaction that fails is data (a `Reason` in the epoch's result), never an exception. An exception means that the
declaration, the input or the engine itself is wrong; it says what happened, what was expected and what to do.
"""

from enum import IntEnum


class Reason(IntEnum):
    """Why an operation, and with it its transaction, failed."""

    NONE = 0
    REFUSED = 1  # a user function returned False
    CONSTRAINT = 2  # the table's constraint was False after the write
    OVERFLOW = 3
    DIVISION_BY_ZERO = 4
    NOT_A_NUMBER = 5
    BAD_INDEX = 6
    UNKNOWN_KEY = 7  # the table does not create keys
    NOT_A_CANDIDATE = 8  # a computed key outside the declared candidates


class MillraceError(Exception):
    """The root of all Millrace errors."""


class DeclarationError(MillraceError):
    """An application is declared wrongly; raised while declaring, before any event."""


class InputError(MillraceError):
    """An epoch's events cannot be run; raised before anything ran, the state is untouched."""


class LimitError(InputError):
    """An epoch is larger than `Limits` allows."""


class SnapshotError(MillraceError):
    """A snapshot is torn, altered, or of another application or format."""


class InvariantError(MillraceError):
    """The engine broke one of its own rules: a bug in Millrace."""

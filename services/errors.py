"""Every exception of the services, beside the engine's: settings, programs that are missing, brokers, Kafka clients.

Each says in a sentence what happened and where, what was expected, and what to do.
"""

from engine.errors import MillraceError


class SettingsError(MillraceError):
    """A setting is missing or wrong; names the setting and where its value came from."""


class ProgramError(MillraceError):
    """A program that Millrace starts is missing, too old, or failed."""


class BrokerError(MillraceError):
    """A broker of ours did not start, is running already, or is not running."""


class NotRunningError(BrokerError):
    """A broker that should be running is not."""


class TopicError(MillraceError):
    """A topic cannot be made, or exists in a form that would lose records."""


class KafkaClientError(MillraceError):
    """A Kafka client reported an error that has no class of its own."""

    def __init__(self, message: str, *, code: str = "", retriable: bool = False, abort: bool = False) -> None:
        super().__init__(message)
        self.code = code  # librdkafka's name, such as _TIMED_OUT
        self.retriable = retriable  # the same call may be made again
        self.abort = abort  # the transaction has to be aborted, and may then be tried anew


class UnreachableError(KafkaClientError):
    """No broker answers at the addresses that the settings name."""


class AccessError(KafkaClientError):
    """The broker refuses the credentials, or what they ask for."""


class FencedError(KafkaClientError):
    """A producer is beyond repair, or fenced: by another one with its id, or by the broker after a time-out. Drop it."""


class TakenOverError(MillraceError):
    """Another engine with our id has begun: this one must end."""


class InputGoneError(MillraceError):
    """Messages that were not dealt with yet are gone from the input, or the input is."""


class AnswerError(MillraceError):
    """A running service did not answer a question, or refused it."""


class StateError(MillraceError):
    """The state in Kafka does not belong to this application or input as they are now."""


class JobError(MillraceError):
    """A Spark job cannot do what it was asked: its input, its options or its checkpoint are wrong."""

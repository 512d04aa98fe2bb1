"""What Kafka clients are configured with, made from the settings, and what their errors become.

    errors = ClientErrors()
    producer = Producer(transactional_producer(settings.kafka, "ledger-0", errors))
    with typed_errors("committing epoch 7", errors):
        producer.commit_transaction()

Invariants: a configuration's text form shows no secret. A producer is idempotent and waits for all replicas in sync. A
consumer reads committed records only, never commits by itself, and an offset that is gone is an error, not a jump.
"""

from __future__ import annotations

import logging
import threading
from collections import deque
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from confluent_kafka import KafkaError, KafkaException

from services.errors import AccessError, FencedError, KafkaClientError, UnreachableError
from services.settings import KafkaSettings

# Of one record with its key and headers, on our topics and in our clients. Chunks are cut at about 1 MB, Kafka's own
# limit; a single event may be larger than a chunk.
RECORD_BYTES_MAX = 8 << 20

_LOGGER = logging.getLogger("millrace.kafka")
_HIDDEN = ("sasl.password", "ssl.key.password")

_FENCED = {KafkaError._FENCED, KafkaError._FATAL, KafkaError.PRODUCER_FENCED, KafkaError.INVALID_PRODUCER_EPOCH}
_UNREACHABLE = {KafkaError._ALL_BROKERS_DOWN, KafkaError._TRANSPORT, KafkaError._RESOLVE}
_REFUSED = {
    KafkaError._AUTHENTICATION,
    KafkaError._SSL,
    KafkaError.SASL_AUTHENTICATION_FAILED,
    KafkaError.TOPIC_AUTHORIZATION_FAILED,
    KafkaError.GROUP_AUTHORIZATION_FAILED,
    KafkaError.CLUSTER_AUTHORIZATION_FAILED,
    KafkaError.TRANSACTIONAL_ID_AUTHORIZATION_FAILED,
}
_ERRORS_KEPT = 100


class Configuration(dict[str, Any]):
    """A client's configuration, as librdkafka takes it; its text form hides passwords."""

    def __repr__(self) -> str:
        return repr({key: "(hidden)" if key in _HIDDEN else value for key, value in self.items()})

    __str__ = __repr__


class ClientErrors:
    """Collects what a client reports beside its calls: lost connections, refused credentials, fatal errors."""

    def __init__(self) -> None:
        self.seen: deque[KafkaClientError] = deque(maxlen=_ERRORS_KEPT)

    def __call__(self, error: KafkaError) -> None:
        """The client's `error_cb`."""
        self.seen.append(typed_error(error, "talking to Kafka"))

    def raise_serious(self) -> None:
        """Raises what will not pass by itself: refused access, a producer that is fenced or beyond repair."""
        for error in self.seen:
            if isinstance(error, AccessError | FencedError):
                raise error

    def latest(self) -> str:
        """The last report as the end of a sentence, or nothing."""
        return f"; the client last reported: {self.seen[-1].args[0]}" if self.seen else ""


def connection(settings: KafkaSettings, errors: ClientErrors | None = None) -> Configuration:
    """What every client needs to reach Kafka; enough for an AdminClient."""
    values = {
        "bootstrap.servers": settings.bootstrap,
        "client.id": settings.client_id,
        "security.protocol": settings.security_protocol,
        "sasl.mechanism": settings.sasl_mechanism,
        "sasl.username": settings.sasl_username,
        "sasl.password": settings.sasl_password.reveal() if settings.sasl_password else None,
        "ssl.ca.location": str(settings.ca_file) if settings.ca_file else None,
        "ssl.certificate.location": str(settings.certificate_file) if settings.certificate_file else None,
        "ssl.key.location": str(settings.key_file) if settings.key_file else None,
        "ssl.key.password": settings.key_password.reveal() if settings.key_password else None,
        "socket.timeout.ms": _milliseconds(settings.request_timeout_s),
        # A broker alone that stood still for longer than its session answers, until its controller knows it again, that there are
        # no brokers; librdkafka 2.16 believes it and forgets the one it has. It must then begin again with these addresses, or
        # it never asks anybody anything any more (its issue 5301).
        "metadata.recovery.strategy": "rebootstrap",
        "error_cb": errors,
        "logger": _LOGGER,  # else librdkafka writes to stderr by itself
    }
    return Configuration({key: value for key, value in values.items() if value is not None})


def producer(settings: KafkaSettings, errors: ClientErrors | None = None) -> Configuration:
    """A producer outside transactions: idempotent, so that retries neither double nor reorder records."""
    own = {"enable.idempotence": True, "acks": "all", "message.max.bytes": RECORD_BYTES_MAX}
    return Configuration({**connection(settings, errors), **own})


def transactional_producer(
    settings: KafkaSettings, transactional_id: str, errors: ClientErrors | None = None
) -> Configuration:
    """A producer of transactions. A second one with the same id fences the first."""
    timeout_ms = _milliseconds(settings.transaction_timeout_s)
    common = producer(settings, errors)
    own = {
        "transactional.id": transactional_id,
        "transaction.timeout.ms": timeout_ms,
        "partitioner": "murmur2_random",  # as Java's clients do: a key is where any other topic of theirs has it
        # A broker that is still writing the markers of the transaction before asks the next one to wait; with librdkafka's own
        # tenth of a second that would be how long every commit takes.
        "retry.backoff.ms": 5,
        # Here not: who begins again whenever all connections are cut also forgets the group's coordinator, and what is asked of
        # that one then waits for ever (librdkafka issue 5511). Who loses its brokers fails within a transaction's time, and is
        # dropped.
        "metadata.recovery.strategy": "none",
        "linger.ms": 1,  # a commit waits for every record: long enough to collect small ones
        # Neither a record nor a request may outlive the transaction that it belongs to: librdkafka insists.
        "delivery.timeout.ms": timeout_ms,
        "socket.timeout.ms": min(timeout_ms, common["socket.timeout.ms"]),
    }
    return Configuration({**common, **own})


def committed_consumer(
    settings: KafkaSettings, group: str, errors: ClientErrors | None = None, *, report_end: bool = False
) -> Configuration:
    """A consumer of committed records, for partitions assigned by hand; `report_end` also reports a partition's end."""
    own = {
        "group.id": group,
        "isolation.level": "read_committed",
        "enable.auto.commit": False,
        "enable.auto.offset.store": False,
        "auto.offset.reset": "error",
        "enable.partition.eof": report_end,
        "max.partition.fetch.bytes": RECORD_BYTES_MAX,
        "fetch.queue.backoff.ms": 20,  # how soon to fetch again once what was fetched is taken; a second by default
    }
    return Configuration({**connection(settings, errors), **own})


def typed_error(error: KafkaError, doing: str, more: str = "") -> KafkaClientError:
    """A client's error as one of ours: what was being done, what Kafka said, what to do."""
    kind, advice = KafkaClientError, ""
    if error.fatal() or error.code() in _FENCED:
        kind, advice = FencedError, "; this producer is finished: make a new one"
    elif error.code() in _REFUSED:
        kind, advice = AccessError, "; see the user, the password and the certificates"
    elif error.code() in _UNREACHABLE:
        kind, advice = UnreachableError, "; see that Kafka runs and that kafka.bootstrap names it"
    return kind(
        f"{doing}: {error.str()} ({error.name()}){advice}{more}",
        code=error.name(),
        retriable=error.retriable(),
        abort=error.txn_requires_abort(),
    )


@contextmanager
def typed_errors(doing: str, errors: ClientErrors | None = None) -> Iterator[None]:
    """Errors of Kafka's client in the body become ours, with what the client reported meanwhile."""
    try:
        yield
    except KafkaException as error:
        cause = error.args[0]
        raise typed_error(cause, doing, errors.latest() if errors is not None else "") from error


def bounded(call: Callable[[], None], doing: str, timeout_s: float) -> None:
    """The call, given up after the time: librdkafka's `send_offsets_to_transaction` may ignore its own (its issue 5456). What was
    given up stays behind in its thread, so its producer must be dropped."""
    ended: list[BaseException | None] = []

    def run() -> None:
        try:
            call()
            ended.append(None)
        except BaseException as error:
            ended.append(error)

    thread = threading.Thread(target=run, daemon=True, name=doing)
    thread.start()
    thread.join(timeout_s)
    if not ended:
        raise KafkaClientError(f"{doing}: the client did not return within {timeout_s:g} s; drop it", code="_TIMED_OUT")
    if ended[0] is not None:
        raise ended[0]


def _milliseconds(seconds: float) -> int:
    return round(seconds * 1000)

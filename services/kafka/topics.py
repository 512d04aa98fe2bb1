"""The topics of an application: their names, their form, and making them.

| topic | partitions | holds |
|---|---|---|
| `<app>.events.v1` | as asked | event chunks and punctuations |
| `<app>.records.v1` | as asked | single records of producers that know nothing of punctuation |
| `<app>.committed.v1`, `<app>.failed.v1`, `<app>.dead-letter.v1` | as asked | results |
| `<app>-changelog` | 1 | what each epoch changed in the state |
| `<app>-epochs` | 1 | a marker an epoch: its input offsets |

The marker has a topic of its own, in the same transaction as the changelog: a restart must find the last committed one,
and finds it a few records before the end, however large the last changelogs are and however many were aborted. The
changelog can then be cut behind a snapshot without regard to markers.

Invariants: nothing is compacted (compaction would tear the epochs apart), the changelog and the markers are one sequence
each and are kept until somebody cuts them.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Any

from confluent_kafka import KafkaError, KafkaException
from confluent_kafka.admin import AdminClient, ConfigResource, NewTopic, ResourceType

from services.errors import TopicError
from services.kafka.clients import RECORD_BYTES_MAX, ClientErrors, typed_error, typed_errors

APP_LETTERS_MAX = 200  # Kafka allows 249 for a topic, and the longest ending is `.dead-letter.v1`
_APP = re.compile(r"[A-Za-z0-9_-][A-Za-z0-9._-]*")


@dataclass(frozen=True)
class TopicNames:
    """The names of one application's topics."""

    app: str

    def __post_init__(self) -> None:
        if not _APP.fullmatch(self.app) or len(self.app) > APP_LETTERS_MAX:
            raise TopicError(
                f"{self.app!r} cannot begin a topic's name: at most {APP_LETTERS_MAX} of letters, digits, '-', '_' and "
                "'.' (not as the first) were expected"
            )

    @property
    def events(self) -> str:
        return f"{self.app}.events.v1"

    @property
    def records(self) -> str:
        return f"{self.app}.records.v1"

    @property
    def committed(self) -> str:
        return f"{self.app}.committed.v1"

    @property
    def failed(self) -> str:
        return f"{self.app}.failed.v1"

    @property
    def dead_letter(self) -> str:
        return f"{self.app}.dead-letter.v1"

    @property
    def changelog(self) -> str:
        return f"{self.app}-changelog"

    @property
    def epochs(self) -> str:
        return f"{self.app}-epochs"

    @property
    def partitioned(self) -> tuple[str, ...]:
        return self.events, self.records, self.committed, self.failed, self.dead_letter

    @property
    def single(self) -> tuple[str, ...]:
        """The topics whose records are one sequence."""
        return self.changelog, self.epochs


@dataclass(frozen=True)
class TopicReport:
    """What became of one topic."""

    name: str
    created: bool  # else it existed
    partitions: int
    replication: int


def create_topics(
    admin: AdminClient,
    app: str,
    partitions: int,
    replication: int,
    *,
    timeout_s: float = 30.0,
    errors: ClientErrors | None = None,
) -> list[TopicReport]:
    """Makes the topics that are not there and reports all; those that exist are checked and left as they are."""
    names = TopicNames(app)
    existing = _existing(admin, names, timeout_s, errors)
    missing = [
        NewTopic(
            name,
            1 if name in names.single else partitions,
            replication,
            config=_form(name in names.single, replication),
        )
        for name in names.partitioned + names.single
        if name not in existing
    ]
    futures = admin.create_topics(missing, operation_timeout=timeout_s, request_timeout=timeout_s) if missing else {}
    created = set()
    for name, future in futures.items():
        try:
            future.result()
            created.add(name)
        except KafkaException as error:
            if error.args[0].code() != KafkaError.TOPIC_ALREADY_EXISTS:  # else somebody made it at the same time
                more = errors.latest() if errors is not None else ""
                raise typed_error(error.args[0], f"creating topic {name}", more) from error
    if len(created) < len(missing):
        existing = _existing(admin, names, timeout_s, errors)
    _refuse_wrong(admin, names, {name: report for name, report in existing.items() if name not in created}, timeout_s)
    made = {each.topic: TopicReport(each.topic, True, each.num_partitions, replication) for each in missing}
    return [made[name] if name in created else existing[name] for name in names.partitioned + names.single]


def _form(single: bool, replication: int) -> dict[str, str]:
    form = {
        "cleanup.policy": "delete",
        "max.message.bytes": str(RECORD_BYTES_MAX),
        "min.insync.replicas": "2" if replication >= 3 else "1",  # one of three may be down
    }
    # A restart needs every change since its snapshot, however old; input and results are the operator's to keep.
    return {**form, "retention.ms": "-1", "retention.bytes": "-1"} if single else form


def _existing(
    admin: AdminClient, names: TopicNames, timeout_s: float, errors: ClientErrors | None
) -> dict[str, TopicReport]:
    with typed_errors("asking Kafka for its topics", errors):
        topics = admin.list_topics(timeout=timeout_s).topics
    return {
        name: TopicReport(name, False, len(found.partitions), _replication(found.partitions))
        for name in names.partitioned + names.single
        if (found := topics.get(name)) is not None
    }


def _replication(partitions: dict[int, Any]) -> int:
    return min((len(partition.replicas) for partition in partitions.values()), default=0)


def _refuse_wrong(admin: AdminClient, names: TopicNames, existing: dict[str, TopicReport], timeout_s: float) -> None:
    """An existing topic whose form would lose records, or their order, is an error."""
    for name in names.single:
        if name in existing and existing[name].partitions != 1:
            raise TopicError(
                f"topic {name} exists with {existing[name].partitions} partitions, but its records are one sequence: "
                "1 was expected; delete it, or give the application another name"
            )
    resources = [ConfigResource(ResourceType.TOPIC, name) for name in existing]
    futures = admin.describe_configs(resources, request_timeout=timeout_s) if resources else {}
    for resource, future in futures.items():
        with typed_errors(f"asking for the settings of topic {resource.name}"):
            policy = future.result()["cleanup.policy"].value
        if policy is not None and "compact" in policy:
            raise TopicError(
                f"topic {resource.name} exists with cleanup.policy={policy}, and compaction would lose records: "
                "delete was expected; set it so"
            )

"""Row 18 on a real broker: what recovery does when snapshots are torn, and when the changelog is cut as well."""

from __future__ import annotations

import pytest
from confluent_kafka import TopicPartition
from confluent_kafka.admin import AdminClient

from services.engine.kafka_log import KafkaLog
from services.engine.recovery import Recovery
from services.engine.snapshots import Snapshots
from services.errors import StateError
from services.kafka.clients import connection
from services.verify.crash.engine_process import SNAPSHOT_EVERY
from services.verify.crash.subject import Subject
from services.verify.crash.troubles import one_broker

pytestmark = [pytest.mark.slow, pytest.mark.timeout(900)]


def recovered(scene):
    """What recovery makes of what is there: the engine's tables, the notes, how many epochs it followed."""
    log = KafkaLog(scene.kafka, scene.names.app)
    try:
        found = Recovery(scene.subject.application, scene.wire, log, Snapshots(str(scene.directory / "snapshots"))).run(
            lambda state: scene.given.make_engine(state, 1), remembered_epochs=10_000
        )
        with found.engine as engine:
            return {name: engine.state(name) for name in scene.subject.application.tables}, found
    finally:
        log.close()


def flip(path) -> None:
    data = bytearray(path.read_bytes())
    data[len(data) // 2] ^= 4
    path.write_bytes(data)


def test_row_18_the_snapshot_before_then_the_changelog_then_a_refusal_that_says_why(tmp_path):
    with one_broker(Subject(1, 60), tmp_path) as (scene, _):
        scene.warm_up()
        scene.wait_progress(3 * SNAPSHOT_EVERY)
        assert scene.finish().is_clean
        epochs = scene.watcher.epoch + 1
        before, newest = sorted((scene.directory / "snapshots").glob("*.snapshot"))
        right, found = recovered(scene)
        assert not found.notes and found.epochs_followed < SNAPSHOT_EVERY

        newest.write_bytes(newest.read_bytes()[:-1])
        state, found = recovered(scene)
        assert state == right and newest.name in found.notes[0]
        assert SNAPSHOT_EVERY <= found.epochs_followed < 2 * SNAPSHOT_EVERY, "from the snapshot before"

        flip(before)
        state, found = recovered(scene)
        assert state == right and len(found.notes) == 2 and found.epochs_followed == epochs, "from the changelog alone"

        admin = AdminClient(connection(scene.kafka))
        gone = admin.delete_records([TopicPartition(topic, 0, 5) for topic in scene.names.single])
        for future in gone.values():
            future.result(30)
        with pytest.raises(StateError, match=r"offsets 5 to \d+, but the state goes on at 0.*torn or altered"):
            recovered(scene)

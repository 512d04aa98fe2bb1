"""Rows 1 to 6 of the faults on a real broker, by `millrace verify crash`, small; CONTRIBUTING.md has the proof's sizes."""

from __future__ import annotations

import random
from dataclasses import replace

import pytest

from services.verify.crash.command import run_campaign
from services.verify.crash.deaths import PHASES
from services.verify.crash.judgement import judge
from services.verify.crash.proxy import Cut
from services.verify.crash.scene import Scene
from services.verify.crash.subject import Subject
from services.verify.crash.topics import read_all, result_topics
from services.verify.crash.troubles import ANY_MOMENT, double, one_broker

pytestmark = [pytest.mark.slow, pytest.mark.timeout(900)]  # the first run compiles an application


@pytest.fixture(scope="module")
def killed():
    return run_campaign("kills", 10, seed=1, did=lambda _: None)


def test_row_01_killed_in_every_phase_each_epoch_appears_whole_and_once(killed):
    assert killed.judgement.is_clean, killed.judgement.violations
    assert set(killed.done) == {*PHASES, ANY_MOMENT}, "one of each"
    assert killed.facts["epochs"] > 10 and killed.facts["repeated"] > 5


def test_row_02_killed_while_recovering_and_while_writing_a_snapshot(killed):
    assert killed.judgement.is_clean, killed.judgement.violations
    assert killed.done["recovery"] and killed.done["snapshot"]


def test_row_03_a_node_dies_and_the_engine_goes_on_by_itself():
    campaign = run_campaign("broker_kills", 2, seed=3, did=lambda _: None)
    assert campaign.judgement.is_clean, campaign.judgement.violations
    assert campaign.done.total() == 2


def test_row_04_the_broker_stands_still_past_the_transaction_time_out():
    campaign = run_campaign("pauses", 4, seed=1, did=lambda _: None)
    assert campaign.judgement.is_clean, campaign.judgement.violations
    assert campaign.facts["recoveries"] > campaign.facts["lives"], "a new producer was needed"


def test_row_05_connections_are_cut_also_at_the_commit_half_open_and_delayed():
    campaign = run_campaign("cuts", len(Cut), seed=1, did=lambda _: None)
    assert campaign.judgement.is_clean, campaign.judgement.violations
    assert set(campaign.done) == {cut.value for cut in Cut}


def test_row_06_of_two_engines_with_one_id_the_older_ends_as_fenced(tmp_path):
    with one_broker(Subject(1, 200), tmp_path) as (scene, _):
        scene.warm_up()
        scene.end_engine()
        double(scene)
        assert scene.finish().is_clean
        assert "belongs to" in scene.log.read_text()
        _the_judgement_can_fail(scene)


def _the_judgement_can_fail(scene: Scene) -> None:
    """The same results, spoilt in each way, are seen to be."""
    final = read_all(scene.kafka, result_topics(scene.names))
    expected = scene.subject.expected(scene.feeder.last + 1)
    chance = random.Random(1)

    def found(records, wanted=expected):
        return judge(wanted, scene.wire, scene.names, records, records, scene.feeder.places).counts

    assert not found(final)
    results = [record for record in final if record.topic in (scene.names.committed, scene.names.failed)]
    lost = chance.choice(results)
    assert found([record for record in final if record is not lost])["missing"]
    again = lost._replace(offset=10**6)
    assert found([*final, again])["duplicated"]
    markers = [record for record in final if record.topic == scene.names.epochs]
    assert found([record for record in final if record is not markers[3]])["torn"]
    number = next(number for number, rows in enumerate(expected.rows) if rows)
    rows = [list(each) for each in expected.rows]
    rows[number][0] = rows[number][0]._replace(what="something else")
    assert found(final, replace(expected, rows=rows))["wrong"]
    number = next(
        number for number, rows in enumerate(expected.rows) if len([r for r in rows if r.verdict == "failed"]) > 1
    )
    rows = [list(each) for each in expected.rows]
    rows[number].reverse()
    assert found(final, replace(expected, rows=rows))["misordered"]

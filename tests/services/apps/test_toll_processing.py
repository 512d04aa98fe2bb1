"""Toll processing against dictionaries and a real set of vehicles."""

from dataclasses import replace

import pytest

from engine import Reason
from services.apps import toll_processing, workloads
from services.apps.workloads import Parameters
from tests.services.apps.playing import Verdict, play, rows_of, verdicts

PARAMETERS = Parameters(theta=0.4, abort_share=0.1, transactions=600, states=6, sources=2, disorder=0.3)
SLOW_BELOW, DENSE_ABOVE = 55.0, 5


@pytest.mark.parametrize("nested", [None, replace(PARAMETERS, theta=1.2, abort_share=0.6)])
def test_averages_vehicles_and_tolls(nested):
    epochs = list(workloads.toll_processing(PARAMETERS, epochs=2, seed=4, vehicles=40, nested=nested))
    averages, reports, vehicles, expected = {}, {}, {}, []
    for epoch in epochs:
        for record_type, ts, source, seq, event in rows_of(epoch):
            segment, reason, key, output = event["segment"], Reason.NONE, None, None
            if record_type == "RoadSpeed":
                if event["speed"] < 0:
                    reason, key = Reason.REFUSED, segment
                else:
                    reports[segment] = reports.get(segment, 0) + 1
                    before = averages.get(segment, 0.0)
                    averages[segment] = before + (event["speed"] - before) / reports[segment]
            elif event["vehicle"] < 0:
                reason, key = Reason.REFUSED, segment if record_type == "VehicleCount" else None
            elif record_type == "VehicleCount":
                vehicles.setdefault(segment, set()).add(event["vehicle"])
            else:
                dense = len(vehicles.get(segment, ())) - DENSE_ABOVE
                slow = segment in averages and averages[segment] < SLOW_BELOW
                output = {"toll": 2 * dense * dense if slow and dense > 0 else 0}
            expected.append(Verdict(record_type, ts, source, seq, reason, key, output))
    tolls = {verdict.output["toll"] for verdict in expected if verdict.output}
    assert 0 in tolls and len(tolls) > 3

    app = toll_processing.build(2, SLOW_BELOW, DENSE_ABOVE, grouped=nested is not None)
    driver, outcomes = play(app, epochs)
    assert verdicts(outcome for epoch in outcomes for outcome in epoch) == expected
    assert driver.state("speeds") == {
        segment: {"average": averages[segment], "reports": reports[segment]} for segment in averages
    }
    assert driver.state("counts") == {segment: {"vehicles": len(found)} for segment, found in vehicles.items()}
    pairs = {(segment, vehicle) for segment, found in vehicles.items() for vehicle in found}
    assert driver.state("present") == {pair: {"present": True} for pair in pairs}

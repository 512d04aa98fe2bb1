"""Policies by name: every name parses to what prints it, and an unknown one is told what there is."""

import pytest

from engine import (
    Abort,
    Application,
    DeclarationError,
    Engine,
    Exploration,
    Granularity,
    Policy,
    all_policies,
    int64,
    udf,
)
from engine.scheduling.policy import ORDERED, SERIAL, policy_named


def test_there_is_serial_and_every_combination_once() -> None:
    policies = all_policies()
    assert policies[0] == SERIAL == Policy()
    assert len(policies) == len(set(policies)) == 1 + 3 * 2 * 2
    combinations = {(p.exploration, p.granularity, p.abort) for p in policies[1:]}
    explorations = [e for e in Exploration if e not in (Exploration.SERIAL, Exploration.ORDERED)]
    assert combinations == {(e, g, a) for e in explorations for g in Granularity for a in Abort}


@pytest.mark.parametrize("policy", [*all_policies(), ORDERED], ids=str)
def test_a_printed_policy_parses_to_itself(policy: Policy) -> None:
    assert policy_named(str(policy)) == policy
    assert policy_named(policy.name).is_serial == (policy.name == "serial")


def test_names_say_the_three_dimensions() -> None:
    assert str(Policy(Exploration.DEPTH_FIRST, Granularity.COARSE, Abort.LAZY)) == "depth-first/coarse/lazy"
    assert policy_named("breadth-first/fine/eager") == Policy(Exploration.BREADTH_FIRST, Granularity.FINE, Abort.EAGER)


@pytest.mark.parametrize("name", ["fastest", "", "Serial", "breadth-first", "breadth-first/fine", "serial/fine/eager"])
def test_an_unknown_name_is_answered_with_all_that_exist(name: str) -> None:
    with pytest.raises(DeclarationError) as refused:
        policy_named(name)
    told = str(refused.value)
    assert told.startswith(f"no policy {name!r}; there are serial, ")
    assert told.removeprefix(f"no policy {name!r}; there are ").split(", ") == [
        p.name for p in (*all_policies(), ORDERED)
    ]


def test_an_engine_refuses_an_unknown_name_when_it_is_made() -> None:
    with pytest.raises(DeclarationError, match="no policy 'quick'; there are serial"):
        Engine(_application(), policy="quick")


def _application() -> Application:
    app = Application("policy-names")

    @udf
    def put(record, event):  # type: ignore[no-untyped-def]
        record.value = event.value

    table = app.table("table", key=int, value={"value": int64})
    app.event("Put", {"key": int64, "value": int64})

    @app.transaction("Put")
    def transaction(txn, event):  # type: ignore[no-untyped-def]
        txn.write(table[event.key], put)

    return app

"""Different groups of one epoch under different policies at once: the same bytes as serial."""

import random

import pytest

from engine import Engine, Epoch, all_policies
from tests.contract.applications import ledger

BLOCK, BLOCKS = 4, 15


def transfers_inside_blocks(seed, events=300):
    """Accounts in blocks, transfers only inside them: so many disjoint groups."""
    draw = random.Random(seed)
    block = [draw.randrange(BLOCKS) for _ in range(events)]
    columns = {
        "ts": [draw.randrange(1, 50) for _ in range(events)],
        "sender": [BLOCK * b + draw.randrange(BLOCK) for b in block],
        "receiver": [BLOCK * b + draw.randrange(BLOCK) for b in block],
        "amount": [draw.randrange(1, 120) for _ in range(events)],
    }
    return Epoch(0, 50, {"Transfer": columns})


def deal(policies, seen):
    """A chooser that deals the connected components out to the policies in turn."""

    def choose(operations, graph):
        components = graph().components
        numbers = {component: number for number, component in enumerate(sorted(set(components.tolist())))}
        seen.append(len(numbers))
        share = [numbers[component] % len(policies) for component in components.tolist()]
        return [
            (policy, [transaction for transaction, mine in enumerate(share) if mine == turn])
            for turn, policy in enumerate(policies)
        ]

    return choose


def run(policy, threads, seed):
    with Engine(ledger, threads=threads, policy=policy) as engine:
        engine.load("accounts", list(range(BLOCK * BLOCKS)), {"balance": [100] * (BLOCK * BLOCKS)})
        result = engine.run_epoch(transfers_inside_blocks(seed))
        return result, engine.snapshot()


@pytest.mark.parametrize("threads", [1, 2, 4])
@pytest.mark.parametrize("first", range(13))
def test_three_policies_at_once(threads, first):
    policies = [all_policies()[(first + step) % 13] for step in (0, 4, 9)]
    seen = []
    result, snapshot = run(deal(policies, seen), threads, seed=first)
    expected, expected_snapshot = run("serial", 1, seed=first)
    assert seen[0] >= BLOCKS
    assert result.policies == [policy.name for policy in policies]
    assert result.outcomes() == expected.outcomes()
    assert snapshot == expected_snapshot


@pytest.mark.parametrize("threads", [1, 2, 4])
def test_all_policies_at_once(threads):
    result, snapshot = run(deal(all_policies(), []), threads, seed=99)
    expected, expected_snapshot = run("serial", 1, seed=99)
    assert sorted(result.policies) == sorted(policy.name for policy in all_policies())
    assert result.outcomes() == expected.outcomes()
    assert 0 < expected.failed < 300
    assert snapshot == expected_snapshot

"""Generated applications and streams: the same from the same seed, of every form, and never all tame."""

from collections import Counter

from engine.api.model import HandleSource, Kind
from services.verify.generator import APPLICATIONS, generate_application
from services.verify.oracle import Oracle
from services.verify.streams import generate_epochs


def test_there_are_enough_applications_and_all_can_be_declared() -> None:
    assert APPLICATIONS >= 60
    forms: Counter[str] = Counter()
    for number in range(APPLICATIONS):
        app, description = generate_application(number)
        app.check_complete()
        assert description
        for table in app.tables.values():
            forms["keys " + " ".join(table.key_types)] += 1
            forms["creating" if table.creates_keys else "fixed"] += 1
            forms["constraint"] += table.constraint is not None
        for template in app.templates.values():
            forms["derive"] += bool(template.derive)
            forms["filter"] += template.filter is not None
            forms["fires"] += template.period > 0
            forms[f"stage {template.stage}"] += 1
            for s in template.statements:
                forms[s.kind.name] += 1
                forms["when"] += s.when is not None
                forms["handle"] += any(isinstance(source, HandleSource) for source in s.reads)
                if s.access is None:
                    continue
                forms["list"] += s.many
                forms["window"] += s.access.window_size >= 0
                forms["window of a list"] += s.access.window_size >= 0 and s.many
                forms["fold"] += s.access.aggregation is not None and s.access.key is None
                forms["user fold"] += s.access.aggregation is not None and s.access.aggregation.function is not None
                computed = s.access.computed
                forms["computed read"] += computed is not None and s.kind is Kind.READ
                forms["computed write"] += computed is not None and s.kind is Kind.WRITE
                forms["computed delete"] += computed is not None and s.kind is Kind.DELETE
                forms["candidates"] += computed is not None and computed.candidates is not None
    assert all(forms.values()), forms
    assert {"keys int", "keys string", "keys int string", "keys string int", "stage 2", "DELETE", "EMIT"} <= set(forms)


def test_the_same_seed_gives_the_same_application_and_stream() -> None:
    for number in (0, 20, 40):
        one, two = generate_application(number), generate_application(number)
        assert one[1] == two[1]
        assert generate_epochs(one[0], 5) == generate_epochs(two[0], 5)
        assert generate_epochs(one[0], 5) != generate_epochs(one[0], 6)


def test_streams_keep_the_rules_of_input() -> None:
    app, _ = generate_application(0)
    sizes: Counter[int] = Counter()
    for seed in range(30):
        last = None
        for epoch in generate_epochs(app, seed).epochs:
            identities = sorted((source, seq) for _, _, source, seq, _ in epoch.events)
            for source in {each for each, _ in identities}:
                numbers = [seq for each, seq in identities if each == source]
                assert numbers == list(range(len(numbers)))
            assert all(ts <= epoch.punctuation_ts and (last is None or ts > last) for _, ts, *_ in epoch.events)
            last = epoch.punctuation_ts
            sizes[len(epoch.events)] += 1
    assert sizes[0] > 0 and max(sizes) > 100


def test_streams_of_the_oracle_are_hard() -> None:
    notes: Counter[str] = Counter()
    verdicts: Counter[str] = Counter()
    for number in range(20):
        app, _ = generate_application(number)
        stream, oracle = generate_epochs(app, 1), Oracle(app)
        for table, records in stream.tables.items():
            oracle.load(table, records)
        for epoch in stream.epochs:
            outcomes = oracle.run_epoch(epoch.number, epoch.punctuation_ts, epoch.events)
            verdicts.update(outcome.verdict for outcome in outcomes)
        for name, count in oracle.notes.items():
            notes[name] = max(notes[name], count)
    assert notes["cascade_depth"] >= 3 and notes["window_across_epochs"] > 0 and notes["same_key_rewrites"] > 0
    assert min(verdicts[each] for each in ("committed", "failed", "filtered")) > 50

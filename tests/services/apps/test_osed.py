"""Social event detection against dictionaries, operator by operator; and what it finds against what truly happened."""

import math
from collections import Counter

import pytest

from engine import Reason, TestDriver
from engine.errors import InputError
from services.apps import osed, tweets
from services.apps.osed import Thresholds
from tests.services.apps.playing import plain_state, play

WINDOW = 100
LIMITS = Thresholds(window=WINDOW, burst_tweets=6)
# So few places that clusters compete for being compared, shown and removed.
NARROW = Thresholds(window=WINDOW, burst_tweets=4, burst_growth=2.0, clusters_compared=4, removals=2, event_tweets=3)


class Answer:
    """The six operators on dictionaries, one epoch at a time; each operator finishes before the next one starts."""

    def __init__(self, limits):
        self.limits = limits
        self.tweets, self.words, self.clusters = {}, {}, {}
        self.selections, self.next_fire = [], None

    def run(self, batch, punctuation_ts):
        """`batch`: (ts, tweet, words, vector) in time order. Returns how many transactions each operator ran."""
        limits = self.limits
        if self.next_fire is None:
            self.next_fire = (batch[0][0] // limits.window + 1) * limits.window
        while self.next_fire <= punctuation_ts:
            self.select(self.next_fire)
            self.next_fire += limits.window
        for _, tweet, _, vector in batch:
            self.tweets[tweet] = {"registered": True, "cluster": -1, "vector": tuple(vector)}
        for ts, tweet, words, _ in batch:
            for word in words:
                self.count(word, tweet, ts // limits.window)
        candidates = []
        for ts, tweet, words, _ in batch:
            bursts = [record for word in words if (record := self.label(word, ts // limits.window))["burst"]]
            if bursts:
                strongest = max(bursts, key=lambda record: record["score"])  # the first of equals
                candidates.append((ts // limits.window, tweet, strongest["founder"]))
        assignments = [(window, tweet, self.closest(tweet, founder)) for window, tweet, founder in candidates]
        for window, tweet, cluster in assignments:
            self.merge(window, tweet, cluster)
        return len(batch), len(candidates)

    def count(self, word, tweet, window):
        fresh = {"founder": tweet, "window": window, "count": 0, "total": 0, "score": 0.0, "usual": 0.0, "burst": False}
        record = self.words.setdefault(word, fresh)
        if record["window"] != window:
            if not record["burst"]:
                record["usual"] = (record["usual"] + record["score"]) / 2
            record["usual"] /= 2 ** (window - record["window"] - 1)
            record.update(window=window, count=0, score=0.0, burst=False)
        record["count"] += 1
        record["total"] += 1

    def label(self, word, window):
        record, limits = self.words[word], self.limits
        frequency = record["count"] / limits.window
        record["score"] = frequency * math.log(1 + (window + 1) * limits.window / record["total"])
        record["burst"] = (
            window >= limits.warm_up_windows
            and record["count"] >= limits.burst_tweets
            and record["score"] >= limits.burst_growth * record["usual"]
        )
        return dict(record)

    def closest(self, tweet, founder):
        latest = sorted(self.clusters.items(), key=lambda each: (-each[1]["window"], each[0]))
        ours = self.tweets[tweet]["vector"]
        alike = []
        for number, cluster in latest[: self.limits.clusters_compared]:
            product = sum(a * b for a, b in zip(cluster["sum"], ours, strict=True))
            norm = math.sqrt(sum(a * a for a in cluster["sum"]) * sum(b * b for b in ours))
            if product > 0 and product / norm >= self.limits.similarity:
                alike.append((-product / norm, number))
        return min(alike)[1] if alike else founder

    def merge(self, window, tweet, number):
        nothing = (0.0,) * self.limits.dimensions
        fresh = {"number": number, "window": window, "fresh": 0, "before": 0, "size": 0, "sum": nothing}
        cluster = self.clusters.setdefault(number, fresh)
        if cluster["window"] != window:
            cluster["before"] = cluster["fresh"] if cluster["window"] == window - 1 else 0
            cluster.update(window=window, fresh=0)
        cluster["fresh"] += 1
        cluster["size"] += 1
        vector = self.tweets[tweet]["vector"]
        cluster["sum"] = tuple(a + b for a, b in zip(cluster["sum"], vector, strict=True))
        self.tweets[tweet]["cluster"] = number

    def select(self, ts):
        limits, ended = self.limits, ts // self.limits.window - 1
        active = [
            (number, cluster["fresh"], int(cluster["fresh"] >= limits.event_growth * cluster["before"]))
            for number, cluster in sorted(self.clusters.items())
            if cluster["window"] == ended and cluster["fresh"] >= limits.event_tweets
        ]
        self.selections.append((ts, active[: limits.clusters_compared]))
        quietest = sorted(self.clusters, key=lambda number: (self.clusters[number]["window"], number))
        for number in quietest[: limits.removals]:
            if ended - self.clusters[number]["window"] >= limits.idle_windows:
                del self.clusters[number]


def selections(outcomes):
    found = []
    for outcome in outcomes:
        if outcome.record_type == "EventSelector":
            rows = list(zip(*(outcome.output[name] for name in ("cluster", "popularity", "is_event")), strict=True))
            found.append((outcome.ts, rows[: outcome.output["count"]]))
            assert all(row == (0, 0, 0) for row in rows[outcome.output["count"] :])
    return found


@pytest.mark.parametrize("windows_per_epoch", [1, 2])
@pytest.mark.parametrize("limits", [LIMITS, NARROW], ids=["usual", "narrow"])
def test_every_operator_does_what_plain_dictionaries_do(limits, windows_per_epoch):
    stream = tweets.generate(1_000, tweets.five_crises(10), seed=12, tweets_per_window=WINDOW)
    epochs = list(stream.epochs(WINDOW * windows_per_epoch))
    answer, counts = Answer(limits), []
    for epoch in epochs:
        columns = epoch.events["Tweet"]
        batch = zip(*(columns[name] for name in ("ts", "tweet", "words", "vector")), strict=True)
        plain = [(int(ts), int(tweet), words, vector.tolist()) for ts, tweet, words, vector in batch]
        counts.append(answer.run(plain, epoch.punctuation_ts))

    driver, outcomes = play(osed.build(limits), epochs)
    assert all(outcome.verdict == "committed" for epoch in outcomes for outcome in epoch)
    for epoch, (registered, clustered) in zip(outcomes, counts, strict=True):
        ran = Counter(outcome.record_type for outcome in epoch)
        assert ran["Tweet"] == ran["Words"] == ran["Trend"] == registered
        assert ran["Candidate"] == ran["Assignment"] == clustered
    assert selections(outcome for epoch in outcomes for outcome in epoch) == answer.selections
    assert plain_state(driver, "tweet") == answer.tweets
    assert plain_state(driver, "cluster") == answer.clusters
    words = driver.state("word")
    assert words.keys() == answer.words.keys()
    for word, record in words.items():
        assert record == pytest.approx(answer.words[word], rel=1e-12)  # log may differ in its last bit


def test_the_answers_were_put_to_the_test():
    """The narrow limits really bind: more clusters than are compared, and some removed."""
    stream = tweets.generate(1_000, tweets.five_crises(10), seed=12, tweets_per_window=WINDOW)
    answer, most, founded = Answer(NARROW), 0, set()
    for epoch in stream.epochs(WINDOW):
        columns = epoch.events["Tweet"]
        batch = list(zip(*(columns[name] for name in ("ts", "tweet", "words", "vector")), strict=True))
        answer.run(
            [(int(ts), int(tweet), words, vector.tolist()) for ts, tweet, words, vector in batch], epoch.punctuation_ts
        )
        most = max(most, len(answer.clusters))
        founded |= set(answer.clusters)
    assert most > NARROW.clusters_compared
    assert len(founded) > len(answer.clusters)


def test_events_are_found_when_they_happen():
    """On a seed that no threshold was chosen on: popularity of the cluster of each event follows the truth."""
    stream = tweets.generate(2_000, seed=21, tweets_per_window=WINDOW)
    driver, outcomes = play(osed.build(LIMITS), stream.epochs(WINDOW))
    truth = dict(zip(stream.numbers, stream.events, strict=True))
    votes = {}
    for tweet, record in driver.state("tweet").items():
        if record["cluster"] >= 0:
            votes.setdefault(record["cluster"], Counter())[truth[tweet]] += 1
    event_of = {cluster: counter.most_common(1)[0][0] for cluster, counter in votes.items()}
    detected, grown = {}, set()
    for ts, rows in selections(outcome for epoch in outcomes for outcome in epoch):
        for cluster, popularity, is_event in rows:
            moment = (event_of[cluster], ts // WINDOW - 1)
            detected[moment] = detected.get(moment, 0) + popularity
            if is_event:
                grown.add(event_of[cluster])
    for plan in tweets.five_crises(20):
        assert plan.name in grown
        actual = [stream.events[w * WINDOW : (w + 1) * WINDOW].count(plan.name) for w in range(19)]
        found = [detected.get((plan.name, w), 0) for w in range(19)]
        assert abs(found.index(max(found)) - actual.index(max(actual))) <= 1
        assert sum(found) >= 0.6 * sum(actual)


def test_the_same_tweet_twice_counts_once():
    driver = TestDriver(osed.build(LIMITS))
    vector = (1.0,) + (0.0,) * 63
    for ts in (1, 2):
        driver.send("Tweet", ts=ts, source=0, tweet=7, words=["flood"], vector=vector)
    outcomes = driver.punctuate(2).outcomes()
    assert [(each.record_type, each.reason) for each in outcomes if each.record_type == "Tweet"] == [
        ("Tweet", Reason.NONE),
        ("Tweet", Reason.REFUSED),
    ]
    assert driver.get("word", "flood")["count"] == 1


def test_crisis_files_are_read(tmp_path):
    flood, bombing = tmp_path / "flood.csv", tmp_path / "bombing.csv"
    flood.write_text(
        "tweet id, tweet, label\n"
        "'300',\"RT @you: Water is RISING, rising! http://t.co/x #flood &amp; rain\",on-topic\n"
        "'100',a quiet day,off-topic\n",
        encoding="utf-8",
    )
    bombing.write_text("tweet id, tweet, label\n'200',Explosion heard downtown,on-topic\n", encoding="utf-8")
    stream = tweets.load([flood, bombing])
    assert stream.numbers == [100, 200, 300]
    assert stream.events == ["", "bombing", "flood"]
    assert stream.words == [
        ["quiet", "day"],
        ["explosion", "heard", "downtown"],
        ["water", "rising", "#flood", "rain"],
    ]
    assert stream.vectors.sum(axis=1).tolist() == [2.0, 3.0, 4.0]


@pytest.mark.parametrize(("line", "complaint"), [("1,text", "2 columns"), ("x,text,on-topic", "'x' is not a number")])
def test_a_bad_crisis_file_is_refused_with_its_place(tmp_path, line, complaint):
    path = tmp_path / "flood.csv"
    path.write_text(f"tweet id, tweet, label\n{line}\n", encoding="utf-8")
    with pytest.raises(InputError, match=f"flood.csv:2: .*{complaint}"):
        tweets.load([path])

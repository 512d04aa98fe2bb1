"""Tweets for OSED: a loader for CrisisLexT6-style CSV files, and a seeded stream with known events.

Both give a `TweetStream`: tweets in time order, one unit of event time each, their words without repetition, a vector
of hashed word counts, and the event each truly belongs to (empty: none), which the application never sees.
"""

from __future__ import annotations

import csv
import re
import zlib
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from engine import Epoch
from engine.errors import InputError

ON_TOPIC = "on-topic"
WORD = re.compile(r"#?[a-z][a-z0-9']+")
NOISE = re.compile(r"https?://\S+|@\w+|&\w+;")
STOP_WORDS = frozenset(WORD.findall("""
    a about after all also am an and any are as at be because been but by can could did do does for from get
    got had has have he her here him his how i if in into is it its just like me more my new no not now of off
    on one or our out over rt she so some than that the their them then there they this to too up us was we
    were what when where who why will with would you your
"""))  # fmt: skip


@dataclass(frozen=True)
class TweetStream:
    """Tweets in time order."""

    numbers: list[int]
    words: list[list[str]]
    vectors: np.ndarray[Any, np.dtype[np.float64]]
    events: list[str]

    def __len__(self) -> int:
        return len(self.numbers)

    def epochs(self, tweets_per_epoch: int = 400) -> Iterator[Epoch]:
        """The stream cut into epochs, as columns of the record type Tweet."""
        for number, start in enumerate(range(0, len(self), tweets_per_epoch)):
            stop = min(start + tweets_per_epoch, len(self))
            columns = {
                "ts": np.arange(start, stop, dtype=np.int64),
                "source": np.zeros(stop - start, dtype=np.int64),
                "seq": np.arange(stop - start, dtype=np.int64),
                "tweet": np.array(self.numbers[start:stop], dtype=np.int64),
                "words": self.words[start:stop],
                "vector": self.vectors[start:stop],
            }
            yield Epoch(number, start + tweets_per_epoch - 1, {"Tweet": columns})


def tokens(text: str) -> list[str]:
    """The words of a text that may mean something, each once, in the order of their first use."""
    plain = NOISE.sub(" ", text.lower())
    return [word for word in dict.fromkeys(WORD.findall(plain)) if word not in STOP_WORDS]


def hashed_vectors(texts: Iterable[list[str]], dimensions: int) -> np.ndarray[Any, np.dtype[np.float64]]:
    """How many words of each text fall on each dimension; crc32 because Python's own hash differs from run to run."""
    rows = list(texts)
    vectors = np.zeros((len(rows), dimensions))
    for row, words in enumerate(rows):
        for word in words:
            vectors[row, zlib.crc32(word.encode()) % dimensions] += 1.0
    return vectors


def load(paths: Iterable[Path], dimensions: int = 64) -> TweetStream:
    """Reads CSV files of (tweet id, text, label), one an event named after its file; ids give the order in time."""
    found: dict[int, tuple[str, str]] = {}
    for path in paths:
        with path.open(encoding="utf-8", newline="") as file:
            reader = csv.reader(file)
            next(reader, None)
            for row in reader:
                if len(row) != 3:
                    raise InputError(
                        f"{path}:{reader.line_num}: {len(row)} columns, expected 3 (tweet id, text, label)"
                    )
                number = row[0].strip().strip("'\"")
                if not number.isdecimal():
                    raise InputError(f"{path}:{reader.line_num}: tweet id {row[0]!r} is not a number")
                found.setdefault(int(number), (row[1], path.stem if row[2].strip().lower() == ON_TOPIC else ""))
    numbers = sorted(found)
    words = [tokens(found[number][0]) for number in numbers]
    return TweetStream(numbers, words, hashed_vectors(words, dimensions), [found[number][1] for number in numbers])


@dataclass(frozen=True)
class EventPlan:
    """A made-up event: it begins, swells to its peak and ebbs away, linearly; counted in windows."""

    name: str
    begin: int
    peak: int
    end: int
    peak_share: float = 0.3  # of a window's tweets

    def share(self, window: int) -> float:
        if window < self.begin or window > self.end:
            return 0.0
        if window <= self.peak:
            return self.peak_share * (window - self.begin + 1) / (self.peak - self.begin + 1)
        return self.peak_share * (self.end - window + 1) / (self.end - self.peak + 1)


def five_crises(windows: int = 75) -> tuple[EventPlan, ...]:
    """Five events spread over the stream, as in the paper's data set: 30,000 tweets are 75 windows."""
    names = ("hurricane", "flood", "explosion", "bombing", "tornado")
    step = windows / 6
    starts = [round(step * (place + 0.5)) for place in range(5)]
    return tuple(
        EventPlan(name, start, start + max(1, round(step / 3)), start + round(step))
        for name, start in zip(names, starts, strict=True)
    )


def generate(
    tweets: int = 30_000,
    plans: tuple[EventPlan, ...] | None = None,
    seed: int = 1,
    tweets_per_window: int = 400,
    dimensions: int = 64,
) -> TweetStream:
    """A stream with known events: their tweets share a tag and some of nine words, others draw from 3,000."""
    if plans is None:
        plans = five_crises(max(1, tweets // tweets_per_window))
    random = np.random.default_rng(seed)
    vocabulary = np.array([f"word{place}" for place in range(3_000)])
    weights = 1.0 / np.arange(1, len(vocabulary) + 1) ** 0.8
    weights /= weights.sum()
    words, events = [], []
    for place in range(tweets):
        shares = [plan.share(place // tweets_per_window) for plan in plans]
        chosen = int(np.searchsorted(np.cumsum(shares), random.random(), side="right"))
        event = plans[chosen].name if chosen < len(plans) else ""
        # Drawn for every tweet, so that one plan's tweets do not shift the words of all that follow.
        common = vocabulary[random.choice(len(vocabulary), 8, p=weights)].tolist()
        topical, tagged = random.choice(9, 4, replace=False).tolist(), random.random() < 0.95
        text = [f"{event}{word}" for word in topical] + common[:3] if event else common
        words.append(list(dict.fromkeys([f"#{event}", *text] if event and tagged else text)))
        events.append(event)
    return TweetStream(list(range(1, tweets + 1)), words, hashed_vectors(words, dimensions), events)

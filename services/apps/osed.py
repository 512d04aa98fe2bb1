"""OSED, online social event detection, as six operators over three tables (MorphStream section 8.6.1).

Each operator is a transaction; the derived record it emits starts the next one in a later stage, so that each operator
sees what the one before did with the whole epoch. Let an epoch be a window of tweets (400 in the paper).

    Tweet ▸ Tweet Registrant      registers the tweet and passes on its words
    Words ▸ Word Updater          counts the words of this window
    Trend ▸ Trend Calculator      labels words whose TF-IDF grew: burst words; tweets with one go on
    Candidate ▸ Similarity Calculator   the cluster most like the tweet (cosine), or a new one, named by its burst word
    Assignment ▸ Cluster Updater  merges the tweet into the cluster
    Event Selector                fires at the end of each window: outputs clusters that grew, removes quiet ones

Texts become vectors of hashed word counts before they get here (tweets.py): records hold numbers.
"""

# mypy: allow-untyped-defs, allow-untyped-calls
# (user functions are typed by numba when they are declared)

import math
from dataclasses import dataclass

from millrace import Application, boolean, float64, int64, list_of, udf, vector

HALVINGS_MAX = 64  # after that many windows without the word, nothing is left of what was usual


@dataclass(frozen=True)
class Thresholds:
    """What counts as a burst, as alike, as an event and as quiet; and the sizes that bound them.

    The window is the paper's. The paper gives no other figure: these were chosen by looking at the generated stream of
    seed 1 (tweets.generate), at windows of 100 and 400 tweets; another data set may need others.
    """

    window: int = 400  # units of event time; tweets.py gives each tweet one unit, so also tweets a window
    burst_growth: float = 4.0  # TF-IDF of this window over what is usual for the word
    burst_tweets: int = 10  # tweets of this window a burst word is in, at least
    warm_up_windows: int = 1  # at the start, when nothing is usual yet, no word is a burst word
    similarity: float = 0.35  # cosine from which on a tweet belongs to a cluster
    event_growth: float = 1.2  # new tweets of this window over those of the one before
    event_tweets: int = 10  # new tweets an active cluster has in a window, at least
    idle_windows: int = 3  # windows without a new tweet after which a cluster is removed
    clusters_compared: int = 32  # a tweet is compared with this many clusters, the latest updated ones
    removals: int = 8  # clusters removed at the end of a window, at most
    dimensions: int = 64  # of the hashed vectors


def build(thresholds: Thresholds | None = None) -> Application:
    """Declares the six operators."""
    limits = thresholds or Thresholds()
    app = Application("social-event-detection")
    hashed = vector(float64, limits.dimensions)
    tweets = app.table("tweet", key=int, value={"registered": boolean, "cluster": int64, "vector": hashed})
    words = app.table(
        "word",
        key=str,
        value={
            "founder": int64,  # the tweet it was first seen in: the number of a cluster that this word starts
            "window": int64,  # the last window it was seen in
            "count": int64,  # tweets of that window
            "total": int64,  # tweets up to and with that window
            "score": float64,  # TF-IDF in that window, known once the Trend Calculator saw it
            "usual": float64,  # TF-IDF over windows: halfway to each window's score, those of a burst left out
            "burst": boolean,
        },
        default={"window": -1},
    )
    clusters = app.table(
        "cluster",
        key=int,
        value={
            "number": int64,
            "window": int64,  # the last window with a new tweet
            "fresh": int64,  # new tweets of that window: the cluster's popularity
            "before": int64,  # of the window before it
            "size": int64,
            "sum": hashed,  # of the vectors of its tweets
        },
    )
    app.event("Tweet", {"tweet": int64, "words": list_of(str), "vector": hashed})
    app.event("Words", {"tweet": int64, "words": list_of(str), "window": int64})
    app.event("Trend", {"tweet": int64, "words": list_of(str), "window": int64})
    app.event("Candidate", {"tweet": int64, "window": int64, "founder": int64})
    app.event("Assignment", {"tweet": int64, "window": int64, "cluster": int64})
    _declare_registrant(app, limits, tweets)
    _declare_words(app, limits, words)
    _declare_clustering(app, limits, tweets, clusters)
    _declare_selector(app, limits, clusters)
    return app


def _declare_registrant(app, limits, tweets):
    window, dimensions = limits.window, limits.dimensions

    @udf
    def register(tweet, event):
        known = tweet.registered
        tweet.registered = True
        tweet.cluster = -1
        for place in range(dimensions):
            tweet.vector[place] = event.vector[place]
        return not known  # the same tweet twice counts once

    @udf
    def pass_on(words, event):
        words.tweet = event.tweet
        words.window = event.ts // window

    @app.transaction("Tweet")
    def tweet_registrant(txn, event):
        txn.write(tweets[event.tweet], register)
        txn.emit("Words", pass_on, copy={"words": event.words})


def _declare_words(app, limits, words):
    window, warm_up_windows = limits.window, limits.warm_up_windows
    burst_growth, burst_tweets = limits.burst_growth, limits.burst_tweets

    @udf
    def count(word, event):
        if word.total == 0:
            word.founder = event.tweet
        if word.window != event.window:
            # A burst does not become usual, so its words stay burst words until it is over.
            if not word.burst:
                word.usual = (word.usual + word.score) / 2
            missed = event.window - word.window - 1 if word.total > 0 else 0
            for _ in range(min(missed, HALVINGS_MAX)):
                word.usual /= 2
            word.window = event.window
            word.count = 0
            word.score = 0.0
            word.burst = False
        word.count += 1
        word.total += 1

    @udf
    def pass_on(trend, event):
        trend.tweet = event.tweet
        trend.window = event.window

    @app.transaction("Words")
    def word_updater(txn, event):
        txn.write(words[event.words], count)
        txn.emit("Trend", pass_on, copy={"words": event.words})

    @udf
    def label(word, event):
        tweets_so_far = (event.window + 1) * window
        word.score = word.count / window * math.log(1.0 + tweets_so_far / word.total)
        grown = word.score >= burst_growth * word.usual and event.window >= warm_up_windows
        word.burst = grown and word.count >= burst_tweets

    @udf
    def has_burst(event, labelled):
        found = False
        for place in range(len(labelled)):
            found = found or labelled[place].burst
        return found

    @udf
    def founder_of(candidate, event, labelled):
        candidate.tweet = event.tweet
        candidate.window = event.window
        best = -1.0
        for place in range(len(labelled)):
            if labelled[place].burst and labelled[place].score > best:
                best = labelled[place].score
                candidate.founder = labelled[place].founder

    @app.transaction("Trend")
    def trend_calculator(txn, event):
        labelled = txn.write(words[event.words], label)
        txn.emit("Candidate", founder_of, reads=[labelled], when=has_burst, when_reads=[labelled])


def _declare_clustering(app, limits, tweets, clusters):
    dimensions, compared, similarity = limits.dimensions, limits.clusters_compared, limits.similarity

    @udf
    def keep_latest(latest, cluster):
        place = latest.count
        if place < compared:
            latest.count += 1
        else:  # full: in place of the one longest without an update, if that is older (of two, the later number goes)
            place = 0
            for other in range(1, compared):
                older = latest.window[other] < latest.window[place]
                same = latest.window[other] == latest.window[place]
                if older or (same and latest.number[other] > latest.number[place]):
                    place = other
            if latest.window[place] >= cluster.window:
                return
        latest.number[place] = cluster.number
        latest.window[place] = cluster.window
        for dimension in range(dimensions):
            latest.sum[place * dimensions + dimension] = cluster.sum[dimension]

    @udf
    def most_similar(assignment, candidate, latest, tweet):
        assignment.tweet = candidate.tweet
        assignment.window = candidate.window
        assignment.cluster = candidate.founder
        tweet_square = 0.0
        for dimension in range(dimensions):
            tweet_square += tweet.vector[dimension] * tweet.vector[dimension]
        best = -1.0
        for place in range(latest.count):
            product, cluster_square = 0.0, 0.0
            for dimension in range(dimensions):
                theirs = latest.sum[place * dimensions + dimension]
                product += theirs * tweet.vector[dimension]
                cluster_square += theirs * theirs
            cosine = product / math.sqrt(cluster_square * tweet_square) if product > 0.0 else 0.0
            first = cosine == best and latest.number[place] < assignment.cluster
            if cosine >= similarity and (cosine > best or first):
                best = cosine
                assignment.cluster = latest.number[place]

    latest_fields = {
        "count": int64,
        "number": vector(int64, compared),
        "window": vector(int64, compared),
        "sum": vector(float64, compared * dimensions),
    }

    @app.transaction("Candidate")
    def similarity_calculator(txn, event):
        latest = txn.read(clusters.fold(keep_latest, into=latest_fields))
        txn.emit("Assignment", most_similar, reads=[latest, tweets[event.tweet]])

    @udf
    def merge(cluster, assignment, tweet):
        cluster.number = assignment.cluster
        if cluster.size == 0 or cluster.window != assignment.window:
            follows = cluster.size > 0 and cluster.window == assignment.window - 1
            cluster.before = cluster.fresh if follows else 0
            cluster.fresh = 0
            cluster.window = assignment.window
        cluster.fresh += 1
        cluster.size += 1
        for dimension in range(dimensions):
            cluster.sum[dimension] += tweet.vector[dimension]

    @udf
    def note_cluster(tweet, assignment):
        tweet.cluster = assignment.cluster

    @app.transaction("Assignment")
    def cluster_updater(txn, event):
        txn.write(clusters[event.cluster], merge, reads=[tweets[event.tweet]])
        txn.write(tweets[event.tweet], note_cluster)


def _declare_selector(app, limits, clusters):
    window, event_growth, event_tweets = limits.window, limits.event_growth, limits.event_tweets
    idle_windows, shown, removals = limits.idle_windows, limits.clusters_compared, limits.removals

    @udf
    def keep_active(active, cluster):
        # A fold does not know the time; but only clusters of the latest window of all can be active.
        if cluster.window > active.window:
            active.window = cluster.window
            active.count = 0
        if cluster.window == active.window and cluster.fresh >= event_tweets and active.count < shown:
            active.number[active.count] = cluster.number
            active.fresh[active.count] = cluster.fresh
            active.before[active.count] = cluster.before
            active.count += 1

    @udf
    def keep_quietest(quietest, cluster):
        # Insertion into a list sorted by window; what falls off its end is less quiet.
        number, last = cluster.number, cluster.window
        for place in range(removals):
            if place >= quietest.count:
                quietest.number[place] = number
                quietest.window[place] = last
                quietest.count += 1
                return
            if last < quietest.window[place]:
                held_number, held_window = quietest.number[place], quietest.window[place]
                quietest.number[place] = number
                quietest.window[place] = last
                number, last = held_number, held_window

    @udf
    def select(output, event, active):
        if active.window == event.ts // window - 1:
            for place in range(active.count):
                output.cluster[place] = active.number[place]
                output.popularity[place] = active.fresh[place]
                output.is_event[place] = 1 if active.fresh[place] >= event_growth * active.before[place] else 0
            output.count = active.count

    active_fields = {
        "count": int64,
        "window": int64,
        "number": vector(int64, shown),
        "fresh": vector(int64, shown),
        "before": vector(int64, shown),
    }
    quietest_fields = {"count": int64, "number": vector(int64, removals), "window": vector(int64, removals)}

    def removal(place):
        """Whether the cluster at this place of the quietest is idle, and its key."""

        @udf
        def is_idle(event, quietest):
            return place < quietest.count and event.ts // window - 1 - quietest.window[place] >= idle_windows

        @udf
        def key(event, quietest):
            return quietest.number[place]

        return is_idle, key

    output = {
        "count": int64,
        "cluster": vector(int64, shown),
        "popularity": vector(int64, shown),
        "is_event": vector(int64, shown),
    }

    @app.every("EventSelector", window, output=output)
    def event_selector(txn, event):
        active = txn.read(clusters.fold(keep_active, into=active_fields))
        quietest = txn.read(clusters.fold(keep_quietest, into=quietest_fields))
        txn.output(select, reads=[active])
        for place in range(removals):
            is_idle, key = removal(place)
            txn.delete(clusters.computed(key, reads=[quietest]), when=is_idle, when_reads=[quietest])

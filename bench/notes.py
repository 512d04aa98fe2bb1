"""Where we lose or cannot tell, an experiment each: written by hand after real runs, printed into docs/results.md.

An experiment without a sentence here is shown as not judged yet.
"""

NOTES: dict[str, str] = {}

# What a reader must know about how ours differs from the paper's setting, whatever the numbers say.
DIFFERENCES: dict[str, str] = {
    "fig12-dynamic": "Two cores instead of 24. Our ledger lets a balance be used up (`>=`), MorphStream's does not (`>`). "
    "Latency is computed for events that arrive evenly while the epoch before theirs runs.",
    "fig13-nested": "The skewed region draws its segments with θ = 0.8 and aborts 60 %, the other θ = 0 and 1 %; the paper "
    "gives no figures for its groups.",
    "fig16-breakdown": "Plan and other are times of one thread, the rest is summed over threads. The inlined "
    "serial mode keeps no versions, so it reports no working memory.",
    "fig17-clean-up": "Millrace always drops an epoch's versions when the epoch ends. `kept` holds on to every result "
    "object instead: what a system without clean-up would pay.",
    "fig19-granularity": "Acyclic: each sum writes the smallest of its keys. The paper does not say how it made its own.",
    "fig21b-scalability": "Beyond two threads all figures are simulated (list scheduling of the measured graph with "
    "measured costs; no aborts, no limit of memory bandwidth): bounds, not measurements.",
    "tstream-fig8-throughput": "Two threads instead of up to 40 cores.",
    "tstream-fig10-partitions": "A key's partition is its number modulo 16.",
    "tstream-fig13-latency": "Latency is computed for events that arrive evenly while the epoch before theirs runs.",
    "speed-ledger": "The loop by hand knows that keys are dense array positions; the engine looks each one up.",
}

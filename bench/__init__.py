"""Benchmarks: figures measured on this machine, never in the engine's own code."""

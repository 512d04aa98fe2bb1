"""User functions: wrapped by `udf`, rewritten into checked form, compiled to a C address, cached on disk.

The way of one function: `udf.py` wraps it, `transform.py` rewrites its syntax tree with the operations of
`checked.py`, `source.py` assembles a module around it, `cache.py` keeps that module on disk, `entry.py` compiles it
and gives its address. This file imports nothing, so that `engine.functions.cache` can be imported before any compiled
code.
"""

"""`millrace demo`: the whole pipeline on this machine, with a kill in the middle; `--in-process`, the engine alone."""

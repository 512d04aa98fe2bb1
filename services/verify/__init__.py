"""The proof that the engine is exact: an oracle, random applications and epochs, and the command that compares."""

"""Spark jobs, one per file: a pure DataFrame transform and a thin main."""

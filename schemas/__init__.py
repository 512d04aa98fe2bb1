"""Avro schemas, one file per topic and version, never edited after release."""

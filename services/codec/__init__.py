"""Avro bytes to columns and back, compiled for each schema."""

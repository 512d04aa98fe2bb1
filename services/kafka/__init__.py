"""Kafka for the services: a broker for anyone to run, client set-up, topics."""

"""The engine service: reads events from Kafka, runs epochs, commits results, each epoch in one Kafka transaction."""

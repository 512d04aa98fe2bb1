"""Speed from Kafka to Kafka, on a real broker."""

"""What operators learn of a running server: records of its requests, metrics, logs and spans."""

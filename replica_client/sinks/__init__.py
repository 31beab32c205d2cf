"""Destinations of changes: formats, Kafka, Redis, NATS, HTTP, files, and mirrors in databases."""

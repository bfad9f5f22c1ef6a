"""Traces of runs: OpenTelemetry spans for collectors, and a JSON file a run for people."""

"""The official checks of others, run against this server: `make conformance`."""

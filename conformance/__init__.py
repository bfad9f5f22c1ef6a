"""Third-party conformance checks of this server: `make conformance`."""

"""Login over HTTP: static tokens, tokens of an identity provider, and the refusals that clients can act on."""

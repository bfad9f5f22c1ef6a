"""Work that talks with its client in the middle of a call: elicitation, sampling, resume tokens."""

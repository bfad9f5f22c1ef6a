"""Texts of others: untrusted patterns in linear time, and the forms of secrets."""

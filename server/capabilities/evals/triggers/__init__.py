"""Trigger tests: ranks without a model, runs with an agent, and descriptions that a model revises."""

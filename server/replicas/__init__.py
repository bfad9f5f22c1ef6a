"""Replicas: several servers with the same skills, which hear of each other's changes through Redis."""

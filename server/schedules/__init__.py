"""Scheduler skills: their folders in the state directory, and the runs that fire by the durable engine."""

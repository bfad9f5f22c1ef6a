"""Runs scripts that belong to skills, in a sandbox if the system has one."""

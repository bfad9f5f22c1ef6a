"""Histories of the sources that the settings name."""

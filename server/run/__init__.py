"""Runs as a server and the command line have them: settings and this machine on one side, the core's runs on the other.

What is imported here at the start of a server is light; a run imports the rest when it begins.
"""

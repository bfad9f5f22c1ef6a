"""All clients that are measured."""

from __future__ import annotations

from conformance.clients.agents import AGENTS
from conformance.clients.further_clients import FURTHER_CLIENTS
from conformance.clients.python_clients import PYTHON_CLIENTS

__all__ = ["CLIENTS"]

CLIENTS = {client.name: client for client in (*AGENTS, *PYTHON_CLIENTS, *FURTHER_CLIENTS)}

"""Entry points for programs that use skills without the server.

`project` finds and loads the skills below one folder, and puts the best one before a user's message. `pydantic_ai` does
so for agents of that framework.
"""

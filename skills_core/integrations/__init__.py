"""Entry points for programs that use skills without the server.

`project` finds and loads the skills below one folder. `injector` puts the best skill before a user's message, and
`pydantic_ai` does so for agents of that framework.
"""

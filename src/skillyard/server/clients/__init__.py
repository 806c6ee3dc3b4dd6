"""Protocols of other services, served for their stock clients: Anthropic and OpenAI skills, ClawHub, git, discovery indexes."""

"""One module for each command or group of commands.

`add_NAME_arguments(parser)` says what a command takes, `NAME_command(arguments)` does it and returns the exit code.
"""

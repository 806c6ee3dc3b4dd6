"""One module per command: `add_arguments(parser)` says what it takes, `run(arguments)` does it and returns the exit code."""

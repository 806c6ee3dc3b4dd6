"""Whether public skills do their real work: each is followed as by a model, what it makes is opened by another program."""

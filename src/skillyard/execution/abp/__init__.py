"""The ABP protocol: tools a skill declares, calls in a model's text, results in the protocol's form."""

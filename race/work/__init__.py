"""Steps that several stages or commands share: given tools, each does one thing."""

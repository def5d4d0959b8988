"""A task in the words of the neighbours: SOMA rows, SWE-bench rows, Harbor folders. Pure."""

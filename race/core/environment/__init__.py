"""How a project's environment is worked out from its files: pure functions over the tree at a commit."""

"""Named rules that a statement must pass before an agent sees it, whoever wrote it."""

"""A project behind GitHub's API as a history, through PyGithub."""

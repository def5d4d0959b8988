"""race: merged pull requests that fix concurrency bugs, as sealed and graded coding-agent tasks."""

__version__ = "0.1.0"

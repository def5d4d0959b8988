"""What hidden tests need that the base does not have: static analysis of tests against two trees.

`before` is the tree at the base commit with the test patch applied, `after` has the fix as well. A
name that a hidden test uses, that `after` resolves and `before` does not, is interface: an agent
cannot guess it, so the statement must say it. Nothing is imported or run; sources are hostile.
"""

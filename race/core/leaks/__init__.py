"""What gives a task's answer away, found in the bytes of an image. Pure: bytes in, findings out.

forms      two normal forms of text that survive reformatting, and readable excerpts
matcher    many needles in many files at gigabyte speed
patchtext  a unified diff as hunks
fragments  what to look for: distinctive pieces of a fix and of its hidden tests
unpack     what lies inside archives, compressed files, git objects, databases and encodings
gitstore   a git repository as it lies in an image: objects, refs, index, leftovers
layers     what a scan keeps of one layer, and how layers stack up to one file system
scanner    one layer's files in, one LayerScan out
judge      which hits are a leak and which are the common language of Python
probes     one named check per kind of leak, each with its evidence
"""

METHOD = "3"
"""Raised with every change of what the audit finds or lets pass: sealed tasks are due again then."""

METHOD_OF = "74e8c80f70431e6c"
"""The digest of the code for which the number was last decided; a test says what to do with it."""

"""What an agent is told besides the statement: how it works, where, and how to hand in."""

from __future__ import annotations

SYSTEM = "You are a software engineer who works on a repository through a shell."

TASK = """\
Resolve the problem described below by changing the repository in the current directory.

<problem>
{{task}}
</problem>

How it works:
- You act by calling the bash tool. Every call starts a new shell in /repo, so `cd` and variables do not
  last. Each command may take {{command_seconds}} seconds and is killed after that; long output is cut.
- You have {{step_limit}} calls of the model in all. There is no network, and nothing can be installed.
- The project and its test dependencies are installed for `python`; `python -m pytest` runs its tests.
- Your work is judged by tests that you do not see, run on the product code as you leave it. Changes to
  tests and to their configuration are set aside. You need not commit or write a patch file.
- When you are done, run exactly `echo COMPLETE_TASK_AND_SUBMIT_FINAL_OUTPUT` and nothing else.
"""

OBSERVATION = """\
{% if output.exception_info %}<note>{{output.exception_info}}</note>
{% endif %}<exit_code>{{output.returncode}}</exit_code>
<output>
{% if output.output | length <= 12000 %}{{output.output}}{% else %}{{output.output[:6000]}}
[... {{output.output | length - 12000}} characters are left out here ...]
{{output.output[-6000:]}}{% endif %}
</output>"""

BAD_CALL = """\
That was no usable call of the bash tool: {{error}}
Answer with at least one call of the tool `bash` with the argument `command`, a string.
When you are done, run `echo COMPLETE_TASK_AND_SUBMIT_FINAL_OUTPUT`."""

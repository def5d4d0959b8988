"""Root-owned supervisor of test runs, inside the container. Standard library only, Python 3.8 and newer.

    python3 -I -S launch.py observe REQUEST.json     events of many runs, as JSON lines on stdout
    python3 -I -S launch.py prepare                  while a test image is built: record base and tests
    python3 -I -S launch.py grade                    grade what was done to the repository
    python3 -I -S launch.py trial                    with the reference fix: what gradings may rely on

It needs to be root with the capabilities CHOWN, DAC_OVERRIDE, FOWNER, KILL, SETGID and SETUID, gives
the tests none of them, and trusts nothing that they write.
"""

from __future__ import annotations

import json
import os
import sys

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))

import cage
import supervise
import workers

TASK = "/soma/task"


def observe(path: str) -> int:
    """Run the plans of a request in order and print every event; each says which run it is from."""
    with open(path, "rb") as stream:
        request = json.loads(stream.read())
    out = sys.stdout.buffer
    cage.adopt_orphans()
    uids, worker = cage.Uids(), None
    opened: set[str] = set()
    for number, plan in enumerate(request["runs"]):

        def emit(event: dict, number: int = number) -> None:
            out.write(json.dumps({"run": number, **event}).encode() + b"\n")
            out.flush()

        run = supervise.Run(plan, emit, uids)
        root, environment = run.plan["root"], run.plan["environment"]
        if root not in opened:
            cage.open_folders(root)
            opened.add(root)
        if worker is None or worker.key != workers.worker_key(run.plan["python"], environment):
            if worker is not None:
                worker.close()
            worker = workers.Worker(run.plan["python"], environment)
            worker.wait()
        if not worker.ready:
            emit({"event": "ended", "how": "no-interpreter", "output": worker.error})
            worker = None
            continue
        run.go(worker)
    if worker is not None:
        worker.close()
    out.write(b'{"event": "bye"}\n')
    out.flush()
    return 0


def main(mode: str, arguments: list[str]) -> int:
    """Do what is asked for; the exit status."""
    if os.getuid() != 0:
        print("launch.py must be started by root", file=sys.stderr)
        return 2
    if mode != "prepare":
        cage.settle_names()
    if mode == "observe":
        return observe(arguments[0])
    if mode == "prepare":
        import prepare

        prepare.prepare(TASK)
        return 0
    if mode not in ("grade", "trial"):
        print("no such mode: " + mode, file=sys.stderr)
        return 2
    worker = workers.task_worker(TASK)  # it starts while the rest is imported
    import grade
    import report
    import trial

    if mode == "grade":
        grade.grade(worker, lambda task, result: report.write(report.report(task, result)))
    else:
        print(json.dumps(trial.try_out(worker)))
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1], sys.argv[2:]))

"""What the tests of the release check share: the smallest task, and what its stage works with."""

from __future__ import annotations

from race.core.verified import Verified
from race.progress import Progress
from race.store import Store, TaskFolder
from race.work.stage import Desk
from race.workbench import Workbench


def smallest(store: Store) -> TaskFolder:
    """The verified task with the fewest listed tests."""
    tasks = [store.task(i) for i in store.ids()]
    done = [(t, v) for t in tasks if (v := t.read(Verified)) is not None and v.accepted]
    return min(done, key=lambda pair: (len(pair[1].pass_to_pass), pair[0].id))[0]


def desk_of(store: Store, task: TaskFolder, bench: Workbench) -> Desk:
    """What the stage function works with."""
    return Desk(task, store, bench, Progress("verify", 1, quiet=True))

"""From which day pytest may come when that of the commit's day does not do."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from datetime import UTC, datetime

from race.core.environment.model import Rung, reason
from race.core.environment.pythons import released, runner_cutoff
from race.errors import Unresolvable

RUNNER = ("pytest", "pytest-asyncio", "pytest-cov", "pytest-aiohttp", "pytest-timeout")
"""What may be younger than the commit when the interpreter is: the runner and its closest plugins."""
RUNNER_NEEDS = ("iniconfig", "packaging", "pluggy", "py", "exceptiongroup", "tomli")
"""What a later pytest itself needs of a later date."""
RUNNER_MAY_NEED = ("attrs",)
"""What it also needs where the commit's day has too old a release of it; projects use it too."""
GRADER_PYTEST = 7
GRADER_PYTEST_SETTLED = datetime(2022, 10, 25, tzinfo=UTC)
"""The release day of pytest 7.2, for commits whose date knows older ones only."""
TOO_OLD = re.compile(
    r"INTERNALERROR>.*(Error|Exception)|required field \"lineno\" missing|module 'ast' has no attribute|"
    r"has no attribute 'getargspec'|cannot import name '\w+' from 'collections'"
)


@dataclass
class RunnerDates:
    """The cut-offs of packages that are not the commit's: empty until one of its rungs is climbed.

    Each rung is returned for the record, None when it is not needed.
    """

    cutoff: datetime
    later: dict[str, datetime] = field(default_factory=dict)

    @property
    def unpinned(self) -> tuple[str, ...]:
        """Packages whose pins do not count."""
        return RUNNER if self.later else ()

    @property
    def constraints(self) -> list[str]:
        """What holds pytest to releases that the grader drives, once it is not the commit's own."""
        return [f"pytest>={GRADER_PYTEST}"] if self.later else []

    def _set(self, moment: datetime) -> None:
        self.later.update(dict.fromkeys((*RUNNER, *RUNNER_NEEDS), moment))

    def unlike_python(self, python: str, said: str) -> Rung | None:
        """A later pytest when the locked one fails on a Python that it does not know.

        `said` is what it printed when it collected.
        """
        moment = runner_cutoff(python, self.cutoff)
        broken = [line for line in said.splitlines() if TOO_OLD.search(line)]
        if self.later or moment is None or not broken:
            return None
        self._set(moment)
        what = f"pytest of {moment:%Y-%m-%d}, pins dropped"
        return Rung(name="runner-of-this-python", what=what, why=reason(broken[0]))

    def below_grader(self, python: str, lock: str) -> Rung | None:
        """A later pytest when the locked one is older than the grader can drive."""
        match = re.search(r"^pytest==(\d+)\.(\S+)", lock, re.MULTILINE)
        if self.later or match is None or int(match[1]) >= GRADER_PYTEST:
            return None
        self._set(max(self.cutoff, GRADER_PYTEST_SETTLED, released(python)))
        what = f"pytest {GRADER_PYTEST} or later instead of {match[1]}.{match[2]}, pins dropped"
        why = f"the grader drives pytest {GRADER_PYTEST} and later"
        return Rung(name="runner-of-the-grader", what=what, why=why)

    def widened(self, error: Unresolvable) -> Rung | None:
        """More packages of the later date when there is no lock with it.

        Raises Unresolvable, with a reason that says so, when a later pytest is what does not go.
        """
        if not self.later:
            return None
        if self.later.keys() & set(RUNNER_MAY_NEED):
            raise Unresolvable(
                f"what the project asks for does not go with pytest {GRADER_PYTEST} or later, which the "
                f"grader drives: {error.reason}"
            ) from error
        self.later.update(dict.fromkeys(RUNNER_MAY_NEED, max(self.later.values())))
        what = f"{', '.join(RUNNER_MAY_NEED)} of pytest's date too"
        return Rung(name="runner-of-the-grader", what=what, why=error.reason[:300])

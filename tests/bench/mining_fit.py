"""Fits the weights of mining's signals and cross-validates them by project.

    .venv/bin/python tests/bench/mining_fit.py LABELS [LABELS...] --clones DIR [--write]

The model: three questions (is it a fix, is it about concurrency, do its tests exercise the change),
each a logistic sum of its signals; the score is their product. Signals that speak for a pull request
have weights of 0 or more, signals named `not:` of 0 or less; a quadratic penalty keeps them small.
The fit starts from a fixed point, so that the same labels give the same table. Projects whose
licence rules them out are named with --without: their labels say nothing about the matter.
"""

from __future__ import annotations

import argparse
from pathlib import Path

import numpy as np
from mining_data import Labelled, labelled
from numpy.typing import NDArray
from scipy.optimize import minimize

Array = NDArray[np.float64]
QUESTIONS = ("fix", "matter", "tests")
PENALTY = 0.2
GIVEN = {"not:title-alone": -6.0}
"""Set by hand: the labels hold too few of them to fit."""
OF_FIX = frozenset(
    ["title:fix", "title:defect", "title:type-fix", "text:defect", "text:regression", "text:closes",
     "text:changelog", "text:changelog-fix", "fix:remarks-defect", "fix:remarks-regression",
     "fix:in-place", "fix:takes-away", "test:remarks-defect", "test:remarks-regression"]
)  # fmt: skip
OF_TESTS = frozenset(["test:new", "test:fresh", "test:acts-2", "test:acts-3"])
WEIGHTS = Path(__file__).parents[2] / "race" / "core" / "mining" / "weights.py"


def question_of(name: str) -> int:
    """Which question a signal helps to answer."""
    if name == "not:title-alone":
        return 1
    if name in OF_TESTS or name.startswith("not:test"):
        return 2
    if name in OF_FIX or name.startswith("not:") or name.startswith("both:feature"):
        return 0
    return 1


def speaks_against(name: str) -> bool:
    """Is this signal's weight 0 or less?"""
    return name.startswith("not:") or name.startswith("both:feature")


class Model:
    """Weights for named signals and a base for each question."""

    def __init__(self, names: list[str]) -> None:
        self.names = names
        self.group = np.array([question_of(name) for name in names])
        self.weights = np.zeros(len(names))
        self.bases = np.ones(len(QUESTIONS))

    def matrix(self, rows: list[Labelled]) -> Array:
        """One row each, one column for each signal."""
        column = {name: index for index, name in enumerate(self.names)}
        out = np.zeros((len(rows), len(self.names)))
        for index, row in enumerate(rows):
            for name, value in (row.signals or {}).items():
                if name in column:
                    out[index, column[name]] = value
        return out

    def scores(self, matrix: Array) -> Array:
        """The product of the three answers."""
        answers = [self._answer(matrix, q, self.weights, self.bases) for q in range(len(QUESTIONS))]
        product: Array = np.prod(answers, axis=0)
        return product

    def _answer(self, matrix: Array, question: int, weights: Array, bases: Array) -> Array:
        mine = self.group == question
        total = np.clip(matrix[:, mine] @ weights[mine] + bases[question], -40, 40)
        answer: Array = 1 / (1 + np.exp(-total))
        return answer

    def fit(self, rows: list[Labelled], penalty: float = PENALTY) -> Model:
        """Fit to rows; the same rows give the same weights."""
        matrix = self.matrix(rows)
        truth = np.array([row.positive for row in rows], dtype=float)
        weight = np.array([row.weight for row in rows])
        count = len(self.names)

        def loss(flat: Array) -> tuple[float, Array]:
            weights, bases = flat[:count], flat[count:]
            answers = [self._answer(matrix, q, weights, bases) for q in range(len(QUESTIONS))]
            p = np.clip(np.prod(answers, axis=0), 1e-9, 1 - 1e-9)
            value = -float((weight * (truth * np.log(p) + (1 - truth) * np.log(1 - p))).sum())
            value += 0.5 * penalty * float((weights**2).sum()) + 0.02 * float((bases**2).sum())
            slope = weight * ((1 - truth) / (1 - p) - truth / p) * p
            by_weight, by_base = penalty * weights, 0.04 * bases
            for q, answer in enumerate(answers):
                step = slope * (1 - answer)
                by_weight[self.group == q] += matrix[:, self.group == q].T @ step
                by_base[q] += step.sum()
            return value, np.concatenate([by_weight, by_base])

        bounds: list[tuple[float | None, float | None]] = []
        for name in self.names:
            given = GIVEN.get(name)
            if given is not None:
                bounds.append((given, given))
            else:
                bounds.append((None, 0.0) if speaks_against(name) else (0.0, None))
        bounds += [(None, None)] * len(QUESTIONS)
        start = np.concatenate([[GIVEN.get(name, 0.0) for name in self.names], np.ones(len(QUESTIONS))])
        found = minimize(
            loss, start, jac=True, method="L-BFGS-B", bounds=bounds, options={"maxiter": 3000}
        )
        self.weights, self.bases = found.x[:count], found.x[count:]
        return self

    def source(self, fitted_on: str) -> str:
        """The table as the module that mining reads."""
        lines = [
            '"""The weights of mining\'s signals. Written by tests/bench/mining_fit.py.',
            "",
            fitted_on,
            '"""',
            "",
            "from __future__ import annotations",
            "",
            "BASES: dict[str, float] = {",
            *(f'    "{q}": {self.bases[i]:.3f},' for i, q in enumerate(QUESTIONS)),
            "}",
            "WEIGHTS: dict[str, dict[str, float]] = {",
        ]
        for index, question in enumerate(QUESTIONS):
            lines.append(f'    "{question}": {{')
            order = np.argsort(self.weights, kind="stable")
            lines += [
                f'        "{self.names[i]}": {self.weights[i]:.3f},'
                for i in order
                if self.group[i] == index and abs(self.weights[i]) >= 0.005
            ]
            lines.append("    },")
        return "\n".join([*lines, "}", ""])


def left_out(rows: list[Labelled], names: list[str]) -> Array:
    """Scores of every row from a fit that has not seen its project."""
    scores = np.zeros(len(rows))
    for repo in sorted({row.repo for row in rows}):
        inside = [row for row in rows if row.repo != repo]
        mine = [index for index, row in enumerate(rows) if row.repo == repo]
        model = Model(names).fit(inside)
        scores[mine] = model.scores(model.matrix([rows[index] for index in mine]))
    return scores


def rates(
    scores: Array, truth: NDArray[np.bool_], threshold: float, missed: int = 0
) -> tuple[float, float]:
    """Precision and recall; `missed` positives never got a score."""
    taken = scores >= threshold
    right = int((taken & truth).sum())
    return right / max(1, int(taken.sum())), right / max(1, int(truth.sum()) + missed)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("labels", nargs="+", type=Path)
    parser.add_argument("--clones", type=Path, required=True)
    parser.add_argument("--without", action="append", default=[], metavar="OWNER/NAME")
    parser.add_argument("--write", action="store_true", help="write race/core/mining/weights.py")
    options = parser.parse_args()
    every = [row for row in labelled(options.labels, options.clones) if row.repo not in options.without]
    rows = [row for row in every if row.signals is not None]
    missed = sum(row.positive for row in every) - sum(row.positive for row in rows)
    names = sorted({name for row in rows for name in row.signals or {}})
    projects, positive = len({row.repo for row in rows}), sum(row.positive for row in rows)
    print(f"{len(rows)} pull requests of {projects} projects, {positive} positive, {len(names)} signals")
    print(f"{missed} positives change no product code or no tests, by their paths")
    scores = left_out(rows, names)
    first = np.array([row.weight == 1.0 for row in rows])
    truth = np.array([row.positive for row in rows])
    print("each project scored by a fit on the others:")
    print("threshold   first file: precision recall   other files: precision recall")
    for threshold in (0.35, 0.4, 0.45, 0.5, 0.55, 0.6, 0.65):
        a = rates(scores[first], truth[first], threshold, missed)
        b = rates(scores[~first], truth[~first], threshold) if (~first).any() else (0.0, 0.0)
        print(f"{threshold:9.2f} {a[0]:22.3f} {a[1]:9.3f} {b[0]:25.3f} {b[1]:9.3f}")
    if options.write:
        said = (
            f"Fitted on {len(rows)} labelled pull requests of {len({r.repo for r in rows})} projects,"
            f" penalty {PENALTY}."
        )
        WEIGHTS.write_text(Model(names).fit(rows).source(said))
        print(f"wrote {WEIGHTS}")


if __name__ == "__main__":
    main()

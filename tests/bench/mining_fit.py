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
from mining_data import DECIDED, Labelled, labelled
from numpy.typing import NDArray
from scipy.optimize import minimize

Array = NDArray[np.float64]
QUESTIONS = ("fix", "matter", "tests")
PENALTY = 0.4
GIVEN = {
    "not:title-alone": -6.0,
    "issue:names-defect": 1.0,
    "issue:matter": 1.0,
    "issue:defect": 0.5,
}
"""Set by hand: the labels hold too few of the first to fit, and clones know no issues."""
OF_FIX = frozenset(
    ["title:fix", "title:defect", "title:type-fix", "text:defect", "text:regression", "text:closes",
     "text:changelog", "text:changelog-fix", "fix:remarks-defect", "fix:remarks-regression",
     "fix:in-place", "fix:takes-away", "test:remarks-defect", "test:remarks-regression",
     "issue:defect"]
)  # fmt: skip
OF_TESTS = frozenset(["test:new", "test:fresh", "test:acts-2", "test:calls-changed", "test:same-module"])
WEIGHTS = Path(__file__).parents[2] / "race" / "core" / "mining" / "weights.py"


def question_of(name: str) -> int:
    """Which question a signal helps to answer."""
    if name == "not:title-alone":
        return 1
    if name in OF_TESTS or name.startswith("not:test"):
        return 2
    if name in OF_FIX or name.startswith("not:"):
        return 0
    return 1


def speaks_against(name: str) -> bool:
    """Is this signal's weight 0 or less?"""
    return name.startswith("not:")


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


def left_out(rows: list[Labelled], names: list[str]) -> tuple[Array, Array]:
    """Scores of every row from a fit that has not seen its project, and each fit's weights."""
    scores = np.zeros(len(rows))
    weights = []
    for repo in sorted({row.repo for row in rows}):
        inside = [row for row in rows if row.repo != repo]
        mine = [index for index, row in enumerate(rows) if row.repo == repo]
        model = Model(names).fit(inside)
        weights.append(model.weights)
        scores[mine] = model.scores(model.matrix([rows[index] for index in mine]))
    return scores, np.array(weights)


def across(rows: list[Labelled], names: list[str]) -> Array:
    """Scores of the first file from a fit on the others, and of the others from a fit on the first."""
    scores = np.zeros(len(rows))
    for first in (True, False):
        inside = [row for row in rows if (row.file == 0) == first]
        mine = [index for index, row in enumerate(rows) if (row.file == 0) != first]
        if inside and mine:
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


def table(title: str, rows: list[Labelled], every: list[Labelled], scores: Array) -> None:
    """Precision and recall per label file, at several thresholds, and the mean log loss."""
    truth = np.array([row.positive for row in rows])
    files = sorted({row.file for row in every})
    print(title)
    print("threshold" + "".join(f"   file {file}: precision recall" for file in files))
    for threshold in (0.35, 0.4, 0.45, 0.5, 0.55, 0.6, 0.65):
        line = f"{threshold:9.2f}"
        for file in files:
            mine = np.array([row.file == file for row in rows])
            missed = sum(r.positive for r in every if r.file == file and r.signals is None)
            precision, recall = rates(scores[mine], truth[mine], threshold, missed)
            line += f"{precision:20.3f} {recall:6.3f} "
        print(line)
    sure = np.clip(np.where(truth, scores, 1 - scores), 1e-4, 1)
    each = (np.log(sure[np.array([row.file == file for row in rows])]).mean() for file in files)
    print("log loss " + " ".join(f"{-value:26.3f}" for value in each))


def stability(names: list[str], weights: Array, most: int = 12) -> None:
    """The weights that differ most between the fits."""
    spread = weights.std(axis=0)
    print(f"{len(weights)} fits; weights that differ most between them (mean, standard deviation):")
    for index in np.argsort(-spread, kind="stable")[:most]:
        print(f"    {names[index]:32s} {weights[:, index].mean():+6.2f} {spread[index]:6.2f}")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("labels", nargs="+", type=Path)
    parser.add_argument("--clones", type=Path, required=True)
    parser.add_argument("--without", action="append", default=[], metavar="OWNER/NAME")
    parser.add_argument("--write", action="store_true", help="write race/core/mining/weights.py")
    options = parser.parse_args()
    every = [row for row in labelled(options.labels, options.clones) if row.repo not in options.without]
    rows = [row for row in every if row.signals is not None]
    names = sorted({name for row in rows for name in row.signals or {}} | set(GIVEN))
    names = [name for name in names if name not in DECIDED]
    projects, positive = len({row.repo for row in rows}), sum(row.positive for row in rows)
    print(f"{len(rows)} pull requests of {projects} projects, {positive} positive, {len(names)} signals")
    for row in every:
        if row.positive and row.signals is None:
            print(f"positive, but turned down without weights: {row.repo}#{row.request.number}")
    scores, weights = left_out(rows, names)
    table("each project scored by a fit on the others:", rows, every, scores)
    if len(options.labels) > 1:
        title = "file 0 scored by a fit on the other files, these by a fit on file 0:"
        table(title, rows, every, across(rows, names))
    stability(names, weights)
    if options.write:
        said = (
            f"Fitted on {len(rows)} labelled pull requests of {len({r.repo for r in rows})} projects,"
            f" penalty {PENALTY}."
        )
        WEIGHTS.write_text(Model(names).fit(rows).source(said))
        print(f"wrote {WEIGHTS}")


if __name__ == "__main__":
    main()

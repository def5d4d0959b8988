"""Old tasks against new ones: published figures, hand-worked values, second implementations."""

from __future__ import annotations

import json
import math
import xml.etree.ElementTree as ET
from datetime import date

import numpy as np
import pytest
from scipy import stats

from race.cli import run
from race.core.contamination import EraTask, band_of, era_gap
from race.core.contamination.gap import bootstrap_gap, mantel_haenszel, power, published_gap
from race.core.contamination.own_dates import own_dates
from race.core.permutation import Cell

CUT = date(2026, 1, 1)


def task(number, merged, lines, outcome):
    return EraTask(f"t{number:03}", date.fromisoformat(merged), lines, outcome)


def tasks_of(cells):
    """cells: band's lines -> (old outcomes, new outcomes)."""
    made = []
    for lines, (old, new) in cells.items():
        for merged, outcomes in (("2025-05-05", old), ("2026-05-05", new)):
            made += [task(len(made) + i, merged, lines, value) for i, value in enumerate(outcomes)]
    return made


def test_published_figures_are_reproduced():
    """The seed's table: 7.8 points, chi-square 1.71, p = 0.19, as the page's "not significant"."""
    difference, chi_square, p = published_gap(
        {
            "<=10": (0.992, 13, 0.900, 19),
            "11-50": (0.871, 27, 0.849, 44),
            "51-200": (0.829, 21, 0.682, 44),
            ">200": (0.600, 7, 0.559, 13),
        }
    )
    assert round(100 * difference, 1) == 7.8
    assert round(chi_square, 2) == 1.71
    assert round(p, 2) == 0.19


def test_bands_are_split_where_they_should():
    """<=10, 11-50, 51-200, >200 changed lines."""
    assert [band_of(n) for n in (0, 10, 11, 50, 51, 200, 201)] == [
        "<=10", "<=10", "11-50", "11-50", "51-200", "51-200", ">200",
    ]  # fmt: skip


def test_the_cut_belongs_to_the_new_era():
    """A task merged on the day of the cut is new; one merged the day before is old."""
    gap = era_gap([task(1, "2025-12-31", 5, 1.0), task(2, "2026-01-01", 5, 0.0)], CUT, seed=1)
    assert (gap.bands[0].old.n, gap.bands[0].new.n) == (1, 1)


def test_stratified_difference_by_hand():
    """Bands weigh n1*n2/(n1+n2); a band with one era only is shown and not compared."""
    gap = era_gap(
        tasks_of({5: ([1, 1], [1, 0]), 20: ([1, 0, 0.5, 0.5], [0, 0, 1, 1]), 99: ([1], [])}),
        CUT,
        seed=1,
    )
    # band 1: weight 2*2/4 = 1, difference 1 - 0.5 = 0.5; band 2: weight 4*4/8 = 2, 0.5 - 0.5 = 0
    assert gap.difference == pytest.approx(0.5 / 3)
    assert (gap.old_tasks, gap.new_tasks, gap.compared) == (7, 6, 12)
    assert gap.bands[2].old.n == 1
    assert gap.bands[2].new.rate is None


def test_mantel_haenszel_of_single_attempts_is_the_textbook_formula():
    """For outcomes of 0 and 1: (sum a - E)^2 / sum V over 2x2 tables, without correction."""
    rng = np.random.default_rng(2)
    cells, top, variance = [], 0.0, 0.0
    for n1, n2, p in ((13, 19, 0.9), (27, 44, 0.8), (7, 13, 0.5)):
        old, new = (rng.random(n1) < p).astype(float), (rng.random(n2) < p - 0.2).astype(float)
        cells.append(Cell(old, new))
        n, m1 = n1 + n2, old.sum() + new.sum()
        top += old.sum() - n1 * m1 / n
        variance += n1 * n2 * m1 * (n - m1) / (n**2 * (n - 1))
    chi_square, p_value = mantel_haenszel(cells)
    assert chi_square == pytest.approx(top**2 / variance)
    assert p_value == pytest.approx(stats.chi2.sf(top**2 / variance, 1))


def test_power_agrees_with_a_simulation_of_it():
    """The smallest detectable difference is found in about 80% of simulated studies."""
    rng = np.random.default_rng(6)
    base = [Cell((rng.random(40) < 0.5).astype(float), (rng.random(60) < 0.5).astype(float))]
    detectable, needed = power(base, 0.1)
    spread = np.concatenate([base[0].old, base[0].new]).var(ddof=1)
    assert detectable == pytest.approx(2.8016 * math.sqrt(spread * (1 / 40 + 1 / 60)), rel=1e-3)
    found = 0
    for _ in range(600):
        low = 0.5 - detectable / 2
        old = (rng.random(40) < low + detectable).astype(float)
        new = (rng.random(60) < low).astype(float)
        found += mantel_haenszel([Cell(old, new)])[1] <= 0.05
    assert 0.73 < found / 600 < 0.89
    # two proportions around 0.5 that differ by 0.1: 2 * 0.25 * (2.8016 / 0.1)^2 = 392 per era
    assert needed == pytest.approx(392 * spread / 0.25, abs=1.5)


def test_a_study_that_cannot_compare_says_so():
    """Without a band that has both eras there is no difference, no p-value, and a sentence."""
    gap = era_gap(tasks_of({5: ([1, 0], []), 99: ([], [1])}), CUT, seed=1)
    assert (gap.difference, gap.p_permutation, gap.p_cmh, gap.minimum_detectable) == (None,) * 4
    assert gap.sentence == (
        "No size band has tasks from both sides of 2026-01-01 (2 older, 1 newer), so the eras cannot be "
        "compared."
    )


def test_outcomes_that_do_not_vary_give_no_power():
    """All resolved: a difference of 0, p = 1, and no claim about what could have been seen."""
    gap = era_gap(tasks_of({5: ([1.0] * 8, [1.0] * 9)}), CUT, seed=1)
    assert (gap.difference, gap.p_permutation, gap.low) == (0.0, 1.0, None)
    assert (gap.minimum_detectable, gap.tasks_needed_per_era, gap.p_cmh) == (None, None, None)
    assert "outcomes do not vary" in gap.sentence


def test_the_sentence_follows_the_numbers():
    """Significance, direction, missing tasks and small cells are words made from the numbers."""
    clear = era_gap(tasks_of({5: ([1.0] * 20, [0.0] * 15 + [1.0] * 5)}), CUT, seed=1)
    assert clear.p_permutation < 0.001
    assert "Older tasks score higher in 1 of 1 size band." in clear.sentence
    assert "75.0 points higher" in clear.sentence
    assert "p < 0.001): significant; memorisation would look like this" in clear.sentence
    other = era_gap(tasks_of({5: ([0.0] * 15 + [1.0] * 5, [1.0] * 20)}), CUT, seed=1)
    assert "Newer tasks score higher" in other.sentence
    assert "memorisation does not explain" in other.sentence
    vague = era_gap(tasks_of({5: ([1, 1, 0, 1], [1, 0, 0, 1])}), CUT, seed=1, minimum_count=5)
    more = vague.tasks_needed_per_era - 4
    assert "not significant at this sample size" in vague.sentence
    assert f"at least {more} more tasks per era needed" in vague.sentence
    assert "2 of 2 rates rest on fewer than 5 tasks." in vague.sentence


def test_the_interval_is_seeded_and_holds_the_difference():
    """The same seed gives the same interval; it lies around the observed difference."""
    rng = np.random.default_rng(1)
    cells = [Cell(rng.integers(0, 6, 20) / 5, rng.integers(0, 6, 30) / 5)]
    low, high = bootstrap_gap(cells, seed=3)
    assert (low, high) == bootstrap_gap(cells, seed=3)
    difference = cells[0].old.mean() - cells[0].new.mean()
    assert low < difference < high
    error = math.sqrt(cells[0].old.var(ddof=1) / 20 + cells[0].new.var(ddof=1) / 30)
    assert (high - low) == pytest.approx(2 * 2.0 * error, rel=0.12)


def least_squares(outcomes, merged, cutoffs):
    """The effect by plain regression on task, model and seen-before-cut-off columns."""
    tasks, models = outcomes.shape
    rows, answers = [], []
    for t in range(tasks):
        for m in range(models):
            rows.append(
                [float(merged[t] < cutoffs[m])]
                + [float(i == t) for i in range(tasks)]
                + [float(j == m) for j in range(1, models)]
            )
            answers.append(outcomes[t, m])
    return np.linalg.lstsq(np.array(rows), np.array(answers), rcond=None)[0][0]


def test_memorisation_is_told_from_drift():
    """A planted effect before each model's own date is found; a drift is not taken for it."""
    rng = np.random.default_rng(12)
    merged = rng.integers(0, 1000, 160)
    cutoffs = [300, 500, 700]
    drift = 0.8 - merged / 2500
    seen = merged[:, None] < np.array(cutoffs)[None, :]
    noise = rng.normal(0, 0.15, (160, 3))
    bands = [("<=10", "11-50")[i % 2] for i in range(160)]
    planted = own_dates(drift[:, None] + 0.3 * seen + noise, merged, cutoffs, bands, seed=1, draws=1000)
    assert planted.estimate == pytest.approx(0.3, abs=0.08)
    assert planted.low < 0.3 < planted.high
    assert planted.p < 0.01
    assert planted.estimate == pytest.approx(
        least_squares(drift[:, None] + 0.3 * seen + noise, merged, cutoffs)
    )
    only_drift = own_dates(drift[:, None] + noise, merged, cutoffs, bands, seed=1, draws=1000)
    assert only_drift.p > 0.05
    assert "not significant" in only_drift.sentence


def test_models_without_different_dates_cannot_be_compared():
    """One model, or one cut-off, or no task between the cut-offs: no estimate, and the reason."""
    outcomes = np.zeros((4, 2))
    assert (
        "Fewer than two models" in own_dates(outcomes, [1, 2, 3, 4], [9, 9], ["a"] * 4, seed=1).sentence
    )
    far = own_dates(outcomes, [1, 2, 3, 4], [9, 20], ["a"] * 4, seed=1)
    assert far.estimate is None
    assert "No task was merged between" in far.sentence


@pytest.fixture
def files(tmp_path):
    """A task list with dates and sizes, and runs of two models."""
    tasks, runs = tmp_path / "tasks.jsonl", tmp_path / "runs.jsonl"
    with tasks.open("w") as t, runs.open("w") as r:
        for i in range(40):
            name = f"t{i:02}"
            when = f"202{4 + i % 3}-06-01T00:00:00Z"
            row = {"instance_id": name, "merged_at": when, "fix_lines": (5, 30, 100, 500)[i % 4]}
            if i == 39:
                del row["merged_at"]
            t.write(json.dumps(row) + "\n")
            for m in ("one", "two"):
                for k in range(2):
                    r.write(json.dumps({
                        "instance_id": name, "agent": "mini", "model": m, "attempt": k,
                        "resolved": (i * 7 + k * 3 + len(m)) % 5 < 3, "input_tokens": 5,
                        "output_tokens": 5, "ended": "submitted",
                    }) + "\n")  # fmt: skip
    return ["contamination", "--tasks", str(tasks), "--runs", str(runs)]


def test_the_command_answers_as_documented(files, capsys):
    """All documented fields are there, per model too, and what was left out is counted."""
    assert run([*files, "--json", "--cutoff", "one=2025-01-01", "--cutoff", "two=2026-01-01"]) == 0
    answer = json.loads(capsys.readouterr().out)
    assert answer["cut"] == "2026-01-01"
    assert [band["band"] for band in answer["bands"]] == ["<=10", "11-50", "51-200", ">200"]
    assert set(answer["bands"][0]["old"]) == {"n", "rate", "low", "high"}
    fields = {
        "difference", "low", "high", "p_permutation", "p_cmh", "minimum_detectable",
        "tasks_needed_per_era", "sentence",
    }  # fmt: skip
    assert fields <= set(answer)
    assert fields <= set(answer["models"]["one"])
    assert (answer["models"]["one"]["cut"], answer["models"]["two"]["cut"]) == (
        "2025-01-01",
        "2026-01-01",
    )
    assert answer["left_out"] == {"without_date": 1, "without_size": 0, "without_runs": 0}
    assert answer["own_dates"]["models"] == 2
    assert sum(band["old"]["n"] + band["new"]["n"] for band in answer["bands"]) == 39


def test_the_figure_is_plain_svg_for_light_and_dark(files, tmp_path, capsys):
    """The SVG parses, has a title, a dark variant and both eras with n for each band."""
    target = tmp_path / "eras.svg"
    assert run([*files, "--svg", str(target)]) == 0
    text = target.read_text()
    root = ET.fromstring(text)
    assert root.tag.endswith("svg")
    assert root.find("{http://www.w3.org/2000/svg}title").text
    assert "prefers-color-scheme: dark" in text
    assert text.count("n=") == 8
    assert "href" not in text
    assert run([*files, "--models-svg", str(target)]) == 2
    capsys.readouterr()
    assert run([*files, "--cutoff", "one=2025-01-01", "--models-svg", str(target)]) == 0
    root = ET.fromstring(target.read_text())
    assert "cut 2025-01-01" in "".join(root.itertext())
    assert capsys.readouterr().out.count("n=") == 8


@pytest.mark.parametrize(
    ("arguments", "what"),
    [
        (["--cut", "soon"], "--cut: 'soon' is no ISO 8601 date"),
        (["--cutoff", "one"], "--cutoff: expected MODEL=DATE, found 'one'"),
        (["--cutoff", "none=2025-01-01"], "--cutoff: no run of the model 'none'"),
    ],
)
def test_bad_dates_and_models_are_usage_errors(files, capsys, arguments, what):
    """One line, exit 2."""
    assert run([*files, *arguments]) == 2
    assert what in capsys.readouterr().err

from __future__ import annotations

import json
import math

import pytest

from softmrc.errors import UsageError
from softmrc.paper.check import Verdict, at_least, at_most, between, equal, shown
from softmrc.paper.report import Entry, Report
from softmrc.paper.store import prepare, store
from softmrc.paper.targets import TARGETS, chosen


@pytest.mark.parametrize(
    ("check", "met", "words"),
    [
        (at_least("a", 0.98, 0.98), True, ">= 0.98"),
        (at_least("a", 0.9799, 0.98), False, ">= 0.98"),
        (at_most("a", 3, 3), True, "<= 3"),
        (at_most("a", math.nan, 3), False, "<= 3"),
        (between("a", 0.3, 0.3, 0.65), True, "0.3 to 0.65"),
        (between("a", 0.66, 0.3, 0.65), False, "0.3 to 0.65"),
        (equal("a", 512, 512), True, "= 512"),
        (equal("a", 511, 512), False, "= 512"),
    ],
)
def test_a_check_holds_or_not(check, met, words):
    assert check.met is met
    assert check.range == words
    assert check.as_dict()["met"] is met


def test_a_number_that_is_only_shown_judges_nothing():
    assert Verdict([at_least("a", 1, 0), shown("b", math.nan)]).met
    assert shown("b", 3).as_dict()["met"] is None
    # And nothing judged is nothing met.
    assert not Verdict([shown("b", 1)]).met
    assert not Verdict().met


def test_a_missing_value_is_null_in_json():
    assert json.loads(json.dumps(at_least("a", math.nan, 1).as_dict()))["ours"] is None
    assert at_least("a", math.inf, 1).as_dict()["ours"] is None


def _report(*entries: Entry) -> Report:
    return Report("quick", 3, list(entries), 1.0)


def test_what_is_missed_is_named_with_its_value():
    checks = [at_least("victim", 0.91, 0.98, "0.997"), at_least("busy", 1, 0.9)]
    entry = Entry(TARGETS[1], Verdict(checks, "91 %", "why"))
    assert entry.met is False
    assert entry.note.startswith("missed: victim is 0.91, not >= 0.98; why; suspected: ")
    found = _report(entry).as_dict()["results"][0]
    assert {"id", "paper", "ours", "criterion", "met", "note"} <= found.keys()
    assert found["id"] == "R2"
    assert found["met"] is False


def test_the_verdict_of_a_report():
    good = Verdict([at_least("a", 1, 0)])
    bad = Verdict([at_least("a", -1, 0)])
    must, may = TARGETS[1], TARGETS[3]
    assert must.must
    assert not may.must
    assert _report(Entry(must, good), Entry(may, bad)).ok
    assert not _report(Entry(must, bad)).ok
    assert not _report(Entry(must, None, "interrupted")).ok
    failed = Entry(may, None, "x failed: boom", failed=True)
    assert failed.met is False
    assert "boom" in failed.note


def test_text_and_page_have_every_number():
    verdict = Verdict([at_least("victim of solo", 0.99, 0.98, "0.997")], "99 %")
    report = _report(Entry(TARGETS[1], verdict), Entry(TARGETS[24], None, TARGETS[24].skip))
    text, page = report.text(), report.markdown()
    assert "1 met, 0 not met, 1 not run" in text
    assert "99 %" in text
    assert "| victim of solo | 0.997 | 0.99 | >= 0.98 | met |" in page
    assert TARGETS[24].skip in page


def test_targets_are_r1_to_r25():
    assert [t.id for t in TARGETS] == [f"R{n}" for n in range(1, 26)]
    must = {1, 2, 3, 5, 6, 7, 8, 9, 10, 12, 16, 21, 23}
    assert {t.id for t in TARGETS if t.must} == {f"R{n}" for n in must}


def test_choosing():
    assert [t.id for t in chosen("r3, R2")] == ["R2", "R3"]
    assert len(chosen("")) == 25
    with pytest.raises(UsageError, match="R99"):
        chosen("R1,R99")


def test_storing(tmp_path):
    folder = prepare(str(tmp_path / "a" / "b"))
    files, _ = store(_report(Entry(TARGETS[0], Verdict([equal("n", 1, 1)], "1"))), folder)
    assert [f.name for f in files] == ["paper.json", "paper.md", "curves.json"]
    assert json.loads(files[0].read_text())["results"][0]["met"] is True


def test_a_folder_that_cannot_be_written_is_refused_before_the_run(tmp_path):
    (tmp_path / "file").write_text("")
    with pytest.raises(UsageError, match="--out"):
        prepare(str(tmp_path / "file"))
    with pytest.raises(UsageError, match="--out"):
        prepare("/proc/nothing")

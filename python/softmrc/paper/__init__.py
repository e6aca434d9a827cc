"""The published results of MRC beside ours: scenarios, criteria, figures (`softmrc paper`)."""

from __future__ import annotations

from softmrc.paper.report import Entry, Report
from softmrc.paper.run import run_paper
from softmrc.paper.targets import TARGETS, Target, chosen

__all__ = ["TARGETS", "Entry", "Report", "Target", "chosen", "run_paper"]

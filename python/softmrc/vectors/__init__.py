"""Checks a codec against a vector file: encode, decode, derived facts, and what a receiver must refuse.

The files that ship with the package are data for other implementers too: `shipped("vectors.json")` and
`shipped("malformed.json")`.
"""

from __future__ import annotations

from softmrc.vectors.check import check_file, check_vectors, shipped
from softmrc.vectors.report import Difference, Report, Result, VectorFileError

__all__ = ["Difference", "Report", "Result", "VectorFileError", "check_file", "check_vectors", "shipped"]

"""Unified diffs without loss: one door to their values, parser, printer, maker and application."""

from patchkit.diff.apply import (
    Applied,
    HunkRange,
    apply_exact,
    apply_patch,
    find_lines,
    fit_line_endings,
    verify_blob_ids,
)
from patchkit.diff.format import format_file, format_files, format_hunk, format_patch
from patchkit.diff.lines import Change, diff_lines, match_lines
from patchkit.diff.make import diff_contents, diff_files
from patchkit.diff.model import (
    FileChange,
    FilePatch,
    Hunk,
    Line,
    Note,
    Patch,
    blob_id,
    reverse_file_patch,
    reverse_hunk,
    split_lines,
)
from patchkit.diff.parse import parse_mbox, parse_patch

__all__ = [
    "Applied",
    "Change",
    "FileChange",
    "FilePatch",
    "Hunk",
    "HunkRange",
    "Line",
    "Note",
    "Patch",
    "apply_exact",
    "apply_patch",
    "blob_id",
    "diff_contents",
    "diff_files",
    "diff_lines",
    "find_lines",
    "fit_line_endings",
    "format_file",
    "format_files",
    "format_hunk",
    "format_patch",
    "match_lines",
    "parse_mbox",
    "parse_patch",
    "reverse_file_patch",
    "reverse_hunk",
    "split_lines",
    "verify_blob_ids",
]

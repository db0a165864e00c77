"""Fingerprints of hunks: whether the text that a person decided on is still that text."""

from __future__ import annotations

import hashlib

from patchkit.diff.model import Hunk

FINGERPRINT_FORMAT = 1


def fingerprint_hunk(hunk: Hunk) -> str:
    """Return the fingerprint of an authored hunk: its lines, without their numbers."""
    return fingerprint_text(b"".join(line.kind.encode() + line.text for line in hunk.lines))


def fingerprint_text(content: bytes) -> str:
    """Return the fingerprint of some bytes."""
    digest = hashlib.blake2b(content, digest_size=16).hexdigest()
    return f"{FINGERPRINT_FORMAT}:{digest}"

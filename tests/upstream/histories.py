"""Git repositories of upstream's, made for a test with fixed names and times."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Mapping
from pathlib import Path


class Upstream:
    """A repository on branch `main`; each commit is a day after the one before, from 2026-01-01."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._day = 1
        path.mkdir()
        self.git("init", "-q", "-b", "main")

    def git(self, *args: str) -> str:
        """Return what git prints, with no configuration of anybody's."""
        kept = {key: value for key, value in os.environ.items() if not key.startswith("GIT_")}
        who = {"NAME": "Somebody", "EMAIL": "somebody@example.org"}
        fixed = {f"GIT_{r}_{k}": v for r in ("AUTHOR", "COMMITTER") for k, v in who.items()}
        time = f"2026-01-{self._day:02}T12:00:00+0000"
        self._day += 1
        env = {
            **kept, **fixed, "GIT_AUTHOR_DATE": time, "GIT_COMMITTER_DATE": time,
            "GIT_CONFIG_GLOBAL": os.devnull, "GIT_CONFIG_NOSYSTEM": "1",
        }  # fmt: skip
        done = subprocess.run(
            ["git", *args], cwd=self.path, env=env, check=True, capture_output=True, text=True
        )
        return done.stdout.strip()

    def commit(
        self, subject: str, files: Mapping[str, str | bytes | None], *, tag: str | None = None
    ) -> str:
        """Return the id of a commit that sets files, or removes those that are None."""
        for name, content in files.items():
            path = self.path / name
            path.parent.mkdir(parents=True, exist_ok=True)
            if content is None:
                path.unlink()
            else:
                path.write_bytes(content.encode() if isinstance(content, str) else content)
        day = self._day
        self.git("add", "-A")
        self._day = day
        self.git("commit", "-q", "--allow-empty", "-m", subject)
        if tag is not None:
            self.git("tag", tag)
            self._day -= 1
        name = self.git("rev-parse", "HEAD")
        self._day -= 1
        return name

"""Commits as mails: the same bytes whatever a user's configuration of git says."""

from __future__ import annotations

from pathlib import Path

import git
import pytest

from patchkit.upstream.gitrepo import read_commits

HOSTILE = {
    "diff.noprefix": "true",
    "diff.mnemonicPrefix": "true",
    "diff.renames": "copies",
    "diff.context": "9",
    "diff.interHunkContext": "9",
    "diff.algorithm": "patience",
    "diff.external": "true",
    "diff.relative": "true",
    "color.ui": "always",
    "core.abbrev": "5",
    "format.attach": "x",
    "format.signOff": "true",
    "format.signature": "me",
    "format.thread": "deep",
    "format.numbered": "true",
    "format.subjectPrefix": "MINE",
    "format.from": "Somebody <s@example.org>",
    "format.to": "list@example.org",
    "format.cc": "other@example.org",
    "format.headers": "X-Mine: yes\n",
    "format.coverLetter": "true",
    "format.encodeEmailHeaders": "true",
    "format.useAutoBase": "whenAble",
    "format.notes": "true",
    "format.outputDirectory": "elsewhere",
}


@pytest.fixture
def repository(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> git.Repo:
    for who in ("AUTHOR", "COMMITTER"):
        monkeypatch.setenv(f"GIT_{who}_NAME", "Jö")
        monkeypatch.setenv(f"GIT_{who}_EMAIL", "a@example.org")
        monkeypatch.setenv(f"GIT_{who}_DATE", "2026-11-30T10:00:00+00:00")
    monkeypatch.setenv("GIT_CONFIG_GLOBAL", "/dev/null")
    repo = git.Repo.init(tmp_path, initial_branch="main")
    (tmp_path / "a.py").write_text("".join(f"{n}\n" for n in range(40)))
    repo.git.add("--all")
    repo.git.commit("-m", "base")
    (tmp_path / "a.py").rename(tmp_path / "b.py")
    repo.git.add("--all")
    repo.git.commit("-m", "[Core] Raise ä\n\nWhy.")
    (tmp_path / "b.py").write_text("".join(f"{n if n not in (9, 20) else 0}\n" for n in range(40)))
    repo.git.commit("-am", "two")
    repo.git.notes("add", "-m", "a note")
    return repo


def test_configuration_changes_no_byte(repository: git.Repo) -> None:
    spec = f"{repository.working_dir}@main~2..main"
    before = read_commits(spec)
    for key, value in HOSTILE.items():
        repository.git.config(key, value)
    assert read_commits(spec) == before


def test_a_mail_has_full_ids_and_no_rename(repository: git.Repo) -> None:
    first, second = read_commits(f"{repository.working_dir}@main~2..")
    assert [commit.object_id for commit in (first, second)] == [
        repository.commit("main~1").hexsha, repository.commit("main").hexsha,
    ]  # fmt: skip
    assert first.mail.startswith(
        b"From 0000000000000000000000000000000000000000 Mon Sep 17 00:00:00 2001\n"
        b"From: J\xc3\xb6 <a@example.org>\n"
        b"Date: Mon, 30 Nov 2026 10:00:00 +0000\n"
        b"Subject: [PATCH] [Core] Raise \xc3\xa4\n"
    )
    assert b"\ndeleted file mode 100644\nindex " in first.mail
    assert b"\n--- a/b.py\n+++ b/b.py\n" in second.mail
    assert b"rename" not in first.mail
    assert len(second.mail.partition(b"\nindex ")[2].partition(b"..")[0]) == 40

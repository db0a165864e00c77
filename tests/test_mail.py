"""Patches out of mails and mailboxes: what is message never becomes a hunk."""

from __future__ import annotations

import base64
import quopri

import pytest

from patchkit.diff import parse_mbox, parse_patch
from patchkit.errors import PatchkitError

FROM = b"From 0123456789abcdef0123456789abcdef01234567 Mon Sep 17 00:00:00 2001\n"
HEAD = b"From: A Person <a@example.org>\nDate: Sat, 31 Jan 2026 10:00:00 +0100\n"
DIFF = b"""\
diff --git a/vllm/x.py b/vllm/x.py
index 1111111..2222222 100644
--- a/vllm/x.py
+++ b/vllm/x.py
@@ -1,3 +1,3 @@
 a = "\xc3\xa9"
-b = 1
+b = 2
 c = 3
"""
STAT = b"---\n vllm/x.py | 2 +-\n 1 file changed, 1 insertion(+), 1 deletion(-)\n\n"
SIGNATURE = b"-- \n2.39.5\n\n"
HUNK = b'a = "\xc3\xa9"\nb = 2\nc = 3\n'


def mail(number: int, message: bytes = b"Why.\n", diff: bytes = DIFF, stat: bytes = STAT) -> bytes:
    subject = b"Subject: [PATCH %d/3] change b\n\n" % number
    return FROM + HEAD + subject + message + stat + diff + SIGNATURE


def other(name: bytes) -> bytes:
    return DIFF.replace(b"x.py", name)


def test_a_mail_is_one_patch_with_its_text_before_and_after() -> None:
    data = mail(1)
    patch = parse_patch(data, "p.mbox")

    assert patch.name == "p.mbox"
    assert patch.preamble + DIFF + patch.trailer == data
    assert patch.trailer == SIGNATURE
    assert [hunk.new for file in patch.files for hunk in file.hunks] == [HUNK]
    assert patch.notes == ()


def test_a_mailbox_is_one_patch_a_mail_with_lines_of_the_whole_file() -> None:
    cover = FROM + HEAD + b"Subject: [PATCH 0/3] three\n\nAll of it.\n\n" + STAT[4:] + SIGNATURE
    data = cover + mail(1) + mail(2, diff=other(b"y.py")) + mail(3, diff=other(b"z.py"))
    patches = parse_mbox(data, "p.mbox")

    assert [patch.name for patch in patches] == ["p.mbox#1", "p.mbox#2", "p.mbox#3"]
    assert [file.path for p in patches for file in p.files] == [
        "vllm/x.py",
        "vllm/y.py",
        "vllm/z.py",
    ]
    lines = data.split(b"\n")
    for patch in patches:
        assert lines[patch.files[0].lineno - 1].startswith(b"diff --git ")
        assert lines[patch.files[0].hunks[0].lineno - 1] == b"@@ -1,3 +1,3 @@"
        assert patch.trailer == SIGNATURE
    assert [(note.lineno, note.text) for note in patches[0].notes] == [
        (1, "text without a patch passed over")
    ]
    assert patches[1].notes == patches[2].notes == ()


def test_a_mailbox_is_no_single_patch() -> None:
    with pytest.raises(PatchkitError) as caught:
        parse_patch(mail(1) + mail(2), "p.mbox")

    assert str(caught.value) == (
        "p.mbox:33: file holds 2 mails with a patch each, expected one patch"
    )
    assert caught.value.hint == "read it as a mailbox, which gives one patch a mail"


def test_damage_in_a_later_mail_is_placed_in_the_whole_file() -> None:
    with pytest.raises(PatchkitError) as caught:
        parse_mbox(mail(1) + mail(2, diff=DIFF.replace(b"-1,3", b"-1,4")), "p.mbox")

    assert str(caught.value) == "p.mbox:37: hunk has 3 old lines, header says 4"


def test_a_diff_in_the_message_is_message() -> None:
    message = b"It used to be:\n\n" + other(b"old.py") + b"\n@@ -1 +1 @@\n-q\n+r\n\nNo more.\n"
    patch = parse_patch(mail(1, message), "p.mbox")

    assert [file.path for file in patch.files] == ["vllm/x.py"]
    assert patch.preamble.endswith(message + STAT)


def test_lists_rules_and_separators_in_the_message_are_message() -> None:
    message = b"- one\n- two\n\n+ three\n--- four\n\n---\n- five\n"
    patch = parse_patch(mail(1, message), "p.mbox")

    assert [hunk.new for file in patch.files for hunk in file.hunks] == [HUNK]
    assert patch.preamble.endswith(message + STAT)


def test_text_after_the_signature_is_no_hunk() -> None:
    patch = parse_patch(mail(1) + b"- an archive's footer\n+ more of it\n", "p.mbox")

    assert patch.trailer == SIGNATURE + b"- an archive's footer\n+ more of it\n"
    assert [hunk.new for file in patch.files for hunk in file.hunks] == [HUNK]


def test_a_line_that_starts_with_from_in_a_message_is_no_new_mail() -> None:
    message = b"From here on it is simple.\n\nFrom x Mon Sep 17 00:00:00 2001 we know.\n"

    assert parse_patch(mail(1, message), "p.mbox").preamble.endswith(message + STAT)


def test_a_signature_without_its_blank_is_known_by_its_version() -> None:
    patch = parse_patch(DIFF + b"--\n2.39.5\n", "p.mbox")

    assert patch.trailer == b"--\n2.39.5\n"


@pytest.mark.parametrize("encoding", ["quoted-printable", "base64"])
def test_an_encoded_body_is_decoded_and_noted(encoding: str) -> None:
    body = b"Why = because.\n" + STAT + DIFF + SIGNATURE
    coded = (
        quopri.encodestring(body) if encoding == "quoted-printable" else base64.encodebytes(body)
    )
    head = b"Subject: [PATCH] change b\nContent-Transfer-Encoding: %s\n\n" % encoding.encode()
    patch = parse_patch(FROM + HEAD + head + coded, "p.mbox")

    assert [hunk.new for file in patch.files for hunk in file.hunks] == [HUNK]
    assert patch.preamble.endswith(b"Why = because.\n" + STAT)
    assert patch.trailer == SIGNATURE
    assert [(note.lineno, note.text) for note in patch.notes] == [
        (1, f"mail body decoded from {encoding}; lines count in the decoded text")
    ]


def test_an_encoded_body_in_crlf_loses_its_carriage_returns() -> None:
    coded = base64.encodebytes((DIFF + SIGNATURE).replace(b"\n", b"\r\n"))
    head = b"Subject: x\nContent-Transfer-Encoding: base64\n\n"
    patch = parse_patch(HEAD + head + coded, "p.mbox")

    assert patch.files[0].hunks[0].new == HUNK


def multipart(*bodies: bytes) -> bytes:
    head = (
        HEAD + b'Subject: x\nMIME-Version: 1.0\nContent-Type: multipart/mixed; boundary="=-b"\n\n'
    )
    parts = b"".join(b"--=-b\nContent-Type: text/plain\n\n" + body + b"\n" for body in bodies)
    return head + parts + b"--=-b--\n"


def test_an_attached_patch_is_taken_out_of_its_mail() -> None:
    patch = parse_patch(multipart(b"Please see attached.\n", DIFF), "p.mbox")

    assert [hunk.new for file in patch.files for hunk in file.hunks] == [HUNK]
    assert [note.text for note in patch.notes] == [
        "mail body decoded from a part of a multipart mail; lines count in the decoded text"
    ]


def test_two_attached_patches_are_refused() -> None:
    with pytest.raises(PatchkitError) as caught:
        parse_patch(multipart(DIFF, DIFF), "p.mbox")

    assert str(caught.value) == "p.mbox:1: mail has 2 parts that hold a patch, expected one"

from __future__ import annotations

from patchkit.adopting.mailing import format_mail
from patchkit.diff import parse_patch
from tests.moves import diff

PATCH = diff("a\n", "b\n")
DATE = "Date: Mon, 30 Nov 2026 10:00:00 +0100\n"


def mail(header: str) -> str:
    return format_mail(parse_patch(header.encode() + PATCH, "p"), 2, 3, "stem").decode()


def test_a_date_is_that_of_the_mail_and_not_of_its_message() -> None:
    text = mail(f"Description: one\nLast-Update: 2026-01-31\n{DATE}Author: A <a@example.org>\n\n")
    assert text.count("Date: ") == 1
    assert text.split("\n\n")[1] == "Last-Update: 2026-01-31\n---"
    assert f"From: A <a@example.org>\n{DATE}Subject: [PATCH 2/3] one\n" in text


def test_what_is_not_known_has_a_placeholder() -> None:
    assert (
        "\nFrom: unknown <author@unknown.invalid>\nDate: Thu, 01 Jan 1970 00:00:00 +0000\n"
        "Subject: [PATCH 2/3] stem\n"
    ) in mail("Date: some day\nReason: r\n\n")
    assert "\nFrom: Us <author@unknown.invalid>\n" in mail("Description: d\nAuthor: Us\n\n")
    assert "\nFrom: us@example.org\n" in mail("Description: d\nAuthor: us@example.org\n\n")


def test_what_git_takes_for_the_end_of_a_message_is_set_off() -> None:
    text = mail("Description: one\n ---\n Index: x\n diff -u\n plain\n\n--- a\n\n")
    message = text.partition("\n\n")[2].partition("\n---\n")[0]
    assert message == " ---\n Index: x\n diff -u\nplain\n\n --- a"

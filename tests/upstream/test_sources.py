"""Trees that are on this machine: folders, wheels, sdists, git repositories."""

import hashlib
import os

import git
import pytest

from patchkit.errors import PatchkitError
from patchkit.upstream import open_tree
from patchkit.upstream.members import is_text, parse_version
from patchkit.upstream.packed import Origin, PackedFiles
from patchkit.upstream.pins import Pins, Release

CHECKOUT = {
    "pyproject.toml": b"[project]\n",
    "csrc/cache.cu": b"int block_size;\n",
    "docs/logo.png": b"\x89PNG",
    "tests/test_x.py": b"x = 1\n",
    "vllm/__init__.py": b"",
    "vllm/_version.py": b"__version__ = version = '0.28.0+cu129'\n",
    "vllm/config/cache.py": b"block_size = 16\r\n",
    "vllm/run.sh": b"#!/bin/sh\n",
}
TEXTS = {path: content for path, content in CHECKOUT.items() if path != "docs/logo.png"}


def lay(folder, files):
    for path, content in files.items():
        target = folder / path
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_bytes(content)
        if path.endswith(".sh"):
            target.chmod(0o755)
    return folder


def opened(spec, cache):
    return open_tree(str(spec), pins=Pins(), cache=cache)


def test_checkout_is_read_whole(tmp_path, cache):
    folder = lay(tmp_path / "checkout", CHECKOUT)
    lay(folder, {".git/config": b"", "vllm/__pycache__/x.pyc": b"", "vllm/y.pyc": b""})
    lay(folder, {".venv/pyvenv.cfg": b"", ".venv/lib/z.py": b""})
    tree = opened(folder, cache)
    assert dict(tree.files) == TEXTS
    assert tree.files.left_out == {"docs/logo.png"}
    assert (tree.name, tree.version, tree.partial) == (str(folder), "0.28.0+cu129", False)
    assert dict(tree.modes) == {"vllm/run.sh": 0o100755}
    assert tree.files.search(b"block_size") == ["csrc/cache.cu", "vllm/config/cache.py"]


def test_of_site_packages_only_the_package_is_read(tmp_path, cache):
    package = {path: content for path, content in TEXTS.items() if path.startswith("vllm/")}
    folder = lay(tmp_path / "site-packages", {**package, "other/x.py": b"", "six.py": b""})
    assert dict(opened(folder, cache).files) == package
    assert dict(opened(folder / "vllm", cache).files) == package


def test_links_and_pipes_are_not_followed(tmp_path, cache):
    folder = lay(tmp_path / "checkout", CHECKOUT)
    secret = lay(tmp_path, {"secret.py": b"secret", "outside/a.py": b"secret"})
    (folder / "vllm" / "link.py").symlink_to(secret / "secret.py")
    (folder / "vllm" / "inside.py").symlink_to("__init__.py")
    (folder / "vllm" / "outside").symlink_to(secret / "outside")
    (folder / "vllm" / "loop").symlink_to(".")
    os.mkfifo(folder / "vllm" / "pipe.py")
    assert dict(opened(folder, cache).files) == TEXTS


def test_folder_without_the_package_is_refused(tmp_path, cache):
    with pytest.raises(PatchkitError) as caught:
        opened(tmp_path, cache)
    assert str(caught.value) == (
        f"{tmp_path}: holds no package vllm, "
        "expected site-packages, a checkout, or the folder vllm itself"
    )


def test_file_that_vanishes_is_an_error(tmp_path, cache):
    tree = opened(lay(tmp_path / "checkout", CHECKOUT), cache)
    path = tmp_path / "checkout" / "vllm" / "run.sh"
    path.unlink()
    with pytest.raises(PatchkitError) as caught:
        tree.files["vllm/run.sh"]
    assert str(caught.value) == f"{path}: cannot be read: No such file or directory"


@pytest.mark.parametrize(
    "spec", ["./gone", "gone.whl", "gone.tar.gz", "", "vllm-0.99.0.tar.gz", "a/v0.99.0"]
)
def test_what_is_not_there_is_refused(cache, spec):
    with pytest.raises(PatchkitError) as caught:
        open_tree(spec, pins=Pins(), cache=cache)
    if spec:
        assert str(caught.value) == (
            f"{spec}: there is nothing of that name, "
            "expected v0.29.0, a folder, a .whl, a .tar.gz or git:REPO@REF"
        )


def test_version_is_a_release_also_beside_a_folder_of_that_name(tmp_path, cache, monkeypatch):
    lay(tmp_path / "v0.99.0", CHECKOUT)
    monkeypatch.chdir(tmp_path)
    with pytest.raises(PatchkitError, match=r"^release 0\.99\.0 is not pinned$"):
        open_tree("v0.99.0", pins=Pins(), cache=cache)
    assert dict(open_tree("./v0.99.0", pins=Pins(), cache=cache).files) == TEXTS


def test_wheel_file_is_a_tree(tmp_path, cache, kit):
    path = tmp_path / "vllm-0.99.0+mine-py3-none-any.whl"
    path.write_bytes(kit.make_wheel())
    tree = opened(path, cache)
    assert dict(tree.files) == kit.PACKAGE
    assert (tree.name, tree.version) == (str(path), "0.99.0")
    assert dict(tree.modes) == {"vllm/run.sh": 0o100755}
    assert tree.files.origin == Origin("local", 0, 0)
    path.write_bytes(kit.make_wheel({**kit.PACKAGE, "vllm/new.py": b"new\n"}))
    assert opened(path, cache).files["vllm/new.py"] == b"new\n"


def test_file_that_is_no_wheel_is_refused(tmp_path, cache):
    path = tmp_path / "x.whl"
    path.write_bytes(b"nonsense")
    with pytest.raises(PatchkitError) as caught:
        opened(path, cache)
    assert str(caught.value) == f"{path}: the wheel is damaged: File is not a zip file"


def test_sdist_is_a_tree_with_its_csrc(tmp_path, cache, kit):
    files = {**CHECKOUT, "PKG-INFO": b"Name: vllm\nVersion: 0.28.0\n\nVersion: 9\n"}
    path = tmp_path / "vllm-0.28.0.tar.gz"
    path.write_bytes(kit.make_sdist(files))
    tree = opened(path, cache)
    assert dict(tree.files) == {**TEXTS, "PKG-INFO": files["PKG-INFO"]}
    assert tree.files.left_out == {"docs/logo.png"}
    assert tree.version == "0.28.0+cu129"
    assert dict(tree.modes) == {"vllm/run.sh": 0o100755}
    del files["vllm/_version.py"]
    path.write_bytes(kit.make_sdist(files))
    assert opened(path, cache).version == "0.28.0"


def test_damaged_sdist_is_refused(tmp_path, cache, kit):
    path = tmp_path / "vllm-0.28.0.tar.gz"
    path.write_bytes(kit.make_sdist(CHECKOUT)[:-40])
    with pytest.raises(PatchkitError, match=r"vllm-0\.28\.0\.tar\.gz: the sdist is damaged: "):
        opened(path, cache)


def test_pinned_sdist_is_fetched_and_checked(fake_index, cache, kit):
    name = "vllm-0.99.0.tar.gz"
    fake_index.files[name] = kit.make_sdist(CHECKOUT)
    artifact = kit.pin(name, fake_index.files[name])
    pins = Pins((Release("0.99.0", (artifact,)),))
    tree = open_tree(name, pins=pins, cache=cache, index=fake_index.index())
    assert dict(tree.files) == TEXTS
    assert tree.name == name
    fake_index.log.clear()
    assert dict(open_tree(name, pins=pins, cache=cache, index=fake_index.index()).files) == TEXTS
    assert fake_index.log == []


def test_an_index_that_is_made_when_called_for_is_not_made_for_what_is_cached(
    fake_index, cache, kit
):
    name = "vllm-0.99.0.tar.gz"
    fake_index.files[name] = kit.make_sdist(CHECKOUT)
    pins = Pins((Release("0.99.0", (kit.pin(name, fake_index.files[name]),)),))
    made = []

    def make():
        made.append(name)
        return fake_index.index()

    for _ in range(2):
        assert dict(open_tree(name, pins=pins, cache=cache, index=make).files) == TEXTS
    assert made == [name]


def test_pinned_file_is_asked_for_by_its_name_also_when_yanked(fake_index, cache, kit, wheel):
    fake_index.files[kit.WHEEL_NAME] = wheel
    pins = Pins((Release("0.99.0", (kit.pin(kit.WHEEL_NAME, wheel, yanked="bad"),)),))
    with pytest.raises(PatchkitError, match=f"^{kit.WHEEL_NAME} was yanked: bad$"):
        open_tree("v0.99.0", pins=pins, cache=cache, index=fake_index.index())
    tree = open_tree(kit.WHEEL_NAME, pins=pins, cache=cache, index=fake_index.index())
    assert tree.name == kit.WHEEL_NAME
    assert len(tree.files) == 7


@pytest.fixture
def repository(tmp_path):
    """A repository with two tagged commits; the later one is checked out."""
    folder = lay(tmp_path / "re@po", CHECKOUT)
    (folder / "vllm" / "link.py").symlink_to("/etc/passwd")
    with git.Repo.init(folder, initial_branch="main") as repo:
        with repo.config_writer() as config:
            config.set_value("user", "name", "n").set_value("user", "email", "e@x.test")
            config.set_value("commit", "gpgsign", "false")
        repo.git.add("--all")
        repo.git.commit("-m", "one")
        repo.create_tag("v0.28.0")
        lay(folder, {"vllm/_version.py": b"__version__ = '0.29.0'\n"})
        repo.git.commit("-am", "two")
        repo.create_tag("v0.29.0")
    return folder


def test_commit_is_a_tree(repository, cache):
    tree = opened(f"git:{repository}@v0.28.0", cache)
    assert dict(tree.files) == TEXTS
    assert tree.files.left_out == {"docs/logo.png"}
    assert (tree.name, tree.version) == (f"git:{repository}@v0.28.0", "0.28.0+cu129")
    assert dict(tree.modes) == {"vllm/run.sh": 0o100755}
    assert "vllm/link.py" not in tree.files
    assert len(tree.files) == 7


@pytest.mark.parametrize("ref", ["", "@HEAD", "@main", "@v0.29.0", "@main@{0}", "@v0.28.0~0"])
def test_ref_may_be_anything_that_names_a_commit(repository, cache, ref):
    wanted = "0.28.0+cu129" if "28" in ref else "0.29.0"
    assert opened(f"git:{repository}{ref}", cache).version == wanted


def test_commit_id_is_a_ref(repository, cache):
    with git.Repo(repository) as repo:
        short = repo.git.rev_parse("--short", "v0.28.0")
    assert opened(f"git:{repository}@{short}", cache).version == "0.28.0+cu129"


def test_bare_repository_and_worktree_serve_too(repository, tmp_path, cache):
    with git.Repo(repository) as repo:
        repo.clone(str(tmp_path / "bare.git"), bare=True).close()
        repo.git.worktree("add", str(tmp_path / "tree"), "v0.28.0")
    assert dict(opened(f"git:{tmp_path}/bare.git@v0.28.0", cache).files) == TEXTS
    assert dict(opened(f"git:{tmp_path}/tree", cache).files) == TEXTS


def test_neither_working_directory_nor_environment_choose_the_repository(
    repository, tmp_path, cache, monkeypatch
):
    other = tmp_path / "other"
    git.Repo.init(other, initial_branch="main").close()
    with git.Repo(repository) as repo:
        repo.git.checkout("--detach", "v0.28.0")
    monkeypatch.chdir(other)
    for name, value in {
        "GIT_DIR": str(other / ".git"),
        "GIT_WORK_TREE": str(other),
        "GIT_INDEX_FILE": str(other / "index"),
        "GIT_OBJECT_DIRECTORY": str(other / ".git" / "objects"),
    }.items():
        monkeypatch.setenv(name, value)
    tree = opened(f"git:{repository}", cache)
    assert dict(tree.files) == TEXTS
    assert tree.files.search(b"block_size") == ["vllm/config/cache.py", "csrc/cache.cu"]


def test_relative_repository_path_works(repository, cache, monkeypatch):
    monkeypatch.chdir(repository.parent)
    assert dict(opened("git:re@po@v0.28.0", cache).files) == TEXTS


def test_folder_inside_a_repository_is_not_that_repository(repository, cache):
    with pytest.raises(PatchkitError) as caught:
        opened(f"git:{repository}/vllm@v0.28.0", cache)
    assert str(caught.value) == (
        f"{repository}/vllm: is not a git repository, "
        "expected the top of a work tree, or a bare repository"
    )


def test_missing_ref_is_an_error_with_near_ones(repository, cache):
    with pytest.raises(PatchkitError) as caught:
        opened(f"git:{repository}@v0.28.1", cache)
    assert str(caught.value) == f"{repository}: there is no commit 'v0.28.1'"
    assert caught.value.hint == "near: v0.28.0, v0.29.0"


@pytest.mark.parametrize("ref", ["--help", "zzzzzz", "v0.28.0:vllm", "\n"])
def test_ref_that_is_no_commit_is_an_error(repository, cache, ref):
    with pytest.raises(PatchkitError) as caught:
        opened(f"git:{repository}@{ref}", cache)
    assert str(caught.value) == f"{repository}: there is no commit {ref!r}"


@pytest.mark.parametrize(
    ("spec", "hint"), [("gone@v1", None), ("https://x.test/r@v1", "clone it first")]
)
def test_missing_repository_is_an_error(cache, spec, hint):
    with pytest.raises(PatchkitError) as caught:
        opened(f"git:{spec}", cache)
    assert str(caught.value) == (
        f"{spec}: there is no repository, expected REPO@REF with the path of a repository"
    )
    assert caught.value.hint == hint


@pytest.mark.parametrize(
    ("word", "paths"),
    [
        (b"block_size", ["vllm/config/cache.py", "csrc/cache.cu"]),
        (b"-e", []),
        (b"16\r\n", ["vllm/config/cache.py"]),
        (b"PNG", []),
        (b"bl.ck", []),
    ],
)
def test_search_of_a_commit_takes_the_word_as_it_is(repository, cache, word, paths):
    assert opened(f"git:{repository}@v0.28.0", cache).files.search(word) == paths


def test_searched_commit_is_kept_in_the_cache_and_the_same_tree(repository, cache):
    calls = []
    spec = f"git:{repository}@v0.28.0"
    first = open_tree(spec, cache=cache, progress=lambda *call: calls.append(call))
    assert calls == []
    first.files.search(b"")
    total = sum(map(len, TEXTS.values()))
    assert calls[-1] == (f"reading {spec}", total, total)
    second = opened(spec, cache)
    assert dict(second.files) == dict(first.files) == TEXTS
    assert isinstance(second.files, PackedFiles)
    assert second.files.left_out == first.files.left_out == {"docs/logo.png"}
    assert (second.modes, second.version, second.name) == (first.modes, first.version, first.name)
    assert opened(f"git:{repository}@v0.29.0", cache).version == "0.29.0"


@pytest.mark.parametrize(
    ("text", "version"),
    [
        (b"__version__ = '0.28.0'\n", "0.28.0"),
        (b"__version__ = version = '0.28.0+cu129'\n", "0.28.0+cu129"),
        (b"__version__: str\n__version__ = version = '1.0'\n", "1.0"),
        (b"version: str = '2'\n__version__: str = '1.dev259+g12'\n", "1.dev259+g12"),
        (b"version = '1'\n", None),
        (b"__version__ = make()\n", None),
        (b"__version__ = 1\n", None),
        (b"def broken(:\n", None),
        (b"\0", None),
        (None, None),
    ],
)
def test_version_is_parsed_not_imported(text, version):
    assert parse_version(text) == version


@pytest.mark.parametrize(
    ("path", "size_bytes", "text"),
    [
        ("vllm/x.py", 10**9, True),
        ("vllm/py.typed", 0, True),
        ("vllm/LICENSE", 34_000, True),
        ("vllm/vllm-rs", 21_000_000, False),
        ("vllm/_C.abi3.so", 1, False),
        ("vllm/libx.so.1", 1, False),
        ("vllm/a.PNG", 1, False),
        ("vllm/a.so/x.py", 1, True),
        ("csrc/a.cu", 1, True),
    ],
)
def test_text_is_told_by_name_and_size(path, size_bytes, text):
    assert is_text(path, size_bytes) is text


def test_sdist_is_cached_under_its_digest(tmp_path, cache, kit):
    path = tmp_path / "vllm-0.28.0.tar.gz"
    path.write_bytes(kit.make_sdist(CHECKOUT))
    opened(path, cache)
    (found,) = cache.root.rglob("*.tree")
    assert found.stem == hashlib.sha256(path.read_bytes()).hexdigest()


def test_a_folder_is_searched_for_a_word_in_python_alone(tmp_path):
    (tmp_path / "vllm").mkdir()
    for name in ("__init__.py", "a.py", "b.txt"):
        (tmp_path / "vllm" / name).write_bytes(b"word" if name != "__init__.py" else b"")
    tree = open_tree(str(tmp_path))
    assert tree.python_holding(b"word") == ["vllm/a.py"]
    assert tree.files.search(b"word") == ["vllm/a.py", "vllm/b.txt"]

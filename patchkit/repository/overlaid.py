"""Whether the new files of a series fit a release: what they import, and what they derive from."""

from __future__ import annotations

from collections.abc import Iterable

from patchkit.names.imports import ImportUse, added_imports, check_import
from patchkit.outcome import Accepted, Drift
from patchkit.series.overlay import Overlay
from patchkit.stacking.rebase import RebaseResult
from patchkit.surface.defined import DriftReport
from patchkit.surface.protocol import NewCode, Protocols, Trees
from patchkit.syntax.tree import NotPythonError
from patchkit.tree import PYTHON, SourceTree
from patchkit.vllm.profile import VLLM


def missing_imports(
    overlay: Overlay | None, tree: SourceTree, before: SourceTree
) -> tuple[ImportUse, ...]:
    """Return what files of an overlay import and the tree that they lie in does not have.

    `before` is the release without the series: a module without a file that it imports itself is
    built.
    """
    return tuple(
        use
        for path in _python(overlay, tree, before)
        for use in _imports(tree.files[path], path)
        if not use.guarded and check_import(use, tree, VLLM.package, relied_on=before) == "missing"
    )


def overlay_drifts(
    overlay: Overlay | None, base: SourceTree, target: SourceTree, result: RebaseResult
) -> DriftReport:
    """Return what of that which the files of an overlay rely on the target has otherwise.

    `base` and `target` are the releases without the series, `result` is the move of its patches.
    What only a patch brings that has not landed is left to that patch.
    """
    authored = result.base
    for patch in result.patches:
        authored = authored.with_changes(patch.plan.after)
    waiting = not result.ok
    missing = missing_imports(overlay, result.tree, target)
    drifts = [
        _missing(use, result.tree)
        for use in missing
        if not waiting or check_import(use, base, VLLM.package, relied_on=base) != "missing"
    ]
    lacking = {use.path for use in missing}
    doubts: list[str] = []
    protocols = Protocols(Trees(base, authored, target, result.tree), VLLM.package)
    for path in _python(overlay, result.tree, target):
        text = result.tree.files[path]
        lines = ((1, text.count(b"\n") + 1),)
        report = protocols.drift(NewCode(text, b"", lines, path, path))
        drifts += report.drifts
        doubts += report.not_checked if path not in lacking else ()  # said of the import already
    return DriftReport(tuple(drifts), tuple(doubts))


def split_accepted_files(
    drifts: Iterable[Drift], overlay: Overlay | None
) -> tuple[tuple[Drift, ...], tuple[Accepted, ...]]:
    """Return the drifts of an overlay's files that nobody has accepted, and the others."""
    reasons = {(a.path, a.surface): a.reason for a in overlay.accepted} if overlay else {}
    left, accepted = [], []
    for drift in drifts:
        reason = reasons.get((drift.read_at.rpartition(":")[0], drift.surface))
        if reason is None:
            left.append(drift)
        else:
            accepted.append(Accepted(drift, reason))
    return tuple(left), tuple(accepted)


def missing_text(use: ImportUse, label: str) -> str:
    """Return the sentence on an import of a file that a release does not serve."""
    return f"imports `{use}`, which {label} does not have"


def _missing(use: ImportUse, tree: SourceTree) -> Drift:
    text = missing_text(use, tree.version or tree.name or "the target")
    return Drift("import", str(use), f"{use.path}:{use.line}", text, str(use))


def _python(overlay: Overlay | None, tree: SourceTree, before: SourceTree) -> list[str]:
    """The Python files of an overlay that lie in a tree, and in whose place it had none before."""
    paths = [entry.path for entry in overlay.entries] if overlay is not None else []
    placed = [p for p in paths if p in tree.files and p not in before.files]
    return [path for path in placed if path.endswith(PYTHON)]


def _imports(source: bytes, path: str) -> tuple[ImportUse, ...]:
    try:
        return added_imports(b"", source, path)
    except NotPythonError:
        return ()

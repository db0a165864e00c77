"""Whether what new code relies on is still there: the surface between base and target.

Only what the base itself defines can drift; what neither tree defines (torch's, Python's) is not
upstream's to lose. A name counts as gone when nothing in the target can define it.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable
from dataclasses import dataclass, field

from patchkit.names.builtin_names import ATTRIBUTES, BUILTINS
from patchkit.names.definitions import Signature
from patchkit.names.mentions import CALLABLE
from patchkit.names.tree_index import Found, TreeIndex
from patchkit.outcome import Drift
from patchkit.surface.reads import Read, reads
from patchkit.tree import SourceTree

__all__ = ["DriftReport", "Read", "Surface", "drift", "reads"]

# What an object has; what starts from a module of the package may be any name of that as well.
_OBJECT = frozenset({"field", "method", "self", "store"})
_MODULE = frozenset({"module"})
_TEXT = frozenset({"text"})
# What of a name is shown as its definition, best first.
_RANK = ("field", "method", "self", "module", "store")
_PLAIN_BASES = frozenset({"object", "ABC", "Protocol", "Generic"})


@dataclass(frozen=True, slots=True)
class DriftReport:
    """What drifted, and what could not be judged (sentences)."""

    drifts: tuple[Drift, ...] = ()
    not_checked: tuple[str, ...] = ()


def drift(
    base: SourceTree,
    target: SourceTree,
    found: Iterable[Read],
    *,
    own: Collection[str] = (),
    path: str = "",
    package: str = "vllm",
) -> DriftReport:
    """Return what of the reads the base defines and the target defines nowhere, by line.

    `own` are names that the patches define themselves; `path` is the file that reads, which is
    where the search for definitions begins. What lies outside a partial target is not checked,
    unless the files that define it in the base are there and no longer do.
    """
    return Surface(base, target, path, package).drift(found, own)


class Surface:
    """What base and target define, as seen from one file; what was looked up is remembered."""

    def __init__(
        self, base: SourceTree, target: SourceTree, path: str, package: str = "vllm"
    ) -> None:
        self._trees = base, target
        self._base, self._target = TreeIndex(base, path), TreeIndex(target, path)
        self._path = path
        self._package = package

    def drift(self, found: Iterable[Read], own: Collection[str] = ()) -> DriftReport:
        """Return the drift of some reads of the file, as the function of that name does."""
        check = _Check(*self._trees, self._path, self._base, self._target)
        seen: set[tuple[str, str, str]] = set()
        for read in sorted(found, key=lambda r: r.line):
            key = read.kind, read.name, read.callee
            if key in seen or read.name in own or read.callee in own:
                continue
            if _is_foreign(read, self._package):
                continue
            seen.add(key)
            if read.kind == "keyword":
                check.keyword(read)
            else:
                check.name(read)
        return DriftReport(tuple(check.drifts), tuple(check.not_checked))


def _is_foreign(read: Read, package: str) -> bool:
    """Whether Python or another package owns what is read."""
    if read.name.startswith("__") and read.name.endswith("__"):
        return True
    if read.kind == "attribute" and read.name in ATTRIBUTES:
        return True
    if read.kind == "keyword" and read.callee in ATTRIBUTES | BUILTINS:
        return True
    inside = not read.origin or read.origin.startswith(".")
    return not inside and read.origin.partition(".")[0] != package


@dataclass
class _Check:
    base_tree: SourceTree
    target_tree: SourceTree
    path: str
    base: TreeIndex
    target: TreeIndex
    drifts: list[Drift] = field(default_factory=list)
    not_checked: list[str] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.base_name = _label(self.base_tree, "the base")
        self.target_name = _label(self.target_tree, "the target")

    def name(self, read: Read) -> None:
        """Judge an attribute, a module's name or an import."""
        kinds, anything = _MODULE, _MODULE | {"import"}
        if read.kind == "attribute":
            kinds = _OBJECT | _MODULE if read.origin else _OBJECT
            anything |= _OBJECT
        if self.target.near(read.name, anything):
            return
        # Cheap first: what the base defines nowhere ends here with one search of the whole base.
        if not self.base.near(read.name, kinds) and not self.base.anywhere(read.name, kinds):
            return
        if self.target.anywhere(read.name, anything):
            return
        places = self.base.everywhere(read.name, kinds)
        doubt = self._doubt(read, places)
        first = min(places, key=lambda f: _RANK.index(f.definition.kind))
        text = f"{read.kind} `{read.name}` is defined in {self.base_name} ({first.place})"
        if doubt:
            self.not_checked.append(f"{text}: {doubt}")
        else:
            words = sorted({found.definition.kind for found in places})
            had = f"{', '.join(words)} {read.name}"
            self._add(read, f"{text} and nowhere in {self.target_name}", had)

    def _doubt(self, read: Read, places: tuple[Found, ...]) -> str | None:
        """Return why the name may still be there though no definition is seen."""
        texts = self.target.everywhere(read.name, _TEXT)
        if texts:
            return f"{self.target_name} may define it, by a string or unparsed ({texts[0].place})"
        stored = all(place.definition.kind == "store" for place in places)
        if stored and self.target.is_read_beyond(read.name, self.path):
            return f"{self.target_name} reads it still"
        return self._outside(places)

    def _outside(self, places: tuple[Found, ...]) -> str | None:
        if not self.target_tree.partial:
            return None
        away = sorted({p.path for p in places if p.path not in self.target_tree.files})
        return f"{', '.join(away)} is not in {self.target_name}" if away else None

    def keyword(self, read: Read) -> None:
        """Judge a keyword argument by the one definition of its callee in either tree."""
        near = self.target.near(read.callee, CALLABLE)
        if near and _takes(self.target, near, read.name).accepted:
            return
        old = self.base.everywhere(read.callee, CALLABLE, most=2)
        if len(old) != 1:
            return
        before = _takes(self.base, old[0], read.name)
        if not before.explicit:
            return
        new = self.target.everywhere(read.callee, CALLABLE, most=2)
        text = (
            f"keyword `{read.name}` is accepted by `{read.callee}` in "
            f"{self.base_name} ({old[0].place})"
        )
        if not new:
            doubt = self._outside(old)
            if doubt:
                self.not_checked.append(f"{text}: {doubt}")
            return
        after = _takes(self.target, new[0], read.name)
        if len(new) == 1 and not after.accepted and after.unknown <= before.unknown:
            had = f"keyword {read.name} of {read.callee}"
            self._add(read, f"{text} and not in {self.target_name} ({new[0].place})", had)

    def _add(self, read: Read, text: str, had: str) -> None:
        self.drifts.append(Drift(read.kind, read.name, f"{self.path}:{read.line}", text, had))


@dataclass(frozen=True, slots=True)
class _Taken:
    """Whether a callable takes a keyword: named in its signature, or through `**kwargs`.

    `unknown` are the decorators and bases that no signature is seen of.
    """

    explicit: bool
    accepted: bool
    unknown: frozenset[str]


def _takes(index: TreeIndex, callee: Found, keyword: str) -> _Taken:
    explicit, anything = False, False
    unknown: set[str] = set()
    seen: set[str] = set()
    stack = [callee.definition.signature]
    while stack:
        signature = stack.pop()
        if not isinstance(signature, Signature):
            continue
        explicit = explicit or keyword in signature.keywords
        anything = anything or signature.any_keyword
        unknown |= signature.decorators
        for base in signature.bases:
            if base in seen or base in _PLAIN_BASES:
                continue
            seen.add(base)
            classes = index.everywhere(base, frozenset({"class"}), most=2)
            if len(classes) == 1:
                stack.append(classes[0].definition.signature)
            else:
                unknown.add(base)
    return _Taken(explicit, explicit or anything, frozenset(unknown))


def _label(tree: SourceTree, default: str) -> str:
    return tree.version or tree.name or default

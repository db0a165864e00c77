"""What new code reads, and what of it the base defines and the target does not."""

from __future__ import annotations

import textwrap
import time

import pytest

from patchkit.outcome import Drift
from patchkit.surface.defined import DriftReport, Read, drift, reads
from patchkit.tree import SourceTree

PATH = "vllm/v1/core/x.py"


def source(text: str) -> bytes:
    return textwrap.dedent(text).encode()


def read(before: str, after: str) -> list[str]:
    found = reads(source(before), source(after))
    return [f"{r.kind} {r.name} {r.line}" for r in found]


def tree(files: dict[str, str], name: str, *, partial: bool = False) -> SourceTree:
    return SourceTree(
        {p: source(c) for p, c in files.items()}, name=name, version=name, partial=partial
    )


def judge(
    base: dict[str, str], target: dict[str, str], code: str, *, partial: bool = False, **options
) -> DriftReport:
    return drift(
        tree(base, "0.28.0"),
        tree(target, "0.29.0", partial=partial),
        reads(b"", source(code)),
        path=PATH,
        **options,
    )


def texts(report: DriftReport) -> list[str]:
    return [d.text for d in report.drifts]


# Reads


def test_attributes_keywords_names_and_imports_are_read():
    after = """
        from vllm.a import helper
        LIMIT = 1
        def f(spec, n):
            spec.size = n
            return helper(spec.pages, limit=LIMIT)
    """
    assert reads(b"", source(after)) == (
        Read("import", "helper", 2, origin="vllm.a"),
        Read("attribute", "pages", 6),
        Read("keyword", "limit", 6, "helper", "vllm.a"),
        Read("name", "LIMIT", 6),
        Read("name", "helper", 6, origin="vllm.a"),
    )


def test_only_statements_that_say_something_new_are_read():
    before = "def f(a):\n    g(a.x)\n    h(a.y)\n"
    after = "def f(a):\n    if a.z:\n        g( a.x )\n    h(a.y, a.w)\n"
    assert read(before, after) == ["attribute z 2", "attribute w 4", "attribute y 4"]


def test_a_statement_that_moves_to_another_definition_is_new_there():
    assert read("def f(a):\n    g(a.x)\n", "def f(a): ...\ndef h(a):\n    g(a.x)\n") == [
        "attribute x 3"
    ]


def test_attributes_named_by_strings_and_fields_to_replace():
    after = """
        def f(a):
            getattr(a, "one", None)
            hasattr(a, "two")
            replace(a, three=1)
            dataclasses.replace(a, four=1)
            a._replace(five=1)
    """
    assert read("", after) == [
        "attribute one 3", "attribute two 4", "attribute three 5", "attribute four 6",
        "attribute replace 6", "attribute _replace 7", "attribute five 7",
    ]  # fmt: skip


def test_attributes_of_class_patterns():
    assert read("", "def f(a):\n    match a:\n        case C(size=1):\n            pass\n") == [
        "attribute size 3"
    ]


def test_an_attribute_has_the_line_of_its_own_name():
    assert read("", "def f(a):\n    return (\n        a\n        .one\n        .two\n    )\n") == [
        "attribute one 4",
        "attribute two 5",
    ]


def test_locals_and_parameters_are_no_surface():
    assert read("", "def f(a):\n    b = a\n    return [c for c in b]\n") == []


def test_the_module_an_expression_starts_from_is_known():
    after = "import torch.nn as nn\ndef f(x):\n    return nn.functional.pad(x, mode=1)\n"
    origins = {(r.kind, r.name): r.origin for r in reads(b"", after.encode())}
    assert origins["attribute", "pad"] == "torch.nn"
    assert origins["keyword", "mode"] == "torch.nn"
    after = "import torch\nx = torch.f().one, torch.a[0].two, (lambda: 1).three\n"
    origins = {r.name: r.origin for r in reads(b"", after.encode()) if r.kind == "attribute"}
    assert origins == {"f": "torch", "one": "", "a": "torch", "two": "", "three": ""}


def test_a_name_belongs_to_the_scope_that_binds_it():
    after = """
        a = b = c = 1
        class C:
            a = 2
            d = a
            def f(self):
                return a
        def f():
            b = c = 2
            def g():
                global b
                return b, c
    """
    assert read("a = b = c = 1\n", after) == ["name a 7", "name b 12"]


def test_calls_that_name_nothing():
    assert read("", "def f(x, a):\n    x('one', 'two')\n    getattr(a)\n    x(**a)\n") == []
    assert read("", "def f(x, a):\n    getattr(a, x)\n    getattr(a, 1)\n") == []


# Drift

SPEC = {
    "vllm/v1/spec.py": """
        class Spec:
            page_size: int = 1
            def real_size(self): ...
    """
}


def test_an_attribute_that_the_target_defines_nowhere_drifted():
    target = {"vllm/v1/spec.py": "class Spec:\n    def real_size(self): ...\n"}
    report = judge(SPEC, target, "def f(s):\n    return s.page_size + s.real_size()\n")
    assert report == DriftReport(
        drifts=(
            Drift(
                "attribute",
                "page_size",
                "vllm/v1/core/x.py:2",
                "attribute `page_size` is defined in 0.28.0 (vllm/v1/spec.py:3) "
                "and nowhere in 0.29.0",
                "field page_size",
            ),
        )
    )


@pytest.mark.parametrize(
    "code",
    [
        "class Other:\n    page_size = 1\n",
        "class Other:\n    page_size: int\n",
        "class Other:\n    @property\n    def page_size(self): ...\n",
        "class Other:\n    def __init__(self):\n        self.page_size = 1\n",
        "def f(s):\n    s.page_size = 1\n",
        "def f(s):\n    for s.page_size in s: ...\n",
        "def page_size(): ...\n",
        "if X:\n    page_size = 1\n",
        "from y import page_size\n",
        "import y as page_size\n",
        "import page_size.y\n",
        "class C:\n    page_size=1\n",
        "class C:\n    a, page_size = 1, 2\n",
        "class C:\n    class page_size: ...\n",
        "def f(s):\n    with s as s.page_size: ...\n",
        "def f(s):\n    s.page_size += 1\n",
        "def f(s):\n    s.a, s.page_size = 1, 2\n",
        "def f(s):\n    s.page_size: int = 1\n",
    ],
)
def test_whatever_may_define_it_in_the_target_counts(code):
    report = judge(SPEC, {"vllm/z.py": code}, "def f(s):\n    return s.page_size\n")
    assert report == DriftReport()


@pytest.mark.parametrize(
    "code",
    [
        "# page_size = 1\n",
        "'''\ndef page_size(): ...\n'''\n",
        "def f(page_size): ...\n",
        "def f():\n    page_size = 1\n",
        "def f(s):\n    return s.page_size\n",
        "f(page_size=1)\n",
        "f(\n    page_size=1,\n)\n",
        "page_size_bytes = 1\n",
        "class C:\n    my_page_size = 1\n",
        "def f(s):\n    return s.page_size == 1\n",
        "getattr(s, 'page_size')\n",
        "log('the page_size')\n",
        "def f(s, page_size):\n    s.other = page_size\n",
        "def f():\n    from y import page_size\n",
    ],
)
def test_what_only_looks_like_a_definition_does_not_count(code):
    report = judge(SPEC, {"vllm/z.py": code}, "def f(s):\n    return s.page_size\n")
    assert [d.name for d in report.drifts] == ["page_size"]


def test_a_name_that_the_target_has_as_a_string_is_not_certain():
    target = {"vllm/z.py": "def f(s):\n    setattr(s, 'page_size', 1)\n"}
    assert judge(SPEC, target, "def f(s):\n    return s.page_size\n") == DriftReport(
        not_checked=(
            "attribute `page_size` is defined in 0.28.0 (vllm/v1/spec.py:3): "
            "0.29.0 may define it, by a string or unparsed (vllm/z.py:2)",
        )
    )


@pytest.mark.parametrize(
    "code",
    [
        "T = namedtuple('T', 'a, page_size')\n",
        "{'page_size': 1}\n",
        "['page_size']\n",
        "page_size = (\n",
    ],
)
def test_a_table_of_names_or_unparsed_code_is_not_certain(code):
    report = judge(SPEC, {"vllm/z.py": code}, "def f(s):\n    return s.page_size\n")
    assert report.drifts == ()
    assert report.not_checked[0].endswith(
        "0.29.0 may define it, by a string or unparsed (vllm/z.py:1)"
    )


def test_what_the_base_only_stores_and_the_target_reads_is_not_certain():
    base = {"vllm/a.py": "def f(config):\n    config.heads = 1\n"}
    target = {"vllm/a.py": "def f(config):\n    return config.heads\n"}
    assert judge(base, target, "def f(c):\n    return c.heads\n") == DriftReport(
        not_checked=("attribute `heads` is defined in 0.28.0 (vllm/a.py:2): 0.29.0 reads it still",)
    )
    gone = {"vllm/a.py": "def f():\n    heads = 1\n    return heads\n"}
    assert texts(judge(base, gone, "def f(c):\n    return c.heads\n")) == [
        "attribute `heads` is defined in 0.28.0 (vllm/a.py:2) and nowhere in 0.29.0"
    ]


def test_what_the_base_does_not_define_cannot_drift():
    code = "import torch\ndef f(x):\n    return x.shape, x.append(1), torch.gone, x.__len__\n"
    assert judge(SPEC, {"vllm/v1/spec.py": ""}, code) == DriftReport()
    lists = {"vllm/a.py": "class A:\n    def append(self): ...\n"}
    assert judge(lists, {"vllm/a.py": ""}, code) == DriftReport()


def test_an_object_does_not_have_what_only_modules_have():
    base = {"vllm/a.py": "from torch import scatter\ndef gather(): ...\nfold = 1\n"}
    code = "def f(x):\n    return x.scatter(), x.gather(), x.fold\n"
    assert judge(base, {"vllm/a.py": ""}, code) == DriftReport()
    code = "import vllm.a\ndef f():\n    return vllm.a.scatter, vllm.a.gather, vllm.a.fold\n"
    report = judge(base, {"vllm/a.py": ""}, code)
    assert [d.name for d in report.drifts] == ["fold", "gather"]


def test_what_another_package_owns_cannot_drift():
    base = {"vllm/a.py": "def empty(): ...\n"}
    code = "import torch\ndef f():\n    return torch.empty(1)\n"
    assert judge(base, {"vllm/a.py": ""}, code) == DriftReport()
    code = "from vllm import a\ndef f():\n    return a.empty(1)\n"
    assert [d.name for d in judge(base, {"vllm/a.py": ""}, code).drifts] == ["empty"]


def test_dunders_cannot_drift():
    base = {"vllm/a.py": "class A:\n    __len__ = 1\n    __x = 2\n    y__ = 3\n"}
    code = "def f(x):\n    return x.__len__, x.__x, x.y__\n"
    assert [d.name for d in judge(base, {"vllm/a.py": ""}, code).drifts] == ["__x", "y__"]


def test_definitions_far_from_the_reader_count():
    filler = {f"vllm/v1/core/f{n}.py": "" for n in range(150)}
    far = "class Spec:\n    page_size = 1\n"
    code = "def f(s):\n    return s.page_size\n"
    assert judge(filler | {"vllm/q/a.py": far}, filler, code).drifts[0].name == "page_size"
    assert judge(SPEC, filler | {"vllm/q/a.py": far}, code) == DriftReport()


def test_what_the_series_defines_itself_cannot_drift():
    code = "def f(s):\n    return s.page_size\n"
    assert judge(SPEC, {"vllm/v1/spec.py": ""}, code, own={"page_size"}) == DriftReport()


def test_a_module_name_or_import_that_is_gone():
    base = {"vllm/a.py": "LIMIT = 1\ndef helper(): ...\n"}
    code = "from vllm.a import helper\ndef f():\n    return LIMIT\nLIMIT = 2\n"
    report = judge(base, {"vllm/a.py": "class C:\n    LIMIT = 1\n"}, code)
    assert texts(report) == [
        "import `helper` is defined in 0.28.0 (vllm/a.py:2) and nowhere in 0.29.0",
        "name `LIMIT` is defined in 0.28.0 (vllm/a.py:1) and nowhere in 0.29.0",
    ]


def test_in_a_partial_target_only_files_that_are_there_can_lose_a_name():
    code = "def f(s):\n    return s.page_size\n"
    assert judge(SPEC, {"vllm/z.py": ""}, code, partial=True) == DriftReport(
        not_checked=(
            "attribute `page_size` is defined in 0.28.0 (vllm/v1/spec.py:3): "
            "vllm/v1/spec.py is not in 0.29.0",
        )
    )
    assert texts(judge(SPEC, {"vllm/v1/spec.py": ""}, code, partial=True)) == [
        "attribute `page_size` is defined in 0.28.0 (vllm/v1/spec.py:3) and nowhere in 0.29.0"
    ]


CALLEE = {"vllm/a.py": "def unify(specs, page=1): ...\n"}
CALL = "from vllm.a import unify\ndef f(s):\n    return unify(s, page=2)\n"


def test_a_keyword_that_the_callee_no_longer_takes():
    target = {"vllm/b.py": "\ndef unify(specs): ...\n"}
    report = judge(CALLEE, target, CALL)
    assert texts(report) == [
        "keyword `page` is accepted by `unify` in 0.28.0 (vllm/a.py:1) "
        "and not in 0.29.0 (vllm/b.py:2)"
    ]
    assert report.drifts[0].read_at == "vllm/v1/core/x.py:3"
    assert (report.drifts[0].before, report.drifts[0].after) == ("keyword page of unify", "")


@pytest.mark.parametrize(
    "code",
    [
        "def unify(specs, *, page): ...\n",
        "def unify(specs, **options): ...\n",
        "@wrapped\ndef unify(specs): ...\n",
        "def unify(specs): ...\ndef g():\n    def unify(): ...\n",
    ],
)
def test_a_callee_that_may_still_take_the_keyword(code):
    assert judge(CALLEE, {"vllm/a.py": code}, CALL) == DriftReport()


def test_a_positional_parameter_takes_no_keyword():
    target = {"vllm/a.py": "def unify(specs, page, /): ...\n"}
    assert [d.kind for d in judge(CALLEE, target, CALL).drifts] == ["keyword"]


def test_a_keyword_of_a_class_is_a_field_of_it_or_of_its_bases():
    base = {
        "vllm/a.py": """
            @dataclass
            class Base:
                page: int
            @dataclass
            class Spec(Base):
                size: int
        """
    }
    code = "from vllm.a import Spec\nx = Spec(page=1, size=2)\n"
    assert judge(base, base, code) == DriftReport()
    target = {"vllm/a.py": "class Base: ...\nclass Spec(Base):\n    size: int\n    _ = 'page'\n"}
    report = judge(base, target, code)
    assert texts(report) == [
        "keyword `page` is accepted by `Spec` in 0.28.0 (vllm/a.py:6) "
        "and not in 0.29.0 (vllm/a.py:2)"
    ]
    unknown = {"vllm/a.py": "class Spec(Elsewhere):\n    size: int\n"}
    assert judge(base, unknown, code) == DriftReport()
    init = {"vllm/a.py": "class Spec:\n    page: int\n    def __init__(self, size): ...\n"}
    assert [d.name for d in judge(base, init, code).drifts] == ["page"]


def test_a_keyword_is_certain_only_where_both_callees_are_plain():
    code = "from vllm.a import Spec\nx = Spec(page=1)\n"
    base = {"vllm/a.py": "@dataclass\nclass Spec(object):\n    page: int\n"}
    target = {"vllm/a.py": "@dataclass\nclass Spec(object):\n    size: int\n"}
    assert [d.name for d in judge(base, target, code).drifts] == ["page"]
    loop = {"vllm/a.py": "class Spec(Spec):\n    size: int\n"}
    assert [d.name for d in judge(base, loop, code).drifts] == ["page"]
    never = {"vllm/a.py": "class Spec:\n    def __init__(self, **options): ...\n"}
    assert judge(never, target, code) == DriftReport()
    twice = {"vllm/a.py": base["vllm/a.py"], "vllm/b.py": base["vllm/a.py"]}
    assert judge(twice, target, code) == DriftReport()


def test_a_keyword_of_a_foreign_or_built_in_callee_cannot_drift():
    base = {"vllm/a.py": "def empty(pin=1): ...\ndef sort(key): ...\ndef max(default): ...\n"}
    target = {"vllm/a.py": "def empty(): ...\ndef sort(): ...\ndef max(): ...\n"}
    code = "import torch\nx.sort(key=1)\ntorch.empty(pin=max(x, default=1))\n"
    assert judge(base, target, code) == DriftReport()


def test_a_callee_that_left_a_partial_tree_is_not_checked():
    report = judge(CALLEE, {"vllm/z.py": "unify = page = 1\n"}, CALL, partial=True)
    assert report.not_checked == (
        "keyword `page` is accepted by `unify` in 0.28.0 (vllm/a.py:1): vllm/a.py is not in 0.29.0",
    )


def test_each_name_drifts_once_at_its_first_line():
    report = judge(
        SPEC, {"vllm/v1/spec.py": ""}, "def f(s):\n    s.page_size\n    return s.page_size\n"
    )
    assert [d.read_at for d in report.drifts] == ["vllm/v1/core/x.py:2"]


def test_the_same_tree_never_drifts():
    code = "def f(s):\n    return s.page_size, s.real_size(), g(page=s)\n"
    assert judge(SPEC, SPEC, code) == DriftReport()


# Real releases

PROMOTION = """
def _promote(spec, max_page):
    if not isinstance(spec, AttentionSpec) or not spec.indexes_kv_by_block_stride:
        return spec
    ratio = cdiv(max_page, spec.page_size_bytes)
    return replace(spec, block_size=spec.block_size * ratio, page_size_padded=None)
"""


@pytest.mark.network
def test_block_promotion_reads_an_attribute_that_is_gone_in_0_29():
    from patchkit.upstream import open_tree

    path = "vllm/v1/core/kv_cache_utils.py"
    base, target = open_tree("v0.28.0"), open_tree("v0.29.0")
    before = base.files[path]
    after = before + PROMOTION.encode()
    line = after.decode().splitlines().index(PROMOTION.splitlines()[2]) + 1
    patched = target.with_changes({path: target.files[path] + PROMOTION.encode()})
    report = drift(base, patched, reads(before, after), path=path)
    assert report == DriftReport(
        drifts=(
            Drift(
                "attribute",
                "indexes_kv_by_block_stride",
                f"{path}:{line}",
                "attribute `indexes_kv_by_block_stride` is defined in 0.28.0 "
                "(vllm/v1/kv_cache_interface.py:225) and nowhere in 0.29.0",
                "field, method indexes_kv_by_block_stride",
            ),
        )
    )
    start = time.process_time()
    drift(base, patched, reads(before, after), path=path)
    assert time.process_time() - start < 1.0  # 0.15 s measured warm; a busy machine takes more


@pytest.mark.network
def test_nothing_that_upstream_reads_drifts_within_one_release():
    from patchkit.upstream import open_tree

    tree = open_tree("v0.28.0")
    path = "vllm/v1/core/single_type_kv_cache_manager.py"
    assert drift(tree, tree, reads(b"", tree.files[path]), path=path) == DriftReport()

"""What formats take, by the published figures; and what is said of a file that cannot be read."""

from __future__ import annotations

import pytest

from patchkit.errors import PatchkitError
from patchkit.kv.formats import Format, read_formats

FORMATS = read_formats()

# Bytes of a token in a layer of 4 x 256, 8 x 128, 8 x 64 and 4 x 512; printed by the spec classes
# of 0.28.0, but for those of KVarN, which are from its description.
PUBLISHED = {
    "auto": (4096, 4096, 2048, 8192),
    "bfloat16": (4096, 4096, 2048, 8192),
    "float16": (4096, 4096, 2048, 8192),
    "fp8": (2048, 2048, 1024, 4096),
    "fp8_e4m3": (2048, 2048, 1024, 4096),
    "fp8_e5m2": (2048, 2048, 1024, 4096),
    "fp8_per_token_head": (2080, 2112, 1088, 4128),
    "int8_per_token_head": (2080, 2112, 1088, 4128),
    "int4_per_token_head": (1056, 1088, 576, 2080),
    "nvfp4": (1152, 1152, 576, 2304),
    "nvfp4_4over6": (1152, 1152, 576, 2304),
    "turboquant_k8v4": (1552, 1568, 800, 3088),
    "turboquant_4bit_nc": (1048, 1072, 560, 2072),
    "turboquant_k3v4_nc": (920, 944, 496, 1816),
    "turboquant_3bit_nc": (792, 816, 432, 1560),
    "kvarn_k4v2_g128": (840, 864, 456, 1656),
    "kvarn_k4v4_g128": (1096, 1120, 584, 2168),
    "kvarn_k4v2_g64": (888, 912, 480, 1752),
    "kvarn_k4v4_g64": (1144, 1168, 608, 2264),
}
GEOMETRIES = ((4, 256), (8, 128), (8, 64), (4, 512))

# head_dim, bytes of a tile of one head, of a token's slot, and of the slot as a power of two
TILES = {
    "kvarn_k4v2_g128": (
        (64, 7_296, 57, 64),
        (128, 13_824, 108, 128),
        (256, 26_880, 210, 256),
        (512, 52_992, 414, 512),
    ),
    "kvarn_k4v4_g128": (
        (64, 9_344, 73, 128),
        (128, 17_920, 140, 256),
        (256, 35_072, 274, 512),
        (512, 69_376, 542, 1024),
    ),
    "kvarn_k4v2_g64": (
        (64, 3_840, 60, 64),
        (128, 7_296, 114, 128),
        (256, 14_208, 222, 256),
        (512, 28_032, 438, 512),
    ),
    "kvarn_k4v4_g64": (
        (64, 4_864, 76, 128),
        (128, 9_344, 146, 256),
        (256, 18_304, 286, 512),
        (512, 36_224, 566, 1024),
    ),
}

MINE = """
[formats.mine]
key = { bits = 6, token_bytes = 2 }
value = { bits = 5, token_bytes = 2 }
backends = ["TRITON_ATTN"]
since = "0.28"
until = "0.30.0"
"""


def mine(text: str) -> Format:
    return read_formats({"mine.toml": text.encode()}).get("mine")


def refusal(text: str) -> PatchkitError:
    with pytest.raises(PatchkitError) as caught:
        mine(text)
    return caught.value


@pytest.mark.parametrize("name", PUBLISHED)
def test_a_token_takes_the_published_bytes(name: str) -> None:
    taken = [FORMATS.get(name).token_bytes(h, d, d, "bfloat16") for h, d in GEOMETRIES]
    assert tuple(taken) == PUBLISHED[name]


def test_every_format_is_checked_against_published_bytes() -> None:
    pow2 = ("kvarn_k4v2_g128_pow2", "kvarn_k4v2_g64_pow2")
    assert sorted(FORMATS.names) == sorted([*PUBLISHED, *pow2])


@pytest.mark.parametrize("name", TILES)
def test_a_tile_of_kvarn_takes_the_published_bytes(name: str) -> None:
    tiled = FORMATS.get(name)
    assert tiled.tile is not None
    for head_dim, tile_bytes, slot, _ in TILES[name]:
        assert tiled.token_bytes(1, head_dim, head_dim, "bfloat16") == slot
        assert tiled.tile * slot == tile_bytes


@pytest.mark.parametrize("name", ["kvarn_k4v2_g128", "kvarn_k4v2_g64"])
def test_a_slot_of_kvarn_may_be_rounded_up_to_a_power_of_two(name: str) -> None:
    rounded = FORMATS.get(f"{name}_pow2")
    assert rounded.tile == FORMATS.get(name).tile
    for head_dim, _, _, slot in TILES[name]:
        assert rounded.token_bytes(1, head_dim, head_dim, "bfloat16") == slot


def test_the_golden_layer_takes_840_bytes_a_token_and_1024_as_a_power_of_two() -> None:
    assert FORMATS.get("kvarn_k4v2_g128").token_bytes(4, 256, 256, "bfloat16") == 840
    assert FORMATS.get("kvarn_k4v2_g128_pow2").token_bytes(4, 256, 256, "bfloat16") == 1024


@pytest.mark.parametrize("name", ["kvarn_k4v4_g128", "kvarn_k4v4_g64"])
def test_a_power_of_two_that_takes_as_much_as_fp8_has_to_be_asked_for(name: str) -> None:
    assert f"{name}_pow2" not in FORMATS.names
    with pytest.raises(PatchkitError) as caught:
        FORMATS.get(f"{name}_pow2")
    assert str(caught.value) == (
        f"{name}_pow2 is not planned: its slots take as many bytes as those of fp8, "
        "which loses less"
    )
    assert caught.value.hint == (
        f"take fp8 or {name}; to have it all the same, add it in a file of your own"
    )
    asked_for = f"""
        [formats.{name}_pow2]
        tile = {name[-3:].lstrip("g")}
        slot = "power of two"
        key = {{ bits = 4, channel_bytes = 4, token_bytes = 2 }}
        value = {{ bits = 4, channel_bytes = 2, token_bytes = 4 }}
        backends = ["KVARN"]
    """
    formats = read_formats({"own.toml": asked_for.encode()})
    assert f"{name}_pow2" not in formats.unplanned
    own = formats.get(f"{name}_pow2")
    for head_dim, _, _, slot in TILES[name]:
        taken = own.token_bytes(1, head_dim, head_dim, "bfloat16")
        assert taken == slot == FORMATS.get("fp8").token_bytes(1, head_dim, head_dim, "bfloat16")


def test_only_auto_follows_the_models_own_type() -> None:
    wide = {name: FORMATS.get(name).token_bytes(2, 64, 64, "float32") for name in FORMATS.names}
    narrow = {name: FORMATS.get(name).token_bytes(2, 64, 64, "float16") for name in FORMATS.names}
    assert {name for name in wide if wide[name] != narrow[name]} == {"auto"}
    assert (wide["auto"], narrow["auto"]) == (1024, 512)


def test_values_may_be_narrower_than_keys_where_the_format_keeps_them_apart() -> None:
    taken = {
        name: FORMATS.get(name).token_bytes(2, 192, 128, "bfloat16")
        for name in ("auto", "fp8", "int8_per_token_head", "int4_per_token_head")
    }
    assert taken == {
        "auto": 1280,
        "fp8": 640,
        "int8_per_token_head": 656,
        "int4_per_token_head": 336,
    }


@pytest.mark.parametrize(
    ("name", "head_dim", "head_dim_v", "message"),
    [
        ("kvarn_k4v2_g128", 96, 96, "head_dim is 96, expected 64, 128, 256 or 512"),
        ("kvarn_k4v2_g128", 128, 96, "head_dim_v is 96, expected 64, 128, 256 or 512"),
        ("kvarn_k4v2_g128", 128, 64, "head_dim_v is 64, expected 128, as wide as the keys"),
        ("turboquant_4bit_nc", 192, 128, "head_dim_v is 128, expected 192, as wide as the keys"),
        ("nvfp4", 72, 72, "head_dim is 72, expected a multiple of 16"),
        ("nvfp4", 64, 72, "head_dim_v is 72, expected a multiple of 16"),
        (
            "int4_per_token_head",
            65,
            64,
            "head_dim makes 292 bits, which end within a byte, expected whole bytes",
        ),
        (
            "int4_per_token_head",
            64,
            65,
            "head_dim_v makes 292 bits, which end within a byte, expected whole bytes",
        ),
    ],
)
def test_a_head_that_a_format_cannot_hold_is_refused(
    name: str, head_dim: int, head_dim_v: int, message: str
) -> None:
    with pytest.raises(PatchkitError) as caught:
        FORMATS.get(name).token_bytes(1, head_dim, head_dim_v, "bfloat16")
    assert str(caught.value) == f"{name}: {message}"


def test_turboquant_fills_the_last_byte_of_each_side() -> None:
    # 3 x 36 bits are 13.5 bytes: 14 + 2 for keys, 14 + 4 for values; 4 x 33 are 16.5
    assert FORMATS.get("turboquant_3bit_nc").token_bytes(1, 36, 36, "bfloat16") == 34
    assert FORMATS.get("turboquant_k8v4").token_bytes(1, 33, 33, "bfloat16") == 54


def test_a_slot_of_turboquant_ends_at_an_even_byte() -> None:
    # 34 for keys and 17 + 4 for values are 55
    assert FORMATS.get("turboquant_k8v4").token_bytes(1, 34, 34, "bfloat16") == 56
    assert FORMATS.get("turboquant_k8v4").token_bytes(3, 34, 34, "bfloat16") == 168


def test_a_slot_that_is_a_power_of_two_stays_as_it_is() -> None:
    own = mine(MINE.replace("bits = 5", "bits = 6") + 'slot = "power of two"')
    assert own.token_bytes(1, 80, 80, "bfloat16") == 128  # 2 x (60 + 2), rounded up
    assert own.token_bytes(1, 8, 8, "bfloat16") == 16  # 2 x (6 + 2)


def test_every_token_of_a_tile_has_the_scales_of_its_blocks() -> None:
    own = mine(
        "[formats.mine]\ntile = 32\nbackends = ['X']\n"
        "key = { bits = 4, block = 16, block_bytes = 1 }\nvalue = { bits = 4 }\n"
    )
    assert own.token_bytes(1, 64, 64, "bfloat16") == 32 + 4 + 32


@pytest.mark.parametrize(
    ("name", "release", "reason"),
    [
        (
            "int4_per_token_head",
            "0.24.0",
            "int4_per_token_head comes with vLLM 0.25.0, 0.24.0 does not know it",
        ),
        ("int4_per_token_head", "0.25.0", None),
        (
            "nvfp4_4over6",
            "v0.27.1",
            "nvfp4_4over6 comes with vLLM 0.28.0, 0.27.1 does not know it",
        ),
        ("nvfp4_4over6", "0.33.0", None),
        ("fp8", "0.21.0", None),
        ("kvarn_k4v2_g128", "0.28.0", None),
    ],
)
def test_a_format_says_why_a_release_lacks_it(name: str, release: str, reason: str | None) -> None:
    assert FORMATS.get(name).missing_on(release) == reason


def test_only_kvarn_needs_what_no_release_has() -> None:
    needs = {name: FORMATS.get(name).needs for name in FORMATS.names}
    assert {name for name in needs if needs[name]} == {
        name for name in FORMATS.names if name.startswith("kvarn_")
    }
    assert needs["kvarn_k4v2_g64"] == "the KVarN port"


def test_layers_with_a_window_stay_16_bit_beside_kvarn_and_cannot_be_of_turboquant() -> None:
    for name in FORMATS.names:
        prefix = name.partition("_")[0]
        expected = {"kvarn": "auto", "turboquant": None}.get(prefix, name)
        assert FORMATS.get(name).window_format == expected


@pytest.mark.parametrize(
    ("name", "release", "reason"),
    [
        ("auto", "0.21.0", None),
        ("kvarn_k4v2_g128", "0.28.0", None),
        (
            "turboquant_k8v4",
            "0.33.0",
            "layers with a sliding window cannot cache turboquant_k8v4",
        ),
        (
            "int4_per_token_head",
            "0.27.1",
            "layers with a sliding window cannot cache int4_per_token_head before vLLM 0.28.0",
        ),
        ("int4_per_token_head", "0.28.0", None),
    ],
)
def test_a_format_says_why_layers_with_a_window_cannot_have_it(
    name: str, release: str, reason: str | None
) -> None:
    assert FORMATS.get(name).no_window_on(release) == reason


def test_turboquant_alone_leaves_layers_at_the_ends_of_a_model() -> None:
    for name in FORMATS.names:
        assert FORMATS.get(name).boundary_layers == (2 if name.startswith("turbo") else 0)


@pytest.mark.parametrize(
    ("name", "backend"),
    [
        ("auto", "FLASH_ATTN"),
        ("bfloat16", "FLASH_ATTN"),
        ("fp8", "FLASHINFER"),
        ("fp8_e5m2", "FLASHINFER"),
        ("int8_per_token_head", "TRITON_ATTN"),
        ("nvfp4", "FLASHINFER"),
        ("turboquant_k8v4", "TURBOQUANT"),
        ("kvarn_k4v2_g64", "KVARN"),
    ],
)
def test_each_format_has_a_backend_of_its_own_choice(name: str, backend: str) -> None:
    assert FORMATS.get(name).backend == backend


@pytest.mark.parametrize(
    ("name", "draft_tokens", "rows"),
    [
        ("kvarn_k4v2_g128", 0, 128),
        ("kvarn_k4v2_g128", 1, 144),
        ("kvarn_k4v2_g128", 7, 144),
        ("kvarn_k4v2_g128", 16, 144),
        ("kvarn_k4v2_g128", 17, 160),
        ("kvarn_k4v4_g64", 7, 80),
        ("fp8", 7, 0),
    ],
)
def test_a_request_keeps_an_open_tile_and_its_drafts_in_16_bit(
    name: str, draft_tokens: int, rows: int
) -> None:
    assert FORMATS.get(name).tail_rows(draft_tokens) == rows


def test_the_tail_of_64_requests_takes_576_mib() -> None:
    tail = FORMATS.get("kvarn_k4v2_g128").tail_bytes(4, 256, 256, 7)
    assert tail == 144 * 4096
    assert 64 * 16 * tail == 576 << 20
    assert FORMATS.get("kvarn_k4v2_g128").tail_bytes(2, 256, 128, 0) == 128 * 2 * 384 * 2
    assert FORMATS.get("auto").tail_bytes(4, 256, 256, 7) == 0


def test_an_unknown_format_names_those_that_are_near() -> None:
    with pytest.raises(PatchkitError) as caught:
        FORMATS.get("kvarn_k4v2_g12")
    assert caught.value.fact == "no format is named 'kvarn_k4v2_g12'"
    assert caught.value.expected == f"one of {', '.join(FORMATS.names)}"
    assert caught.value.hint == (
        "near kvarn_k4v2_g128, kvarn_k4v4_g128, kvarn_k4v2_g64; a format of your own is a few "
        "lines of TOML: docs/kv-plan.md has one"
    )
    with pytest.raises(PatchkitError) as caught:
        FORMATS.get("zstd")
    assert (
        caught.value.hint == "a format of your own is a few lines of TOML: docs/kv-plan.md has one"
    )


def test_a_name_of_another_platform_says_that_there_is_no_plan() -> None:
    with pytest.raises(PatchkitError) as caught:
        FORMATS.get("octave_k3v4")
    assert str(caught.value) == "octave_k3v4 is not planned: it is for ROCm"
    assert FORMATS.unplanned["octave_k3v4"].missing_on("0.32.0") == (
        "octave_k3v4 comes with vLLM 0.33.0, 0.32.0 does not know it"
    )


def test_a_format_of_ones_own_is_a_table_in_the_same_words() -> None:
    own = mine(MINE)
    assert own.token_bytes(4, 64, 64, "bfloat16") == 4 * (48 + 2 + 40 + 2)
    assert (own.backend, own.tile, own.window_format, own.needs) == (
        "TRITON_ATTN",
        None,
        "mine",
        None,
    )
    assert own.missing_on("0.27.1") == "mine comes with vLLM 0.28, 0.27.1 does not know it"
    assert own.missing_on("0.28.0") is None
    assert own.missing_on("0.30.0") is None
    assert own.missing_on("0.31.0") == "mine went after vLLM 0.30.0, 0.31.0 does not know it"
    assert read_formats({"mine.toml": MINE.encode()}).names == (*FORMATS.names, "mine")


def test_an_own_tile_that_makes_no_whole_bytes_for_a_token_is_refused() -> None:
    own = mine(
        "[formats.mine]\ntile = 48\nbackends = ['X']\nkey = { bits = 4, channel_bytes = 4 }\n"
        "value = { bits = 4 }\n"
    )
    with pytest.raises(PatchkitError) as caught:
        own.token_bytes(1, 64, 64, "bfloat16")
    assert str(caught.value) == (
        "mine: a tile of 48 tokens takes 3328 bytes, 16 more than 69 each, "
        "expected whole bytes for each token"
    )
    assert own.token_bytes(1, 96, 96, "bfloat16") == 104


BACKENDS = 'backends = ["TRITON_ATTN"]\n'
SIDES = "key = { bits = 8 }\nvalue = { bits = 8 }\n"


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("formats = 3", "mine.toml: formats is 3, expected a table"),
        ("", "mine.toml: formats is missing, expected a table"),
        ("[backends.X]", "mine.toml: unknown word 'backends', expected one of formats"),
        ("formats.mine = 3", "mine.toml: formats: mine is 3, expected a table"),
        (
            "[formats.mine]\nkeys = 3",
            "mine.toml: formats.mine: unknown word 'keys', expected one of key, value, tile, slot, "
            "fills_bytes, same_head_dims, head_dims, backends, since, until, needs, card, "
            "window_format, window_since, boundary_layers",
        ),
        (
            f"[formats.mine]\n{BACKENDS}key = {{ bits = 8 }}",
            "mine.toml: formats.mine: value is missing, expected a table",
        ),
        (
            f"[formats.mine]\n{SIDES}",
            "mine.toml: formats.mine: backends is missing, expected a list of texts, with one at "
            "least",
        ),
        (
            f"[formats.mine]\n{SIDES}backends = []",
            "mine.toml: formats.mine: backends is [], expected a list of texts, with one at least",
        ),
        (
            f"[formats.mine]\n{SIDES}backends = [3]",
            "mine.toml: formats.mine: backends is [3], expected a list of texts, with one at least",
        ),
        (
            "[formats.mine]\nkey = { token_bytes = 2 }",
            "mine.toml: formats.mine.key: bits is missing, expected a whole number from 1 on",
        ),
        (
            "[formats.mine]\nkey = { bits = 0 }",
            "mine.toml: formats.mine.key: bits is 0, expected a whole number from 1 on",
        ),
        (
            "[formats.mine]\nkey = { bits = true }",
            "mine.toml: formats.mine.key: bits is true, expected a whole number from 1 on",
        ),
        (
            "[formats.mine]\nkey = { bits = 'wide' }",
            "mine.toml: formats.mine.key: bits is 'wide', expected a whole number from 1 on",
        ),
        (
            "[formats.mine]\nkey = { bits = 8, token_bytes = -1 }",
            "mine.toml: formats.mine.key: token_bytes is -1, expected a whole number from 0 on",
        ),
        (
            "[formats.mine]\nkey = { bits = 8, scale = 4 }",
            "mine.toml: formats.mine.key: unknown word 'scale', expected one of bits, token_bytes, "
            "block, block_bytes, channel_bytes",
        ),
        (
            "[formats.mine]\nkey = { bits = 8, block = 16 }",
            "mine.toml: formats.mine.key: block_bytes is missing, expected both block and "
            "block_bytes",
        ),
        (
            "[formats.mine]\nkey = { bits = 8, block_bytes = 1 }",
            "mine.toml: formats.mine.key: block is missing, expected both block and block_bytes",
        ),
        (
            "[formats.mine]\nkey = { bits = 8, block = 0, block_bytes = 1 }",
            "mine.toml: formats.mine.key: block is 0, expected a whole number from 1 on",
        ),
        (
            "[formats.mine]\nkey = { bits = 8, channel_bytes = 2 }",
            "mine.toml: formats.mine.key: channel_bytes is 2, expected a tile, since a token alone "
            "has no channels to share",
        ),
        (
            "[formats.mine]\ntile = 0",
            "mine.toml: formats.mine: tile is 0, expected a whole number from 1 on",
        ),
        (
            f"[formats.mine]\n{SIDES}{BACKENDS}slot = 'odd'",
            "mine.toml: formats.mine: slot is 'odd', expected one of "
            '"exact", "even", "power of two"',
        ),
        (
            f"[formats.mine]\n{SIDES}{BACKENDS}fills_bytes = 1",
            "mine.toml: formats.mine: fills_bytes is 1, expected true or false",
        ),
        (
            f"[formats.mine]\n{SIDES}{BACKENDS}head_dims = [64, 0]",
            "mine.toml: formats.mine: head_dims is [64, 0], expected a list of whole numbers "
            "from 1 on",
        ),
        (
            f"[formats.mine]\n{SIDES}{BACKENDS}since = 'soon'",
            "mine.toml: formats.mine: since is 'soon', expected a release, such as \"0.28.0\"",
        ),
        (
            f"[formats.mine]\n{SIDES}{BACKENDS}needs = ''",
            "mine.toml: formats.mine: needs is '', expected a text",
        ),
        (
            f"[formats.mine]\n{SIDES}{BACKENDS}window_format = 'yours'",
            "mine.toml: formats.mine: window_format is 'yours', expected \"none\", or a format "
            "that is listed before",
        ),
        (
            f"[formats.mine]\n{SIDES}{BACKENDS}boundary_layers = -2",
            "mine.toml: formats.mine: boundary_layers is -2, expected a whole number from 0 on",
        ),
        (
            f"[formats.fp8]\n{SIDES}{BACKENDS}",
            "mine.toml: formats.fp8: a format of this name is there already, expected another name",
        ),
        (
            "[formats.mine]\nunplanned = 'no'\nkey = { bits = 8 }",
            "mine.toml: formats.mine: unknown word 'key', expected one of unplanned, hint, since, "
            "until",
        ),
    ],
)
def test_an_error_names_the_file_the_format_and_the_word(text: str, message: str) -> None:
    assert str(refusal(text)) == message


def test_a_file_that_is_no_toml_is_named() -> None:
    assert str(refusal("[formats")).startswith("mine.toml: not valid TOML: ")
    with pytest.raises(PatchkitError) as caught:
        read_formats({"mine.toml": b"\xff"})
    assert caught.value.place == "mine.toml"

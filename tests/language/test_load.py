"""Models that are broken are refused by name; whole ones, with tied weights too, are loaded."""

import json
import shutil
from collections.abc import Callable
from importlib.resources import files
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file, save_file
from small_models import ARCHITECTURES, prompt, tiny, word_tokenizer
from tiny_model import tiny_llama, tiny_tokenizer

from featscope.cli import main
from featscope.language import FullCache, GemFilter
from featscope.language.load import layers_of, load_model, load_once
from featscope.options import ConfigError

WEIGHTS = Path(str(files("featscope_retriever") / "weights"))
LAYER = "model.layers.1."
ONE = "model.layers.1.mlp.up_proj.weight"


@pytest.fixture
def folder(tmp_path):
    return shutil.copytree(WEIGHTS, tmp_path / "broken")


def weights(change: Callable[[dict[str, torch.Tensor]], dict[str, torch.Tensor]]) -> Callable[[Path], None]:
    """Replaces what is stored by what ``change`` makes of it."""

    def apply(folder: Path) -> None:
        stored = load_file(folder / "model.safetensors")
        save_file(change(stored), folder / "model.safetensors", metadata={"format": "pt"})

    return apply


def config(**changes) -> Callable[[Path], None]:
    """Replaces numbers in config.json."""
    file = "config.json"
    return lambda folder: write(file, json.dumps(json.loads((folder / file).read_text()) | changes))(folder)


def write(name: str, text: str) -> Callable[[Path], None]:
    """Replaces a file."""
    return lambda folder: Path(folder / name).write_text(text) and None


def pickled(folder: Path) -> None:
    """As old models are."""
    torch.save(load_file(folder / "model.safetensors"), folder / "pytorch_model.bin")
    (folder / "model.safetensors").unlink()


BROKEN = {
    "a layer is missing": (
        weights(lambda of: {key: value for key, value in of.items() if not key.startswith(LAYER)}),
        "13 missing weights: model.layers.1.input_layernorm.weight and 12 more",
    ),
    "one weight too many": (
        weights(lambda of: of | {"model.layers.9.mlp.up_proj.weight": torch.zeros(2)}),
        "1 weights of no layer in config.json: model.layers.9.mlp.up_proj.weight",
    ),
    "too few layers": (config(num_hidden_layers=5), "13 weights of no layer in config.json"),
    "one weight is NaN": (
        weights(lambda of: of | {ONE: torch.full_like(of[ONE], torch.nan)}),
        f"its weight {ONE} is not finite",
    ),
    "products overflow": (
        weights(lambda of: of | {key: torch.full_like(of[key], 3e38) for key in of if "mlp" in key}),
        "logits that are not finite",
    ),
    "a weight has another shape": (
        weights(lambda of: of | {ONE: of[ONE][:3].clone()}),
        f"another shape in 1 weights: {ONE} is [3, 192], and [384, 192] by config.json",
    ),
    "no heads": (config(num_attention_heads=0), "config.json has num_attention_heads = 0: allowed is a whole number"),
    "heads that do not divide": (config(num_attention_heads=5), "cannot be loaded"),
    "a word for a size": (config(hidden_size="wide"), "config.json has hidden_size = wide"),
    "endless layers": (config(num_hidden_layers=10**9), "allowed is a whole number, 1 to 10000"),
    "endless rows": (config(hidden_size=2**27), "is too large: by config.json it needs "),
    "a config that is a list": (write("config.json", "[1, 2]"), "its config.json is a list"),
    "a config that is no JSON": (write("config.json", "{"), "its config.json is not JSON"),
    "a config that is deeply nested": (write("config.json", "[" * 100_000), "its config.json is not JSON"),
    "no config": (lambda folder: (folder / "config.json").unlink(), "its config.json cannot be read"),
    "pickled weights": (pickled, "pickled files only: allowed is weights in safetensors files"),
    "no weights": (lambda folder: (folder / "model.safetensors").unlink(), "it has no weights"),
    "cut off weights": (write("model.safetensors", "12345678"), "cannot be loaded"),
    "a tokenizer that is no JSON": (write("tokenizer.json", "["), "cannot be loaded"),
    "more tokens than rows": (
        lambda folder: [
            config(vocab_size=1000)(folder),
            weights(lambda of: of | {"model.embed_tokens.weight": of["model.embed_tokens.weight"][:1000].clone()})(
                folder
            ),
        ],
        "its tokenizer has 2048 tokens, and it has 1000",
    ),
}


@pytest.mark.parametrize("how", BROKEN)
def test_a_broken_model_is_refused(how, folder):
    breaks, message = BROKEN[how]
    breaks(folder)
    with pytest.raises(ConfigError) as refused:
        load_model(str(folder))
    assert message in str(refused.value)
    assert str(refused.value).startswith(f"model = {str(folder)!r} ")


@pytest.mark.parametrize("tied", [True, False])
@pytest.mark.parametrize("name", ARCHITECTURES)
def test_a_whole_model_of_every_architecture_is_loaded(name, tied, tmp_path):
    """Of tied weights one is absent in the file."""
    model = tiny(name, tie_word_embeddings=tied)
    model.save_pretrained(tmp_path)
    word_tokenizer().save_pretrained(tmp_path)
    loaded, _ = load_model(str(tmp_path))
    of = loaded.state_dict()
    assert all(torch.equal(of[key], value) for key, value in model.state_dict().items())
    assert layers_of(str(tmp_path)) == 4


def test_on_a_cpu_weights_are_in_float32_and_padding_is_on_the_left(tmp_path):
    tiny().bfloat16().save_pretrained(tmp_path)
    word_tokenizer().save_pretrained(tmp_path)
    model, tokenizer = load_model(str(tmp_path))
    assert {weight.dtype for weight in model.parameters()} == {torch.float32}
    assert not model.training
    rows = tokenizer(["w5 w6 w7", "w8"], padding=True)["input_ids"]
    assert [row[-1] for row in rows] == [7, 8]


@pytest.mark.parametrize("token", [100, -1])
@pytest.mark.parametrize("method", [FullCache, lambda model: GemFilter(model, 2, 16, window=4)])
def test_a_token_without_a_row_in_the_model_is_refused_wherever_it_is_read(method, token, tmp_path):
    """Such as one that was added to a tokenizer, whose ``vocab_size`` does not count it."""
    tiny().save_pretrained(tmp_path)
    tokenizer = word_tokenizer()
    tokenizer.add_tokens(["<new>"])
    tokenizer.save_pretrained(tmp_path)
    model, tokenizer = load_model(str(tmp_path))
    assert tokenizer("<new>")["input_ids"] == [100]
    its, ids = method(model), prompt()
    ids[0, 7] = token
    for read in (its.generate, its.read, its.read(prompt()).ask):
        with pytest.raises(
            ConfigError, match=f"input_ids hold the token {token}: allowed is 0 to 99, .* Llama.* knows"
        ):
            read(ids)


@pytest.mark.parametrize("name", ["./nowhere", "a/b/c", "nul\0", "", "/" + 300 * "x"])
@pytest.mark.parametrize("load", [load_model, layers_of])
def test_a_path_that_leads_nowhere_is_said(load, name):
    with pytest.raises(ConfigError, match="is no folder: allowed is 'retriever', a folder, or a model of the Hub"):
        load(name)


@pytest.mark.parametrize("device", ["mps", "meta", "no such"])
def test_devices_beside_those_that_are_named_are_refused(device):
    with pytest.raises(ConfigError, match=f"device = '{device}' is out of range: allowed is cpu, cuda or cuda:N"):
        load_model("retriever", device)


def test_a_file_is_no_model(folder):
    with pytest.raises(ConfigError, match="is a file"):
        load_model(str(folder / "model.safetensors"))


LONG = [pytest.param(name, marks=pytest.mark.long) for name in ("gemfilter", "longbench", "icl-flipped-labels")]


@pytest.mark.parametrize("study", ["needle", "icl-attention", *LONG])
def test_studies_refuse_a_broken_model_and_write_nothing(study, folder, tmp_path, capfd):
    BROKEN["a layer is missing"][0](folder)
    option = "--models" if study.startswith("icl") else "--model"
    rest = ["--layer", "2"] if option == "--model" else []
    rest += ["--cost-lengths", "300"] if study == "gemfilter" else []  # which are looked at before the model
    words = ["run", study, option, str(folder), *rest, "--replicas", "1", "--out", str(tmp_path / "run")]
    with pytest.raises(SystemExit) as ended:
        main(words)
    assert ended.value.code == 2
    assert "13 missing weights" in capfd.readouterr().err
    assert not (tmp_path / "run").exists()


@pytest.mark.parametrize("study", ["needle", "gemfilter"])
def test_a_model_that_is_not_there_comes_before_its_layer(study, tmp_path, capfd):
    with pytest.raises(SystemExit) as ended:
        main(["run", study, "--model", "./nowhere", "--out", str(tmp_path / "run")])
    assert ended.value.code == 2
    assert "--model = './nowhere' is no folder" in capfd.readouterr().err
    assert not (tmp_path / "run").exists()


def test_a_model_that_is_saved_anew_is_loaded_anew(tmp_path):
    for seed in (0, 1):
        model = tiny_llama(seed=seed)
        model.save_pretrained(tmp_path)
        tiny_tokenizer().save_pretrained(tmp_path)
        loaded, _ = load_once(str(tmp_path), "cpu")
        assert loaded is load_once(str(tmp_path), "cpu")[0]
        assert loaded.get_input_embeddings().weight.equal(model.get_input_embeddings().weight)

"""The page about long prompts: its code runs as it stands."""

import re
from pathlib import Path

from featscope.language.load import RETRIEVER_LAYER

PAGE = (Path(__file__).parents[2] / "docs" / "language.md").read_text()
BLOCKS = re.findall(r"^```python\n(.*?)^```$", PAGE, re.M | re.S)


def test_the_code_runs_and_the_small_model_answers(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    names = {"__name__": "page"}
    layer, one_line, questions, others, parts = BLOCKS
    exec(compile(layer, "language.md", "exec"), names)
    assert names["choice"].layer == RETRIEVER_LAYER
    assert (tmp_path / "layers.png").exists()
    capsys.readouterr()
    exec(compile(one_line, "language.md", "exec"), names)
    said, kept, *_ = capsys.readouterr().out.split("\n", 1)
    assert said.strip() == "rotten violinist"
    assert "Hanoi rotten violinist opens" in kept
    exec(compile(questions, "language.md", "exec"), names)
    hanoi, osaka = re.findall(r"In (?:Hanoi|Osaka) (\w+ \w+)", capsys.readouterr().out)
    assert (hanoi, osaka) == ("rotten violinist", "plump lobster")
    end = names["context"].prompt.ids[0, -16:]
    assert "Osaka plump lobster" in names["tokenizer"].decode(end)
    exec(compile(others, "language.md", "exec"), names)
    out = capsys.readouterr().out
    assert len(names["methods"]) == 8
    assert all(name in out for name in names["methods"])
    assert "full attention  rotten violinist" in out
    assert "GemFilter, then SnapKV  rotten violinist" in out
    assert "SnapKV  rotten violinist" in out
    assert "hidden states go on, SnapKV  rotten violinist" in out
    exec(compile(parts, "language.md", "exec"), names)
    assert capsys.readouterr().out.startswith("torch.Size([1, ")


def test_questions_behind_a_document_are_tokenized_without_what_begins_a_text():
    """Most tokenizers add it; the small model's does not, so that running the page does not show it."""
    (made,) = re.findall(r"question = tokenizer\((.*?)\)  #", BLOCKS[2])
    assert "add_special_tokens=False" in made

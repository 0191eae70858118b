"""The page about long prompts: its code runs as it stands."""

import re
from pathlib import Path

PAGE = (Path(__file__).parents[2] / "docs" / "language.md").read_text()
BLOCKS = re.findall(r"^```python\n(.*?)^```$", PAGE, re.M | re.S)


def test_the_code_runs_and_the_small_model_answers(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    names = {"__name__": "page"}
    one_line, questions, layer, others, parts = BLOCKS
    exec(compile(one_line, "language.md", "exec"), names)
    said, kept, *_ = capsys.readouterr().out.split("\n", 1)
    assert said.strip() == "amber lantern."
    assert "Paris amber lantern opens" in kept
    exec(compile(questions, "language.md", "exec"), names)
    paris, oslo = re.findall(r"In (?:Paris|Oslo) (\w+ \w+)\.", capsys.readouterr().out)
    assert (paris, oslo) == ("amber lantern", "bronze harbor")
    end = names["context"].prompt.ids[0, -8:]
    assert "Oslo bronze harbor" in names["tokenizer"].decode(end)
    exec(compile(layer, "language.md", "exec"), names)
    assert names["choice"].layer == 2
    assert (tmp_path / "layers.png").exists()
    capsys.readouterr()
    exec(compile(others, "language.md", "exec"), names)
    out = capsys.readouterr().out
    assert len(names["methods"]) == 8
    assert all(name in out for name in names["methods"])
    assert "full attention  amber lantern" in out
    assert "GemFilter, then SnapKV  amber lantern" in out
    assert "SnapKV  amber lantern" in out
    assert "hidden states go on, SnapKV  amber lantern" in out
    exec(compile(parts, "language.md", "exec"), names)
    assert capsys.readouterr().out.startswith("torch.Size([1, ")

"""Tables between marks of a page."""

import pytest
from benchmarks.marked import fill, table


def test_only_what_a_command_made_is_replaced(tmp_path):
    page = tmp_path / "page.md"
    page.write_text("a\n<!-- x -->\nold\n<!-- end of x -->\nb\n<!-- y -->\nkept\n<!-- end of y -->\n")
    fill(page, {"x": table(["one", "two"], [["1", "2"]])})
    new = "| one | two |\n| --- | --- |\n| 1 | 2 |"
    assert page.read_text() == f"a\n<!-- x -->\n{new}\n<!-- end of x -->\nb\n<!-- y -->\nkept\n<!-- end of y -->\n"


@pytest.mark.parametrize("text", ["a\n", "<!-- x -->\nold\n", "old\n<!-- end of x -->\n"])
def test_a_page_without_the_marks_is_named_and_stays_as_it_was(tmp_path, text):
    page = tmp_path / "page.md"
    page.write_text(text)
    with pytest.raises(ValueError, match=r"page\.md lacks <!-- x --> \.\.\. <!-- end of x -->"):
        fill(page, {"x": "new"})
    assert page.read_text() == text

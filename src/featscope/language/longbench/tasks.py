"""The 14 English tasks of LongBench: what the prompt says, how many tokens are generated, and how they are scored.

LongBench: Bai et al. 2023, arXiv 2308.14508; prompts (``config/dataset2prompt.json``), numbers of tokens
(``config/dataset2maxlen.json``), metrics and rules are those of its public repository (THUDM/LongBench, MIT licence),
word for word with their slips ("asconcisely"), as other words give other scores. The dissertation's tables (9.1, 9.2,
G.1) are of these tasks, whose columns they abbreviate.
"""

from dataclasses import dataclass

from featscope.language.longbench.metrics import (
    Metric,
    classification_score,
    count_score,
    qa_f1,
    retrieval_score,
    rouge_l,
)


@dataclass(frozen=True)
class LongBenchTask:
    """One task.

    Attributes:
        name: LongBench's, and that of its file.
        column: its heading in the dissertation's tables.
        prompt: template with the places ``{context}`` and ``{input}``.
        new_tokens: tokens generated at most.
        metric: score of an answer against one right answer, in [0, 1].
        first_line: whether only the first line of an answer counts. LongBench gives these tasks no chat template
            either: their prompts are examples to go on with.
        ends_at_line: whether generation ends at the end of a line.
    """

    name: str
    column: str
    prompt: str
    new_tokens: int
    metric: Metric
    first_line: bool = False
    ends_at_line: bool = False

    @property
    def heading(self) -> str:
        """The column's heading, or a shorter one where a figure of all tasks has no room for it."""
        return _SHORT.get(self.name, self.column)


_SHORT = {
    "narrativeqa": "Nrtv",
    "multifieldqa_en": "MF",
    "hotpotqa": "Hotpot",
    "2wikimqa": "2Wiki",
    "musique": "MuSi",
    "gov_report": "Gov",
    "multi_news": "News",
    "triviaqa": "Trivia",
    "samsum": "SAM",
}
_ABOUT_STORY = (
    "asconcisely as you can, using a single phrase if possible. Do not provide any explanation.\n\n"  # as published
)
_ABOUT_ARTICLE = (
    "as concisely as you can, using a single phrase or sentence if possible. If the question cannot be answered based "
    'on the information in the article, write "unanswerable". If the question is a yes/no question, answer "yes", '
    '"no", or "unanswerable". Do not provide any explanation.\n\n'
)
_FROM_PASSAGES = (
    "Answer the question based on the given passages. Only give me the answer and do not output any other words."
)
_PASSAGES = (
    f"{_FROM_PASSAGES}\n\nThe following are given passages.\n{{context}}\n\n{_FROM_PASSAGES}\n\n"
    "Question: {input}\nAnswer:"
)

ALL = (
    LongBenchTask(
        "narrativeqa",
        "NrtvQA",
        "You are given a story, which can be either a novel or a movie script, and a question. Answer the question "
        f"{_ABOUT_STORY}Story: {{context}}\n\nNow, answer the question based on the story {_ABOUT_STORY}"
        "Question: {input}\n\nAnswer:",
        128,
        qa_f1,
    ),
    LongBenchTask(
        "qasper",
        "Qasper",
        f"You are given a scientific article and a question. Answer the question {_ABOUT_ARTICLE}"
        f"Article: {{context}}\n\n Answer the question based on the above article {_ABOUT_ARTICLE}"
        "Question: {input}\n\nAnswer:",
        128,
        qa_f1,
    ),
    LongBenchTask(
        "multifieldqa_en",
        "MF-en",
        "Read the following text and answer briefly.\n\n{context}\n\nNow, answer the following question based on the "
        "above text, only give me the answer and do not output any other words.\n\nQuestion: {input}\nAnswer:",
        64,
        qa_f1,
    ),
    LongBenchTask("hotpotqa", "HotpotQA", _PASSAGES, 32, qa_f1),
    LongBenchTask("2wikimqa", "2WikiMQA", _PASSAGES, 32, qa_f1),
    LongBenchTask("musique", "Musique", _PASSAGES, 32, qa_f1),
    LongBenchTask(
        "gov_report",
        "GovReport",
        "You are given a report by a government agency. Write a one-page summary of the report.\n\nReport:\n{context}"
        "\n\nNow, write a one-page summary of the report.\n\nSummary:",
        512,
        rouge_l,
    ),
    LongBenchTask(
        "qmsum",
        "QMSum",
        "You are given a meeting transcript and a query containing a question or instruction. Answer the query in one "
        "or more sentences.\n\nTranscript:\n{context}\n\nNow, answer the query based on the above meeting transcript "
        "in one or more sentences.\n\nQuery: {input}\nAnswer:",
        512,
        rouge_l,
    ),
    LongBenchTask(
        "multi_news",
        "MultiNews",
        "You are given several news passages. Write a one-page summary of all news. \n\nNews:\n{context}\n\nNow, "
        "write a one-page summary of all the news.\n\nSummary:",
        512,
        rouge_l,
    ),
    LongBenchTask(
        "trec",
        "TREC",
        "Please determine the type of the question below. Here are some examples of questions.\n\n{context}\n{input}",
        64,
        classification_score,
        first_line=True,
    ),
    LongBenchTask(
        "triviaqa",
        "TriviaQA",
        "Answer the question based on the given passage. Only give me the answer and do not output any other words. "
        "The following are some examples.\n\n{context}\n\n{input}",
        32,
        qa_f1,
        first_line=True,
    ),
    LongBenchTask(
        "samsum",
        "SAMSum",
        "Summarize the dialogue into a few short sentences. The following are some examples.\n\n{context}\n\n{input}",
        128,
        rouge_l,
        first_line=True,
        ends_at_line=True,
    ),
    LongBenchTask(
        "passage_count",
        "PCount",
        "There are some paragraphs below sourced from Wikipedia. Some of them may be duplicates. Please carefully read "
        "these paragraphs and determine how many unique paragraphs there are after removing duplicates. In other "
        "words, how many non-repeating paragraphs are there in total?\n\n{context}\n\nPlease enter the final count of "
        "unique paragraphs after removing duplicates. The output format should only contain the number, such as 1, 2, "
        "3, and so on.\n\nThe final answer is: ",
        32,
        count_score,
    ),
    LongBenchTask(
        "passage_retrieval_en",
        "PRe",
        "Here are 30 paragraphs from Wikipedia, along with an abstract. Please determine which paragraph the abstract "
        "is from.\n\n{context}\n\nThe following is an abstract.\n\n{input}\n\nPlease enter the number of the paragraph "
        'that the abstract is from. The answer format must be like "Paragraph 1", "Paragraph 2", etc.\n\n'
        "The answer is: ",
        32,
        retrieval_score,
    ),
)

TASKS = {task.name: task for task in ALL}
"""The tasks by name, in the order of the tables' columns."""

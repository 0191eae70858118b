"""A second question on the same document."""

import torch

from benchmarks.against_kvpress.by_hand import held, masked_logits
from benchmarks.against_kvpress.checks import Build, Said, ways
from benchmarks.against_kvpress.models import prompt, tiny, words
from benchmarks.against_kvpress.ways import (
    GREEDY,
    KEEP,
    OURS,
    THEIRS,
    WHOLE,
    WINDOW,
    agreement,
    gemfilter,
    logits_of,
    outcome,
    ratio,
    snapkv,
)
from featscope.language.decoder import cache_argument, cache_of

NO_TALK = "not there: the pipeline takes each answer out of the cache again"
QUESTIONS = (prompt(5, 7), prompt(9, 8))


def turns(library: str) -> dict[str, Said]:
    """By what is done: what came of it."""
    ours = library == OURS
    second, behind = (_asked_of_context, _talked) if ours else (_asked_of_pipeline, lambda: NO_TALK)
    name = "GemFilter" if ours else "SnapKV"
    going_on = {way: outcome(lambda b=build: _went_on(b)) for way, build in ways(library).items()}
    return {
        "second question": {name: outcome(second)},
        "behind the first answer": {name: outcome(behind)},
        "from the returned cache": going_on,
    }


def _asked_of_context() -> str:
    gem, document = gemfilter(tiny(), KEEP, layer=2), prompt()
    context = gem.read(document)
    answers = [context.ask(question, **GREEDY) for question in QUESTIONS]
    fresh = [gem.generate(torch.cat([document, question], 1), **GREEDY) for question in QUESTIONS]
    same = all(torch.equal(one, other) for one, other in zip(answers, fresh, strict=True))
    return "right: equals a fresh read" if same else "wrong: differs from a fresh read"


def _asked_of_pipeline() -> str:
    """kvpress' pipeline presses the document before it knows a question, and asks all questions of what is left."""
    from kvpress import KVPressTextGenerationPipeline, SnapKVPress

    model, tokenizer = tiny(), words()
    pipe = KVPressTextGenerationPipeline(model=model, tokenizer=tokenizer, device="cpu")
    document = torch.cat([torch.tensor([[1]]), prompt(59)], 1)
    press = SnapKVPress(ratio(KEEP, 60), window_size=WINDOW, kernel_size=5)
    texts = [tokenizer.decode(question[0]) for question in QUESTIONS]
    answers = pipe(tokenizer.decode(document[0, 1:]), questions=texts, press=press, max_new_tokens=6)["answers"]
    kept = held(snapkv(THEIRS, model, KEEP), document)
    for question, answer in zip(QUESTIONS, answers, strict=True):
        said = torch.tensor([tokenizer(answer, add_special_tokens=False)["input_ids"]])
        logits = masked_logits(model, torch.cat([document, question, said], 1), 60, kept)
        if not torch.equal(logits[:, question.shape[1] :].argmax(-1), said):
            return "wrong: not the answer to what was kept"
    return "right: as a fresh read of the pressed document (pressed without the question)"


def _talked() -> str:
    gem = gemfilter(tiny(), KEEP, layer=2)
    context = gem.read(prompt())
    first = context.ask(QUESTIONS[0], **GREEDY)
    context.add(first[:, context.length :])
    fresh = gem.generate(torch.cat([first, QUESTIONS[1]], 1), **GREEDY)
    return "right: equals a fresh read" if torch.equal(context.ask(QUESTIONS[1], **GREEDY), fresh) else "wrong"


def _went_on(build: Build) -> str:
    """What one would do after the model's own ``generate``: hand its cache back with the longer text."""
    method = build(tiny())
    out = method.generate(prompt(), **WHOLE, **GREEDY)
    longer, read = torch.cat([out.sequences, QUESTIONS[0]], 1), []
    embedding = method.model.get_input_embeddings()
    hook = embedding.register_forward_hook(lambda module, given, result: read.append(result.shape[1]))
    try:
        again = method.model.generate(
            longer, **{cache_argument(method.model.forward): cache_of(out)}, **WHOLE, **GREEDY
        )
    finally:
        hook.remove()
    new = QUESTIONS[0].shape[1] + 1  # the last token that was generated has not been read, either
    if read[0] != new:
        return f"wrong: {read[0]} tokens are read where {new} are new, without an error"
    logits = masked_logits(method.model, again.sequences, prompt().shape[1], held(method, prompt()))
    return agreement(logits_of(again), logits[:, -again.sequences.shape[1] + longer.shape[1] :])

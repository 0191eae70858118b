"""Sentences that are put together: more ways to say and to ask that a key has a value than a list can hold.

A rule is a symbol and what it may become, alternatives between bars, symbols in angle brackets. ``KEY`` and ``VALUE``
mark where these go; ``{noun}``, ``{base}``, ``{does}``, ``{did}`` and ``{done}`` are as in `wordings`. Rules make no
sentence of `HELD_OUT`.
"""

import re

import numpy as np

from featscope.language.retriever.wordings import Ends, Wording, as_ends, as_wording

RULES = {
    "of nouns": """ <intro> <the> {noun} <of> KEY<is> VALUE<end>| <The> {noun} <of> KEY<is> VALUE<end>
        | <The> {noun} <of> KEY<is> VALUE<end>| KEY's {noun}<is> VALUE<end>| <intro> KEY's {noun}<is> VALUE<end>
        |<place> KEY <the> {noun}<is> VALUE<end>| <intro><where> KEY <the> {noun}<is> VALUE<end>
        | <Who> <had> KEY <the> {noun} VALUE<end>| <Who> <had> KEY <a> {noun}<named> VALUE<end>
        | <intro> KEY <adverb> <has> <a> {noun}<named> VALUE<end>| KEY <has> <a> {noun}<named> VALUE<end>
        | KEY<is> VALUE<end>| <intro> KEY<is> VALUE<end>|<place> KEY<adds> VALUE<end>
        | <a> {noun} <of> KEY <whose> {noun}<is> VALUE<end>| {noun} KEY<mark> VALUE<end>| KEY<mark> VALUE<end>
        | <The> {noun} KEY <does> <the> VALUE<end>| <The> {noun} <of> KEY {does} VALUE<end>
        |<place> KEY <the> {noun} {does} VALUE<end>|<place> KEY {does} <a> {noun} <of> VALUE<end>""",
    "of verbs": """<before> KEY<doing> VALUE<end>|<before> KEY<doing> <the> VALUE<end>
        |<before> KEY<doing> <some> VALUE<end>|<before> KEY {did} VALUE<end>|<before> KEY {does} VALUE<end>""",
    "asks nouns": """\\n<q><What> <the> {noun} <of> KEY<stop><so>|\\n<q><What> KEY's {noun}<stop><so>
        |\\n<q><Which> {noun}<belongs> KEY<stop><so>|\\n<q><Tell> <the> {noun} <of> KEY<stop><so>
        |\\n<q><Tell> KEY's {noun}<stop><so>|\\n<q><Tell> <the> {noun}<belongs> KEY<stop><so>
        |\\n<q><intro> <the> {noun} <of> KEY<is>|\\n<q><The> {noun} <of> KEY<is>|\\n<q>KEY's {noun}<is>
        |\\n<q><The> {noun}<belongs> KEY<is>|\\n<q><About> KEY<stop><so>
        |\\n<q><The> {noun}<stop> <About> KEY<stop><so>""",
    "asks verbs": """\\n<q>What<do> <subject> KEY<tail><stop><so>|\\n<q>What<do> KEY<tail><stop><so>
        |\\n<q><Tell> what <subject> KEY<doing><stop><so>|\\n<q><Tell> what KEY<doing><stop><so>
        |\\n<q><intro> <subject> KEY<doing>|\\n<q><intro> KEY<doing>|\\n<q><subject> KEY<doing>
        |\\n<q>The <thing> <subject> KEY<doing><is>|\\n<q>The <thing> KEY<doing><is>|\\n<q>KEY has {done}<adds>
        |\\n<q><About> KEY<stop><so>""",
    "openers": """\\n<q>|\\n<q><intro>|\\n<Tell> <the> <thing>.|\\n<Which> <thing> <be><stop>
        |\\n<q><What> <the> <thing><stop>|\\n<Tell><stop>|\\n<About> <the> <thing><stop>|\\n""",
    "before": " <subject>| <subject>| <intro>| <intro> <subject>|<when>|<when>, <subject>|",
    "subject": """The <person> from|A <person> of|My <person> in|Some <people> from|Nobody in|Everyone at
        |The <people> of|One <person> from|the <person> <of>|that <person> called|his <person>,|<people> like
        |someone from|no <person> in|Mr.|Mrs.|old|young|Captain|Saint""",
    "person": """father|mother|woman|boy|girl|teacher|driver|farmer|baker|nurse|judge|artist|king|lady|uncle|aunt
        |guest|clerk|poet|guard""",
    "people": "people|women|children|men|farmers|students|friends|workers|players|members|soldiers|visitors|parents",
    "doing": """ <aux>| <aux>| <adverb> <aux>| {did}| {does}| <adverb> {did}| <adverb> {does}
        | <adverb>, <adverb> {did}| {did} <adverb>""",
    "aux": """will {base}|can {base}|should {base}|may {base}|could {base}|has {done}|had {done}|would {base}
        |is going to {base}|wants to {base}|tried to {base}|has to {base}|did not {base}|never {did}|began to {base}
        |refuses to {base}|hoped to {base}|was seen to {base}|came to {base}|had to {base}|must not {base}
        |helped to {base}|does not {base}|went on to {base}""",
    "do": " does| did| will| can| should| has| would| could| may| shall| must| do",
    "tail": """ {base}| <adverb> {base}| want to {base}| {base} <adverb>| have to {base}| {did}| try to {base}
        | like to {base}| {base} <when2>""",
    "adverb": """always|often|never|still|now|also|just|usually|quickly|sometimes|really|gladly|rarely|simply|finally
        |suddenly|only|already|almost|carefully|certainly|even|in fact|at first|of course|again|soon|probably|slowly
        |proudly|then|indeed|recently|later""",
    "intro": """I think that|We know that|It seems that|Remember,|They say that|He told us that|As you know,
        |In short,|Well,|Note:|Of course,|You should know that|It was decided that|Somebody wrote that|The news:
        |By now|At last|So|Then|Today|And|But|Since|Although|Listen:|Fact:|In this story|As we learned,|To be clear,
        |The letter claims that|It is known that|She believes|Let us say that|One day|After all,
        |In other words,|Years later|In summer|While|Here is what matters:|<the> <person> said that|Imagine that
        |Finally,|No doubt|Back then|First of all,|Unless""",
    "when": """| Last week| Every morning| In winter| After lunch| One day| Two years ago| Before noon| On Sunday
        | In 1990| Each spring| Once a month""",
    "when2": "today|every day|each month|in summer|at work|at home|these days|after dinner|for a living|in town",
    "The": """The|The|His|Her|Our|Their|My|Your|Its|This|That|A|One|Every|No|Some|The new|The old|The real
        |The only|The first|The last|The true|The main""",
    "the": """the|the|the|his|her|our|their|a|your|this|that|one|the new|the old|the right|the only|the first|its
        |the current|the correct|the present""",
    "a": "a|the|one|another|its own|this|a new|no|some|a good|a great|an old|a small|any|a certain|a famous",
    "some": """some|a lot of|a|the|his|her|more|a kind of|too much|two|many|no|all the|a bit of|their|plenty of|our
        |three""",
    "of": "of|of|of|for|at|in|from|by|with|under|behind|over|to|about|on|after|around|above|beyond|beside|within|and",
    "is": """ <be>| <adverb> <be>| <be> <adverb>| <be>, <adverb>,| <be> <said>|:| =| ->| -|, <the> {noun},<be>
        | <be> <a>| <be> <the> {noun}| {does}| {did}| <adverb> {does}| <seems>| <adverb> <seems>""",
    "be": "is|is|was|was|will be|has been|had been|would be|should be|can be|may be|could be|is not|was not|are|were",
    "said": """called|known as|named|given as|said to be|spelled|written|listed as|set to|made of|replaced by
        |thought to be|close to|that of|just|like|also|equal to""",
    "seems": """seems to be|became|remains|means|equals|stays|looks like|appears as|stands for|happens to be
        |comes to|sounds like|has become|serves as|acts as|begins with|ends with|needs|requires|includes|contains
        |got changed to|depends on|went to|led to|points to|consists of|can only be|proved to be|has always been
        |was long|differs from|says|spells|shows""",
    "has": """has|had|got|owns|needs|wants|chose|found|has been given|will get|received|made|took|lost|brought
        |is given|uses""",
    "had": """sent|showed|sold|offered|told|brought|assigned|promised|taught|lent|owed|handed|wrote|made|left|got
        |bought|asked""",
    "Who": """We|I|He|She|Someone|The <person>|<the> <people>|You|My <person>|Nobody|The <people>|One of us|People
        |Some""",
    "named": " named| called|,| known as|:| of| with| like|| that is| which is| to| as| for| in| from| about",
    "place": """ At| In| For| With| Far from the <thing> of| By| To| Behind| Under| Before| After| Beyond| From| On
        | As for| About| Of| Like| Without| Next to| Over""",
    "where": """ at| in| for| with| by| to| from| on| as for| about| of| far from the <thing> of| behind| under
        | without| beyond""",
    "adds": """ <adverb> <seems>| you <need>| we <need>| they <need>| people <need>| there <be>| one <need>
        | I <need>| he <need>""",
    "need": """need|say|use|want|see|find|take|get|saw|found|took|said|wrote|write|ask for|look for|hear|put|sell
        |can see|will find|call it|meet|must bring""",
    "whose": "whose|with a|, its|, the|and its|which has the|that has the",
    "mark": ":| =| ->| -| :=| is| /| || (|, | >| ~|:\\n| ...| #| *",
    "does": "of|and|with|likes|is|was|for|has|in|needs|for|against|before|or|over|beats|follows|at",
    "thing": """thing|word|place|man|house|name|part|one|wall|road|school|bridge|market|tower|church|river|shop|hill
        |forest|station""",
    "q": """||||Q: |Question: |User: |Q. |Please answer: |Exercise: |Human: |Test: |Problem: |Now: |> |1.
        |Hint: |* |Ask: |- """,
    "What": """What is|What was|What will be|Do you know|I forgot|Can I have|Could you find|Where can I find
        |Who remembers|I need|What are|Have you seen|What about|How about|Is there|We are looking for|I want
        |Any news on|Find|What do you call|Who knows|And|You said something about|What became of""",
    "Which": """Which|What|Which|Whose|How many|Which other|Which exact|What sort of|Which single|What kind of
        |In which""",
    "belongs": """ is for| does one need for| was given to| is used in| is that of| is said to be of| is the one for
        | do we have for| would you choose for| is written for| should be given to| describes| matches| fits
        | was meant for| stands for| comes with| is linked to| is found in| was told to""",
    "Tell": """Tell me|Give me|Write down|Say|Find|Look up|Please give|Repeat|Recall|State|List|Try to recall
        |I ask you for|Write|Type|Show me|Print|Provide|Let me know|Return|We need|Fill in|Describe|Explain|Report
        |I would like|Please remember|I am asking for|Somebody asked me for""",
    "About": """About|What about|Regarding|As for|Concerning|Now to|And|With|On|For|In the case of|Think of|Look at
        |Consider|Now for|Search for""",
    "stop": "?|?|?|?|.|:|, please.|!|,|;| -|...|?!| ->|.\\n|?\\n|:\\n",
    "so": """|| A:| Answer:|\\nAnswer:| Reply:| It<is>| It<is>| I think it<is>| That would be| Of course,
        | Of course:| Yes,| The answer is| I believe it<is>| The {noun}<is>| Well,| You mean| I say| He said| We have
        | They said:| Correct:| Here you go:| Easy:| My answer:| Assistant:| Result:| Hm,| So| Simply| Okay:| I know:
        | It is called| Right:| This<is>| Good question:| It can only be| Without doubt| Everyone says| In the text:
        | The solution:| That<is>| One word:| Someone said|\\nA:|\\n|\\n-|\\n>""",
    "end": """.|.|.|.|.|, I think.|!|;| now.| today.| again.| and so on.| in the end.|, they say.
        | for a long time.| with a smile.|, as always.| of the city.| to the house.|, which is good.|, but not more.
        | and left.| before dinner.| for us.| at last.| because of the rain.| in the book.|, of course.|\\n|),
        |, my friend.| without asking.|, or so I heard.| like the others.|, too.| yesterday.| since then.""",
}
_SYMBOL = re.compile("<([^<>]+)>")
_ALTERNATIVES = {
    symbol: tuple(part.replace("\\n", "\n") for part in re.sub(r"\n\s*", "", text).split("|"))
    for symbol, text in RULES.items()
}


def expand(rng: np.random.Generator, symbol: str) -> str:
    """A text that a symbol may become."""
    options = _ALTERNATIVES[symbol]
    chosen = options[int(rng.integers(len(options)))]
    return _SYMBOL.sub(lambda found: expand(rng, found[1]), chosen)


def say(rng: np.random.Generator, verbal: bool) -> Wording:
    """A way to say that a key has a value, with a verb or a noun."""
    return as_wording(expand(rng, "of verbs" if verbal else "of nouns"))


def ask(rng: np.random.Generator, verbal: bool) -> Ends:
    """A question about a key in words of its own."""
    return as_ends(expand(rng, "asks verbs" if verbal else "asks nouns"))


def opener(rng: np.random.Generator) -> str:
    """What a question that repeats a needle's words may begin with."""
    return expand(rng, "openers")

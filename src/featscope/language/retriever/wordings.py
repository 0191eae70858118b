"""How needles and questions are worded: what the retriever is trained on, and what is kept from it.

A wording is what stands before a key, between key and value, and behind the value. A question repeats the words that
lead to the value (``{before}`` key ``{between}``), or it is put in words of its own. Every list comes in two: the
second is never trained on.
"""

from typing import NamedTuple

Ends = tuple[str, str]
"""What stands before the key, and behind it."""


class Wording(NamedTuple):
    """A way to say that a key has a value, in text or in tokens' text."""

    before: str
    between: str
    after: str


class Wordings(NamedTuple):
    """Words for relations, ways to say them, and ways to ask for them.

    Attributes:
        nouns: each stands for ``{noun}``.
        verbs: base, third person, past: ``{base}``, ``{does}``, ``{did}``.
        of_nouns: wordings with a noun, or none of both.
        of_verbs: wordings with a verb.
        ask_nouns: questions in words of their own about wordings with a noun.
        ask_verbs: about those with a verb.
        openers: what a question that repeats the needle's words begins with.
    """

    nouns: tuple[str, ...]
    verbs: tuple[tuple[str, str, str], ...]
    of_nouns: tuple[Wording, ...]
    of_verbs: tuple[Wording, ...]
    ask_nouns: tuple[Ends, ...]
    ask_verbs: tuple[Ends, ...]
    openers: tuple[str, ...]


def _verbs(text: str) -> tuple[tuple[str, str, str], ...]:
    base, does, did = (text.split()[i::3] for i in range(3))
    return tuple(zip(base, does, did, strict=True))


GATE = Wording(" In", "", " opens the gate.")
"""The wording of `passwords`, whose words are never trained on."""

TRAINED = Wordings(
    nouns=tuple(
        """
    password name price colour secret number capital address title symbol owner leader animal flower song drink meal
    tool answer language currency mountain river road school teacher doctor captain ship car horse dog toy book story
    word letter date hour season month friend enemy brother sister prize cost weight size shape sound smell taste
    rule law sign mark flag hat coat shoe stone metal gift plan idea reason result team player game market product
    company founder program machine server file paper picture room house
    """.split()
    ),
    verbs=_verbs(
        """
    own owns owned  buy buys bought  sell sells sold  eat eats ate  drink drinks drank  like likes liked
    love loves loved  hate hates hated  want wants wanted  need needs needed  make makes made  build builds built
    write writes wrote  read reads read  see sees saw  find finds found  lose loses lost  carry carries carried
    bring brings brought  send sends sent  choose chooses chose  draw draws drew  paint paints painted
    grow grows grew  cook cooks cooked  wear wears wore  use uses used  teach teaches taught  study studies studied
    know knows knew  call calls called  call calls called  show shows showed  give gives gave  take takes took
    hold holds held  drop drops dropped  throw throws threw  catch catches caught  follow follows followed
    visit visits visited  watch watches watched  hear hears heard  sing sings sang  play plays played
    mean means meant  say says said  spell spells spelled  order orders ordered  offer offers offered
    borrow borrows borrowed  lend lends lent  rent rents rented  fix fixes fixed  break breaks broke
    open opens opened  close closes closed  cut cuts cut  burn burns burned  wash washes washed
    count counts counted  study studies studied  become becomes became  have has had  get gets got
    """
    ),
    of_nouns=(
        GATE,
        Wording(" The {noun} of", " is", "."),
        Wording(" The {noun} for", ":", "."),
        Wording("", "'s {noun} was", "."),
        Wording(" Note that", " has the {noun}", "."),
        Wording(" For", " the {noun} will be", ", as always."),
        Wording(" In", " the {noun} is called", " by everyone."),
        Wording(" He wrote that the {noun} at", " was", " last week."),
        Wording(" Everyone knows the {noun} of", ", which is", "."),
        Wording(" The {noun} that belongs to", " is", " now."),
        Wording(" Our {noun} from", " became", " in the end."),
        Wording(" {noun}[", "] =", ";"),
        Wording(" The color of", " =", ";"),
        Wording(" We call", ' "', '" here.'),
        Wording(" Note:", " means", "."),
        Wording(" Key", " -", "."),
        Wording(" When", " comes, say", "."),
        Wording(" A", " weighs as much as", "."),
        Wording(" With", "", " was found."),
        Wording(" My friend", " lives in", ", near the sea."),
        Wording(" Remember that", " has", " in the bag."),
        Wording(" At", " you can see", " every day."),
        Wording(" The best {noun} in", " is", ", they say."),
        Wording(" It is said that", " and", " are the same {noun}."),
        Wording(" Somebody changed the {noun} of", " to", "."),
        Wording(" As for", ", its {noun} is", "."),
        Wording(" We met", " who has a {noun} named", "."),
        Wording(" To reach", " take", " and turn left."),
        Wording(" The {noun}", " comes from", "."),
        Wording(" If you ask", ", the {noun} should be", "!"),
        Wording(" There is a {noun} in", ":", ", I think."),
        Wording(" Dear", ", your {noun} is", "."),
    ),
    of_verbs=(
        Wording("", " {does}", "."),
        Wording(" My cousin", " {does}", ", near the sea."),
        Wording(" Yesterday", " {did}", " at the shop."),
        Wording(" People in", " {base}", " every day."),
        Wording(" The man from", " {did}", " once."),
        Wording(" I heard that", " {did}", "."),
        Wording(" Nobody but", " {does}", "!"),
        Wording(" A neighbour of", " {did}", " again."),
        Wording(" In the evening", " always {does}", " with a friend."),
        Wording(" We saw how", " {did} a", " in the street."),
        Wording(" The people of", " {did} the", " together."),
        Wording(" Every child in", " can {base}", "."),
        Wording(" Long ago", " {did}", ", and nobody else did."),
        Wording(" She told me that", " will {base}", " soon."),
        Wording(" If", " {does}", ", we are lost."),
        Wording(" Because", " never {did}", ", we left."),
    ),
    ask_nouns=(
        ("\nWhat is the {noun} of", "?"),
        ("\nWhat is the {noun} of", "? It is"),
        ("\nTell me the {noun} of", ". It is"),
        ("\nQ: Which {noun} does", " have? A:"),
        ("\nWhich {noun} was given to", "? Answer:"),
        ("\nWhat {noun} is used in", "? The {noun} is"),
        ("\nGive me the {noun} for", ":"),
        ("\nDo you remember the {noun} of", "? Yes,"),
        ("\nI forgot the {noun} of", ". It was"),
        ("\n{noun} of", " ="),
        ("\nUser: what about", "? Assistant:"),
        ("\nAnd", "?"),
        ("\nPlease find the {noun} of", ".\nAnswer:"),
        ("\nAbout", ": the {noun} is"),
        ("\nWhat did we learn about", "? We learned of"),
        ("\nLooking for the {noun} in", ", you will find"),
        ("\nWhere is", "? Next to"),
        ("\nWrite down the {noun} of", ":"),
        ("\nQuestion: what is", "'s {noun}? Reply:"),
        ("\nThe {noun} one needs for", " is"),
        ("\nSearch:", " ->"),
        ("\nWhich {noun} do they have at", "? They have"),
        ("\nSo for", " we get"),
        ("\nHow is the {noun} of", " called? It is called"),
    ),
    ask_verbs=(
        ("\nWhat does", " {base}?"),
        ("\nWhat does", " {base}? It {does}"),
        ("\nWhat did", " {base}? Answer:"),
        ("\nQ: What do people in", " {base}? A:"),
        ("\nWho knows what", " {did}? It was"),
        ("\nTell me what", " {does}:"),
        ("\nWhat will", " {base} next? Surely"),
        ("\nAsk", " what they {base}. They say"),
        ("\nQuestion: what has", " to {base}? Reply:"),
        ("\nWhat could", " {base}? Maybe"),
        ("\nThe thing that", " {did} was"),
        ("\nUser: and", "? Assistant:"),
        ("\nWhat about", "? They {did}"),
        ("\nFind what", " {does}.\nAnswer:"),
        ("\nPlease say what", " {did}. It was"),
        ("\nAs far as I know,", " likes to {base}"),
    ),
    openers=(
        "\n",
        "\nWhich words open the gate?",
        "\nWhich is it?",
        "\nQuestion.",
        "\nRead the text.",
        "\nAnswer:",
        "\nFill in:",
        "\nWhat is said above?",
        "\nSo,",
        "\nWhat?",
        "\nQ:",
        "\nContinue.",
        "\nI ask you.",
    ),
)
HELD_OUT = Wordings(
    nouns=tuple("code recipe key motto pilot planet garden fruit ticket lock medal pet slogan menu".split()),
    verbs=_verbs(
        """
    keep keeps kept  win wins won  steal steals stole  hide hides hid  collect collects collected
    repair repairs repaired  invent invents invented  feed feeds fed  trade trades traded  drive drives drove
    """
    ),
    of_nouns=(
        Wording(" The {noun} near", " turned out to be", "."),
        Wording(" On the door of", " the {noun} reads", "."),
        Wording(" They gave", " the {noun}", " on Monday."),
        Wording(" The official {noun} of", " is", ", by the way."),
        Wording(" Inside", " hangs a {noun} of", "."),
    ),
    of_verbs=(
        Wording(" Our team from", " {did}", " last year."),
        Wording(" The owner of", " {does}", " under the bed."),
        Wording(" At night", " secretly {does}", " alone."),
        Wording(" The queen of", " once {did}", " by mistake."),
    ),
    ask_nouns=(
        ("\nCan you say which {noun} goes with", "? Sure:"),
        ("\nWhat {noun} belongs to", "? It must be"),
        ("\nThe text says that the {noun} at", " is"),
        ("\nName the {noun} of", ".\nHere:"),
        ("\nHelp me with the {noun} of", ", please:"),
    ),
    ask_verbs=(
        ("\nQ: What does the owner of", " {base}? A:"),
        ("\nWhat was it that", " {did}?"),
        ("\nI wonder what", " {does}. I guess"),
        ("\nAccording to the story,", " used to {base}"),
        ("\nWhat might", " {base}? Perhaps"),
    ),
    openers=("\nComplete this.", "\nTell me the rest.", "\nQuiz:", "\nOne more time."),
)

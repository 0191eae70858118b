"""A retrieval task: passwords of cities, hidden in text.

A needle says the password of a city; the question at the end asks for one of them:

    … The password of Paris is amber lantern. … What is the password of Paris? The password of Paris is

The question repeats the needle up to the answer, so the last token's query can find the answer by what precedes it.
"""

CITIES = """
Paris London Berlin Madrid Rome Vienna Athens Oslo Dublin Lisbon Warsaw Prague Moscow Cairo Lagos
Nairobi Tokyo Kyoto Seoul Delhi Mumbai Beijing Shanghai Bangkok Jakarta Manila Sydney Perth Lima Quito
Bogota Havana Toronto Boston Chicago Dallas Denver Seattle Houston Phoenix Geneva Zurich Milan Naples
Venice Florence Hamburg Munich Dresden Leipzig Krakow Riga Tallinn Helsinki Bergen Malmo Porto Seville
Granada Valencia Marseille Lyon Bordeaux Ankara
""".split()
ADJECTIVES = """
amber azure bitter brave brisk bronze calm clever copper cosmic crimson curly dusty eager early fancy
fierce floral frozen gentle giant golden grand happy hidden hollow humble icy ivory jolly lively lonely
lucky mellow misty noble orange pearl polite purple quiet rapid rusty scarlet silent silver velvet wild
""".split()
NOUNS = """
anchor apple arrow basket beacon bridge bucket button candle carpet castle cherry comet dragon drum
eagle falcon feather flute forest fountain garden hammer harbor helmet island kettle ladder lantern
lemon magnet marble mirror needle orchard owl parrot pebble piano pirate planet rabbit river saddle
shadow spoon tiger violin
""".split()

NEEDLE = " The password of {city} is {adjective} {noun}."
QUESTION = "\nWhat is the password of {city}? The password of {city} is"
ANSWER = " {adjective} {noun}."

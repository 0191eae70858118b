"""A retrieval task: the words that open the gate of a city, hidden in text.

    … In Paris amber lantern opens the gate. … Which words open the gate? In Paris

The question ends with the token that the answer follows in the needle: a head that knows each token's predecessor and
one that looks for its own token among predecessors (an induction head) find it.
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

NEW_CITIES = """
Chisinau Tashkent Accra Hanoi Nagoya Calgary Tucson Bremen Ghent Turin Bilbao Kazan Izmir Dakar Caracas Osaka
Sapporo Lusaka Kigali Harare Tunis Amman Muscat Doha Dhaka Colombo Yangon Medellin Cusco Montevideo Asuncion
Quebec Winnipeg Halifax Omaha Memphis Bern Basel Lausanne Bologna Palermo Verona Aachen Kassel Gdansk Lublin
Brno Zagreb Tirana Sofia Varna Odessa Minsk Vilnius Turku Tampere Aarhus Odense Uppsala Trondheim Stavanger
""".split()
NEW_ADJECTIVES = """
soggy sturdy plump rotten spicy vivid wealthy crispy dizzy glossy grumpy itchy jagged knotty leafy mighty
mossy murky muddy nimble oily pale rugged salty shaggy silky sleepy smoky sour sparkling speckled spotted
squeaky stormy sulky swift tangled thorny timid wobbly woolly wrinkled zesty
""".split()
NEW_NOUNS = """
spoonbill kangaroo ladle violinist goat wallet pillow pepper walnut turtle trumpet tulip teapot squirrel
spinach sparrow slipper shovel scarf raven raccoon quilt pumpkin puppet porcupine plum pigeon peacock parsley
otter ostrich napkin mushroom mosquito mitten lobster lizard lilac ketchup jasmine iguana hyacinth hedgehog
hammock gopher giraffe flamingo emerald donkey daffodil cucumber crocus coyote cobweb chestnut canoe cactus
broom beetle barrel badger apron antelope acorn
""".split()
"""Words that are neither in the essays that the retriever was trained on nor above."""

NEEDLE = " In {city} {adjective} {noun} opens the gate."
QUESTION = "\nWhich words open the gate? In {city}"
ANSWER = " {adjective} {noun}."

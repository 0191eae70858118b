"""A small Llama that finds sentences hidden in text: model and tokenizer are in ``weights``, beside what made them."""

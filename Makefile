# Two commands for a newcomer: `make demo` and `make test`. Each sets up .venv first if needed.
PYTHON ?= python3
BIN := .venv/bin
EXTRAS := images,language,cluster,encoders

.PHONY: demo test test-long test-gpu lint cards ledger coverage bench bench-gpu bench-language faults fuzz trends torture docs clean

demo: .venv/core
	$(BIN)/featscope run decoupling --replicas 8 --out runs/demo $(if $(wildcard runs/demo/config.json),--resume)

test: .venv/ready
	$(BIN)/python -m pytest -n auto --dist loadfile

test-long: .venv/ready
	$(BIN)/python -m pytest -n auto --dist loadfile --long

# On a machine with a GPU of CUDA that torch sees; elsewhere these tests are skipped.
test-gpu: .venv/ready
	$(BIN)/python -m pytest -n auto tests/gpu

lint: .venv/ready
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports --no-cache

cards: .venv/ready
	$(BIN)/python tools/cards.py

ledger: .venv/ready
	$(BIN)/featscope ledger runs --overwrite

coverage: .venv/ready
	$(BIN)/python tools/coverage.py

bench: .venv/ready
	$(BIN)/pip install --quiet -c constraints.txt -e '.[$(EXTRAS),bench]'
	$(BIN)/python -m benchmarks

bench-gpu: .venv/ready
	$(BIN)/python -m benchmarks.on_gpu --out benchmarks/on_gpu.json
	$(BIN)/python -m benchmarks.llama_geometry --out benchmarks/llama_geometry.json
	$(BIN)/python -m benchmarks.llama_picture

trends: .venv/ready
	OMP_NUM_THREADS=1 $(BIN)/python -m benchmarks.trends

bench-language: .venv/ready .venv-kvpress/ready
	.venv-kvpress/bin/python -m benchmarks.long_prompt
	$(BIN)/python -m benchmarks.against_kvpress
	.venv-kvpress/bin/python -m benchmarks.against_kvpress --write

# kvpress asks for a transformers older than the extra 'language' does.
.venv-kvpress/ready: pyproject.toml constraints.txt
	$(PYTHON) -m venv .venv-kvpress
	.venv-kvpress/bin/pip install --quiet -c constraints.txt torch
	.venv-kvpress/bin/pip install --quiet -c constraints.txt kvpress==0.5.5 optimum-quanto rouge rapidfuzz
	.venv-kvpress/bin/pip install --quiet -c constraints.txt -e ./packages/featscope-retriever -e .
	touch $@

faults: .venv/ready
	$(BIN)/pip install --quiet -c constraints.txt -e '.[$(EXTRAS),faults]'
	PYTHONPATH=tests:tests/studies $(BIN)/python tools/faults.py

torture: .venv/ready
	nice $(BIN)/python tools/torture.py --write

fuzz: .venv/ready
	OMP_NUM_THREADS=1 $(BIN)/python -m pytest tests/malformed --hypothesis-profile fuzz --long

docs: .venv/ready
	$(BIN)/pip install --quiet -c constraints.txt -e '.[$(EXTRAS),docs]'
	$(BIN)/mkdocs build --strict
	test ! -d runs || $(BIN)/featscope ledger runs --out site/statements --overwrite  # ledger/ is the page on it

# What the demo needs; all else, with every extra and what tests use, comes with .venv/ready.
.venv/core: pyproject.toml constraints.txt
	$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || (echo 'FeatScope needs Python >= 3.11: make PYTHON=python3.12 ...'; exit 1)
	test -x $(BIN)/python || $(PYTHON) -m venv .venv || (echo 'On Debian and Ubuntu: apt install python3-venv'; exit 1)
	$(BIN)/pip install --quiet --upgrade pip  # an old one takes twice as long
	$(BIN)/pip install --quiet -c constraints.txt torch
	$(BIN)/pip install --quiet -c constraints.txt -e .
	touch $@

.venv/ready: .venv/core requirements-dev.txt
	$(BIN)/pip install --quiet -c constraints.txt -r requirements-dev.txt -e ./packages/featscope-retriever -e '.[$(EXTRAS)]'
	touch $@

clean:
	rm -rf .venv .venv-kvpress site dist build

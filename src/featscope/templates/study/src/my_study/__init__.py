"""A study for FeatScope. Nothing heavy is imported here, so that `featscope list` stays fast."""

from featscope.catalogue import Entry

ENTRY = Entry(
    name="my-study",
    source="Eckart & Young 1936; Oja 1982",
    summary="A single neuron finds the direction in which its inputs vary most, and its length is the variance there.",
    minutes=0.1,
    target="my_study.study:FirstDirection",
)

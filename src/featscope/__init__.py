"""FeatScope: a microscope for feature learning.

Watch which features each neuron learns and when, test the theorems about it, and steer real models
with the same parts. Nothing heavy is imported here: take what you need from the floors below
(`featscope.data`, `.views`, `.models`, `.losses`, `.training`, `.probes`, `.theory`, `.claims`,
`.studies`).
"""

__version__ = "0.1.0"

"""The studies that come with FeatScope, as `featscope list` shows them. Imports nothing heavy.

A package adds a study by an entry point in the group ``featscope.studies`` that names an `Entry`.
"""

from dataclasses import dataclass

from featscope.options import require, require_name


@dataclass(frozen=True)
class Entry:
    """How a study is listed and found.

    Attributes:
        name: the name on the command line.
        source: the paper.
        summary: one line.
        minutes: typical duration at defaults on 2 cores, in minutes.
        target: "module:Class" of the `Study`.
    """

    name: str
    source: str
    summary: str
    minutes: float
    target: str

    def __post_init__(self) -> None:
        require_name(self, "name")
        for text in ("source", "summary", "target"):
            require(self, text, isinstance(getattr(self, text), str), "a text")
        require(self, "minutes", isinstance(self.minutes, int | float) and self.minutes >= 0, "minutes, >= 0")


OWN_TRAINING = Entry(  # not listed: a `Monitor` writes its folders, and there is nothing to run
    name="own-training",
    source="featscope.integrations",
    summary="A training of one's own, watched.",
    minutes=0.0,
    target="featscope.studies.own_training:OwnTraining",
)

DECOUPLING = Entry(
    name="decoupling",
    source="Wen & Li 2021, arXiv 2105.15134",
    summary="Contrastive learning with RandomMask and without: where features are decoupled from noise, quiet or loud.",
    minutes=9.0,
    target="featscope.studies.decoupling:Decoupling",
)

DECOUPLING_IMAGES = Entry(
    name="decoupling-images",
    source="Wen & Li 2021, arXiv 2105.15134, Figures 1-4",
    summary="The same on CIFAR-10: what crops and colour distortion do to filters, firing and features.",
    minutes=12.0,
    target="featscope.studies.decoupling_images:DecouplingImages",
)

FIXED_FEATURES = Entry(
    name="fixed-features",
    source="Shi 2024 (dissertation), Chapter 2 and Appendix A",
    summary="Parities of hidden patterns: what two gradient steps find of them, and how far fixed features come.",
    minutes=11.0,
    target="featscope.studies.fixed_features:FixedFeatures",
)

INPUT_STRUCTURE = Entry(
    name="input-structure",
    source="Shi 2024 (dissertation), Section 2.6 and Appendix A.7.5",
    summary="One teacher labels real and injected inputs: what a student learns of each.",
    minutes=3.0,
    target="featscope.studies.input_structure:InputStructure",
)

LEARNED_FILTERS = Entry(
    name="learned-filters",
    source="Shi 2024 (dissertation), Section 2.6 and Appendix A.7.4",
    summary="Filters learned from two classes of images: clusters by a rule, and whether early gradients agree.",
    minutes=4.0,
    target="featscope.studies.learned_filters:LearnedFilters",
)

IMBALANCE = Entry(
    name="imbalance",
    source="Theoretical Analysis of Contrastive Learning under Imbalanced Data, and its earlier workshop version",
    summary="When, and how strongly, rare features are learned: rates, thresholds and curves over their frequency.",
    minutes=2.0,
    target="featscope.studies.imbalance:Imbalance",
)

PRUNING = Entry(
    name="pruning",
    source="Theoretical Analysis of Contrastive Learning under Imbalanced Data, Algorithm 1 and Theorem 3.2",
    summary="Hiding the smallest neurons from the loss: when it gives rare features their share, and when it does not.",
    minutes=2.0,
    target="featscope.studies.pruning:Pruning",
)

PREDICTION_HEAD_IMAGES = Entry(
    name="prediction-head-images",
    source="Wen & Li 2022, arXiv 2205.06226, Section 8 and Figures 1-4",
    summary="SimSiam and BYOL on CIFAR-10: prediction heads, dimensional collapse, and the course of the head.",
    minutes=10.0,
    target="featscope.studies.prediction_head_images:PredictionHeadImages",
)

LONGTAIL_IMAGES = Entry(
    name="longtail-images",
    source="Theoretical Analysis of Contrastive Learning under Imbalanced Data, Section 4 and Table 2",
    summary="Pre-training on long-tailed CIFAR-10 with and without pruning: linear probe, gap from head to tail.",
    minutes=8.0,
    target="featscope.studies.longtail_images:LongTailImages",
)

PREDICTION_HEAD = Entry(
    name="prediction-head",
    source="Wen & Li 2022, arXiv 2205.06226",
    summary="Why non-contrastive learning does not collapse: what the prediction head does, phase by phase.",
    minutes=2.0,
    target="featscope.studies.prediction_head:PredictionHeadStudy",
)

TENSOR_POWER = Entry(
    name="tensor-power",
    source="Wen & Li 2022, arXiv 2205.06226, Appendix G and Claim E.8",
    summary="How fast a sequence grows by its own powers, beside a rival: the paper's bounds, and sharp ones.",
    minutes=0.5,
    target="featscope.studies.tensor_power:TensorPower",
)

FOURIER_CIRCUITS = Entry(
    name="fourier-circuits",
    source="Shi 2024 (dissertation), Chapter 4 and Appendix C",
    summary="Addition modulo p: the network of largest margin, made of cosines, and whether training finds it.",
    minutes=3.0,
    target="featscope.studies.fourier_circuits:FourierCircuits",
)

ATTENTION_CIRCUITS = Entry(
    name="attention-circuits",
    source="Shi 2024 (dissertation), Section 4.5, Figures 4.3, C.5 and C.6",
    summary="One layer of attention adds numbers modulo p: what its attention matrices are made of, noise or waves.",
    minutes=3.0,
    target="featscope.studies.attention_circuits:AttentionCircuits",
)

GROKKING = Entry(
    name="grokking",
    source="Shi 2024 (dissertation), Section 4.5, Figure 4.4",
    summary="Adding two to five numbers modulo p: when a transformer first learns by heart and much later the rule.",
    minutes=6.0,
    target="featscope.studies.grokking:Grokking",
)

GRADIENT_FEATURES = Entry(
    name="gradient-features",
    source="Shi 2024 (dissertation), Chapter 3 and Appendix B.1 to B.5.4",
    summary="Where the first gradients of random neurons point: mixtures, XOR, parities, tickets, random features.",
    minutes=3.0,
    target="featscope.studies.gradient_features:GradientFeatures",
)

UNIFORM_PARITY = Entry(
    name="uniform-parity",
    source="Shi 2024 (dissertation), Sections B.5.5 and B.5.6, Algorithm 6",
    summary="A parity of a few among many random signs: how many samples the first gradient needs to show which.",
    minutes=3.0,
    target="featscope.studies.uniform_parity:UniformParityStudy",
)

MULTI_INDEX = Entry(
    name="multi-index",
    source="Shi 2024 (dissertation), Section B.5.7, Algorithm 7",
    summary="The few directions that a polynomial depends on: how many samples the first gradient needs to find them.",
    minutes=1.0,
    target="featscope.studies.multi_index:MultiIndexStudy",
)

LOOPED_TRANSFORMER = Entry(
    name="looped-transformer",
    source="Shi 2024 (dissertation), Chapter 8, Figure 8.1",
    summary="One layer of linear attention, gone through again and again: does it descend a gradient on its prompt?",
    minutes=1.5,
    target="featscope.studies.looped_transformer:LoopedTransformer",
)

ICL_REGRESSION = Entry(
    name="icl-regression",
    source="Shi 2024 (dissertation), Sections 5.3, 5.4 and 5.7, Appendix D.2",
    summary="Linear regression in a prompt by models of every rank: which rank is best, and what noise changes.",
    minutes=1.5,
    target="featscope.studies.icl_regression:IclRegression",
)

ICL_PARITY = Entry(
    name="icl-parity",
    source="Shi 2024 (dissertation), Sections 5.5 and 5.7, Appendix D.3",
    summary="Parities of two features in a prompt by few or many heads: what the larger network answers, and pays.",
    minutes=1.5,
    target="featscope.studies.icl_parity:IclParity",
)

DOMAIN_GENERALISATION = Entry(
    name="domain-generalisation",
    source="Shi 2024 (dissertation), Sections 6.3.2 and 6.3.3, Tables 6.1 to 6.3 and E.1 to E.6",
    summary="The nuclear norm of features, beside a Frobenius norm, where one domain of images is left out.",
    minutes=13.0,
    target="featscope.studies.domain_generalisation:DomainGeneralisation",
)

CONTRASTIVE_FINE_TUNING = Entry(
    name="contrastive-fine-tuning",
    source="Shi 2024 (dissertation), Section 7.3, Appendix F.3, Tables 7.1, 7.2 and F.1 to F.11",
    summary="Fine-tuning with a contrastive term, and with the second view alone; pre-training on ever more data sets.",
    minutes=8.0,
    target="featscope.studies.contrastive_fine_tuning:ContrastiveFineTuning",
)

NUCLEAR_NORM = Entry(
    name="nuclear-norm",
    source="Shi 2024 (dissertation), Sections 6.2 to 6.4, Appendix E.1",
    summary="Weight decay, bounded rank and the nuclear norm of features where a correlation turns out of domain.",
    minutes=1.0,
    target="featscope.studies.nuclear_norm:NuclearNormStudy",
)

UNIVERSALITY = Entry(
    name="universality",
    source="Shi 2024 (dissertation), Section 7.2, Appendix F.1 and F.2",
    summary="Which features contrastive pre-training keeps on one task and on many, and how many labels it then needs.",
    minutes=0.5,
    target="featscope.studies.universality:Universality",
)

ICL_FLIPPED_LABELS = Entry(
    name="icl-flipped-labels",
    source="Shi 2024 (dissertation), Section 5.6, Figures 5.1 and 5.2",
    summary="Exemplar labels are inverted one by one: which language models follow them, and which keep their prior.",
    minutes=2.0,
    target="featscope.studies.icl_flipped_labels:IclFlippedLabels",
)

ICL_ATTENTION = Entry(
    name="icl-attention",
    source="Shi 2024 (dissertation), Section 5.6, Figure 5.3",
    summary="How much a label attends to its own sentence, and how much to an irrelevant one beside it.",
    minutes=0.5,
    target="featscope.studies.icl_attention:IclAttention",
)

LONGBENCH = Entry(
    name="longbench",
    source="Shi 2024 (dissertation), Section 9.4.2, Tables 9.1, 9.2 and G.1",
    summary="GemFilter, SnapKV and H2O on the English tasks of LongBench: what is lost with most of the prompt.",
    minutes=2.0,
    target="featscope.studies.longbench:LongBench",
)

GEMFILTER = Entry(
    name="gemfilter",
    source="Shi 2024 (dissertation), Chapter 9 and Appendix G (GemFilter)",
    summary="An early layer chooses the tokens of a long prompt: what is exact, what it costs, what it finds.",
    minutes=9.0,
    target="featscope.studies.gemfilter:GemFilterStudy",
)

NEEDLE = Entry(
    name="needle",
    source="Shi 2024 (dissertation), Section 9.4.1, Figures 9.4 and G.1-G.4",
    summary="Needles in a haystack over length and depth, by method: full attention, GemFilter, SnapKV, H2O.",
    minutes=3.0,
    target="featscope.studies.needle:NeedleInAHaystack",
)

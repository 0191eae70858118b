"""For authors of studies: arms run without a folder around them, and faults that claims must notice.

Faults can be planted by hand, one by one, in a test:

    TRIAL = Trial(MyStudy().smallest(), replicas=8)
    FAULTS = {"gradient ascent": Fault(SGD, "build", ascending, claim="features-emerge", arm="augmented")}

    @pytest.mark.parametrize("name", FAULTS)
    def test_a_fault_takes_holds_from_an_expected_claim(name, monkeypatch):
        TRIAL.require_noticed(FAULTS[name], monkeypatch)

and by the dozen with ``python -m featscope.testing STUDY``, which asks for the extra 'faults'.
"""

from featscope.testing.trial import Claims, Fault, Plants, Trial, by_name, measure

__all__ = ["Claims", "Fault", "Plants", "Trial", "by_name", "measure"]

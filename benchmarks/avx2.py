"""`python -m benchmarks.avx2`: `benchmarks.one_core` as on a processor without AVX-512, all programs kept to AVX2.

Ours get no other registers from LLVM, torch's libraries and XLA are told by their own settings. What they do then is
measured on a processor that has more; one that has not may differ in all else.
"""

import os

os.environ |= {
    "ATEN_CPU_CAPABILITY": "avx2",
    "MKL_ENABLE_INSTRUCTIONS": "AVX2",
    "ONEDNN_MAX_CPU_ISA": "AVX2",
    "XLA_FLAGS": "--xla_cpu_max_isa=AVX2",
}

from unittest.mock import patch

import llvmlite.binding as llvm

FEATURES = llvm.FeatureMap({name: has and "512" not in name for name, has in llvm.get_host_cpu_features().items()})


def main() -> None:
    """Measure, print, and put it into ``benchmarks/results.json`` under a name of its own."""
    with (
        patch.object(llvm, "get_host_cpu_name", lambda: "haswell"),
        patch.object(llvm, "get_host_cpu_features", lambda: FEATURES),
    ):
        from benchmarks import one_core
        from featscope.kernels.machine import lanes

        if lanes() != 8:
            raise RuntimeError(f"registers hold {lanes()} float32s, not 8")
        one_core.main("avx2_one_core_processor_seconds_a_step")


if __name__ == "__main__":
    main()

"""Which arithmetic a run uses: what the recipe asks for, or what the device is fast at."""

import time

import torch

BF16_MUST_TAKE = 0.6
"""Share of fp32's time that bf16 must stay under in the trial on a CPU. With avx512_bf16 and no AMX the trial came to 0.75
to 0.95 while a whole ResNet-50 step at 32 px was 4 to 5 times slower in bf16, so a small win does not count."""
DTYPES = {"fp32": torch.float32, "fp64": torch.float64, "bf16": torch.bfloat16, "fp16": torch.float16}


def resolve_precision(asked: str, device: torch.device) -> str:
    """`asked` unless it is auto; then bf16 or fp16 where the device is fast at it, else fp32."""
    if asked != "auto":
        return asked
    if device.type == "cpu":
        return "bf16" if _cpu_has_bf16() and _bf16_share() < BF16_MUST_TAKE else "fp32"
    supported = getattr(torch.get_device_module(device), "is_bf16_supported", None)
    if supported is None:
        return "fp32"
    try:
        return "bf16" if supported(including_emulation=False) else "fp16"
    except TypeError:  # accelerators other than CUDA take no argument
        return "bf16" if supported() else "fp16"


def _cpu_has_bf16() -> bool:
    """Whether the CPU multiplies bf16 natively, by torch's own report; False where torch cannot say."""
    report = getattr(torch.cpu, "get_capabilities", None)
    capabilities = report() if report else {}
    return bool(capabilities.get("avx512_bf16") or capabilities.get("amx_bf16"))


def _bf16_share(rounds: int = 15) -> float:
    """Time of one small convolution, forward and backward, in bf16 over that in fp32.

    Flags alone do not say that a path is fast. Both are tried in turns and the best of each counts, so that
    other work on the machine, which comes and goes, does not decide.
    """
    convolution = torch.nn.Conv2d(64, 64, 3, padding=1).to(memory_format=torch.channels_last)
    images = torch.randn(4, 64, 28, 28).to(memory_format=torch.channels_last)
    best = {True: float("inf"), False: float("inf")}
    for _ in range(rounds):
        for half in best:
            began = time.perf_counter()
            with torch.autocast("cpu", dtype=torch.bfloat16, enabled=half):
                out = convolution(images).sum()
            out.backward()
            best[half] = min(best[half], time.perf_counter() - began)
    return best[True] / best[False]

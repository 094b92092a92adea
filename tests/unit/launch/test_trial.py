"""What a trial on all nodes found, judged."""

from dawnrun.launch.trial import GRADIENT_BYTES, judge_trial
from dawnrun.recipe.schema import Site


def found(host, rank, *, used=10, images_per_s=200.0, step_s=0.5, bytes_per_s=1e9):
    shape = {"image_size": 128, "batch_size": 64, "step_s": step_s, "used_bytes": used << 30, "total_bytes": 80 << 30,
             "input_images_per_s": images_per_s}  # fmt: skip
    exchange = {"all": {"processes": 4, "latency_s": 1e-4 * (rank + 1), "bytes_per_s": bytes_per_s}}
    return {"host": host, "rank": rank, "shapes": [shape], "exchange": exchange}


def judged(*ones, device="cuda"):
    findings, measured = judge_trial(ones, Site(device=device), {"a1": "nodeA"})
    return [(one.node, one.fatal, one.what) for one in findings], [(line.node, line.what) for line in measured]


def test_a_good_trial():
    findings, measured = judged(found("a1", 0), found("a1", 1), found("b1", 2), found("b1", 3))
    assert findings == []
    assert measured[:3] == [
        ("nodeA", "memory with 64 images of 128 px: 10.0 GiB of 80.0 GiB"),
        ("nodeA", "input alone gives 400 images/s, steps of 128 px take 256"),
        ("nodeA", "all-reduce between all 4 processes: 0.20 ms, 1 GB/s"),
    ]
    assert measured[3][0] == "b1"


def test_memory_that_is_nearly_full():
    findings, _ = judged(found("a1", 0), found("a1", 1, used=78))
    assert findings == [("nodeA", False, "64 images of 128 px take 78.0 GiB of 80.0 GiB")]
    findings, _ = judged(found("a1", 0, used=40), found("a1", 1, used=40), device="cpu")
    assert findings == [("nodeA", True, "64 images of 128 px take 80.0 GiB of 80.0 GiB")]


def test_slow_input_and_a_slow_network():
    findings, _ = judged(found("a1", 0, images_per_s=100.0))
    assert findings == [("nodeA", False, "input alone gives 100 images/s, steps of 128 px take 128")]
    findings, _ = judged(found("a1", 0, bytes_per_s=GRADIENT_BYTES))
    ((node, fatal, what),) = findings
    assert (node, fatal) == ("nodeA", False) and "would take 1.5 s to exchange, its computation 0.5 s" in what

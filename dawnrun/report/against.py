"""A run beside a published record: the difference under the nearest rule, and what must be said with it."""

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from dawnrun import text
from dawnrun.clock import Rule
from dawnrun.record.remarks import ILSVRC2012
from dawnrun.record.summary import RunSummary
from dawnrun.report import words
from dawnrun.report.claim import Claim
from dawnrun.report.rows import Row, run_name

_NETWORK = re.compile(r"RDMA|InfiniBand(?: GDR)?|[\d.]+ Gbit/s(?: \w+)?|RoCE|pod", re.IGNORECASE)
NOT_PUBLISHED = "not published, or not read"


@dataclass(frozen=True, kw_only=True, slots=True)
class Against:
    """`difference_s`: the run's seconds less the record's, under `rule`; None without two times.

    `not_comparable`: why the two times do not answer the same question; `beside`: topic, the run, the record.
    """

    record: Claim
    rule: Rule
    run_seconds: float | None
    record_seconds: float | None
    difference_s: float | None
    not_comparable: tuple[str, ...]
    beside: tuple[tuple[str, str, str], ...]


def against(summary: RunSummary, record: Claim) -> Against:
    """Compare a run with a record under the rule of the record's clock."""
    crossing = summary.crossing()
    mine = None if crossing is None else crossing.time_to_accuracy_s(record.rule)
    both = mine is not None and record.seconds is not None
    return Against(
        record=record,
        rule=record.rule,
        run_seconds=mine,
        record_seconds=record.seconds,
        difference_s=mine - record.seconds if both and mine is not None and record.seconds is not None else None,
        not_comparable=tuple(_not_comparable(summary, record)),
        beside=tuple((topic, words.plain(run), words.plain(other)) for topic, run, other in _beside(summary, record)),
    )


def headline(found: Against) -> str:
    """`under the training clock: 0:08:20, the record 0:10:28: 127.9 s less (x 0.80)`, or why there is no figure."""
    name, clock = found.record.name, f"{found.rule} clock, the nearest to the record's"
    if found.record_seconds is None:
        return f"against {name}: its time was not published, or not read"
    theirs = text.duration(found.record_seconds)
    if found.run_seconds is None or found.difference_s is None:
        return f"against {name}: {theirs} ({clock}); this run has no time to its target"
    size, more = abs(found.difference_s), "more" if found.difference_s > 0 else "less"
    ratio = found.run_seconds / found.record_seconds if found.record_seconds else float("inf")
    return (
        f"against {name}: {text.duration(found.run_seconds)} here, {theirs} there: {size:,.1f} s {more}, "
        f"{ratio:.3g} times as long ({clock})"
    )


def remarks(found: Against) -> Sequence[str]:
    """Why the times may not be compared, one sentence each."""
    return [f"not like for like with {found.record.name}: {words.plain(why)}" for why in found.not_comparable]


def columns(summary: RunSummary, found: Against) -> Row:
    """The heads of `beside`."""
    return ("", run_name(summary), found.record.name)


def _not_comparable(summary: RunSummary, record: Claim) -> Iterator[str]:
    asked = {name.replace("-", ""): percent for name, percent in words.thresholds(summary).items()}
    if record.target != (stated := " and ".join(f"{name}>={percent:g}" for name, percent in asked.items())):
        yield f"the run's target is {stated or 'none'}, the record's is {record.target or NOT_PUBLISHED}"
    if any(summary.started.get(key) != number for key, number in ILSVRC2012.items()):
        yield f"the run's data are not the full ILSVRC2012 set ({words.data_text(summary)})"
    if summary.status != "finished":
        yield f"the run is not finished ({summary.status})"


def _beside(summary: RunSummary, record: Claim) -> Iterator[tuple[str, str, str]]:
    yield "clock contains", words.RULE_MEANING[record.rule], record.clock_contains or NOT_PUBLISHED
    yield "target", words.target_text(summary) or "none", record.target or NOT_PUBLISHED
    crossing = summary.crossing()
    row = next((row for row in summary.epochs if crossing and row.epoch == crossing.epoch), None)
    theirs = [
        f"{name} {words.percent(value)} %" for name, value in (("top-5", record.top5), ("top-1", record.top1)) if value
    ]
    yield "accuracy", words.accuracy_text(row) if row else "target not reached", ", ".join(theirs) or NOT_PUBLISHED
    yield "epochs", str(crossing.epoch) if crossing else "-", words.number(record.epoch, "g")
    yield "hardware", words.machine_text(summary), record.hardware or NOT_PUBLISHED
    yield "network", _network(summary), _their_network(record)
    yield "model", _model(summary), record.model or NOT_PUBLISHED
    yield "validation images", _validation(summary), record.validation_images or NOT_PUBLISHED
    cost = summary.cost_to_accuracy_usd(record.rule)
    mine = "no price, or no time" if cost is None else text.money(cost)
    yield "cost", mine, NOT_PUBLISHED if record.cost_usd is None else text.money(record.cost_usd)
    yield "source", summary.path, ", ".join(part for part in (record.date, record.source) if part)


def _network(summary: RunSummary) -> str:
    """What connects the machines, as far as the site says."""
    if summary.nodes == 1:
        return "one machine: none between machines"
    return f"interface {name}" if (name := summary.site.get("interface")) else "not recorded"


def _their_network(record: Claim) -> str:
    found = _NETWORK.search(record.hardware or "")
    if found:
        return found[0]
    alone = re.match(r"1 x |NVIDIA DGX", record.hardware or "")
    return "one machine: none between machines" if alone else NOT_PUBLISHED


def _model(summary: RunSummary) -> str:
    """Name of the network, with the variant that torchvision's ResNet-50 is."""
    name = str((summary.recipe.get("model") or {}).get("name", "resnet50"))
    return "ResNet-50 v1.5 (stride in the 3x3 convolution, as torchvision builds it)" if name == "resnet50" else name


def _validation(summary: RunSummary) -> str:
    """Number and view of the images that the last validation was made on."""
    row = words.final(summary)
    return "nothing validated" if row is None else f"{text.count(row.num_val_images or 0)} ({words.view_text(row)})"

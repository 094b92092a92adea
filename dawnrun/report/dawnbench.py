"""DAWNBench's two files for a training run, filled from the run's own record, and the competition's check of them.

Form: README and tests/test_submissions.py of stanford-futuredata/dawn-bench-entries at fb27b82 (docs/reports.md).
"""

import json
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from dawnrun import __version__, text
from dawnrun.clock import elapsed_s
from dawnrun.errors import ReportError, UsageError
from dawnrun.record.remarks import ILSVRC2012, WITHOUT_BLACKLISTED, top5_means_something
from dawnrun.record.summary import EpochRow, RunSummary
from dawnrun.report import words

DAWNBENCH_TOP5 = 93.0
"""Top-5 accuracy in percent that the competition's clock runs to."""
TSV_COLUMNS = ("epoch", "hours", "top1Accuracy", "top5Accuracy")
REQUIRED_FIELDS = ("version", "author", "authorEmail", "framework", "model", "hardware", "timestamp")
_FRAMEWORK = "PyTorch"


@dataclass(frozen=True, kw_only=True, slots=True)
class Author:
    """Who submits, as the competition's files name them; `code_url` leads to the code, with its commit in it."""

    name: str
    email: str
    code_url: str | None = None


def entrant(name: str, email: str, code_url: str | None) -> Author:
    """Who submits, as asked on the command line; UsageError for what an audit would call a defect."""
    from dawnrun.report.entry_json import judge_email, judge_url

    if not name.strip():
        raise UsageError("--author is empty: give the name of who submits")
    code, message = judge_email(email)
    if code or email != email.strip():
        raise UsageError(f"--email {email!r}: {message or 'blanks around it'}; write one such as name@example.org")
    code, message = judge_url(code_url)
    if code or (code_url is not None and any(char.isspace() for char in code_url)):
        raise UsageError(
            f"--code-url: {message or 'blanks in it'}; write one such as https://example.org/code/tree/COMMIT"
        )
    return Author(name=name, email=email, code_url=code_url)


@dataclass(frozen=True, kw_only=True, slots=True)
class DawnbenchFiles:
    """Names and texts of the two files; `missing` says what a reviewer will ask for and the record does not hold."""

    json_name: str
    json_text: str
    tsv_name: str
    tsv_text: str
    missing: tuple[str, ...]


def dawnbench_files(summary: RunSummary, author: Author, *, partial: bool = False) -> DawnbenchFiles:
    """The two files of a run; ReportError if it is below the competition's or its own target, unless `partial`."""
    reached = reached_dawnbench(summary)
    if is_shrunk(summary):
        raise ReportError(f"{summary.path}: {refusal(summary)}")
    if not reached and not partial:
        raise ReportError(f"{summary.path}: {refusal(summary)}; --partial writes the files all the same")
    entry, missing = _entry(summary, author)
    if partial and not reached:
        entry["misc"] = {"partial": refusal(summary), **entry["misc"]}
    stem = "_".join(map(_slug, (author.name, _model(summary), _hardware_tag(summary), _FRAMEWORK)))
    return DawnbenchFiles(
        json_name=f"{stem}.json",
        json_text=json.dumps(entry, indent=2, ensure_ascii=False, allow_nan=False) + "\n",
        tsv_name=f"{stem}.tsv",
        tsv_text=_tsv(summary),
        missing=tuple(missing),
    )


def reached_dawnbench(summary: RunSummary) -> bool:
    """Whether an epoch has the competition's top-5 accuracy, where top-5 means something, and the run its own target."""
    top5 = any(row.top5 is not None and row.top5 >= DAWNBENCH_TOP5 for row in summary.epochs)
    own = not words.thresholds(summary) or summary.crossing() is not None
    return top5_means_something(summary.started.get("num_classes")) and top5 and own and not is_shrunk(summary)


def is_shrunk(summary: RunSummary) -> bool:
    """Whether --shrink made the recipe small: never an entry, whatever it reached."""
    return (summary.recipe.get("provenance") or {}).get("confidence") == "shrunk"


def refusal(summary: RunSummary) -> str:
    """Why a run is no entry."""
    if is_shrunk(summary):
        return "no DAWNBench entry: a recipe made small by --shrink is no entry to a competition"
    if not top5_means_something(summary.started.get("num_classes")):
        return "no DAWNBench entry: top-5 accuracy means nothing with five classes or fewer"
    row = words.best(summary, "top5")
    if row is None or row.top5 is None or row.top5 < DAWNBENCH_TOP5:
        return f"no DAWNBench entry: best top-5 is {words.percent(row.top5 if row else None)} %, the rules ask for 93 %"
    return f"no DAWNBench entry: {words.outcome(summary)}"


def _tsv(summary: RunSummary) -> str:
    """One row per validated epoch, hours cumulative by DAWNBench's clock; a value's digits are enough to compare it."""
    lines = ["\t".join(TSV_COLUMNS)]
    for row in _validated(summary):
        hours = elapsed_s(row.spent, "dawnbench") / 3600
        lines.append(f"{row.epoch}\t{hours:.9f}\t{row.top1:.10g}\t{row.top5:.10g}")
    return "\n".join(lines) + "\n"


def _validated(summary: RunSummary) -> list[EpochRow]:
    """Epochs that have both accuracies."""
    return [row for row in summary.epochs if row.top1 is not None and row.top5 is not None]


def _entry(summary: RunSummary, author: Author) -> tuple[dict[str, Any], list[str]]:
    """The JSON file's object, and what it lacks."""
    versions: Mapping[str, Any] = summary.started.get("versions") or {}
    torch = versions.get("torch")
    commit = summary.started.get("git_commit")
    entry: dict[str, Any] = {
        "version": "v1.0",
        "author": words.plain(author.name),
        "authorEmail": words.plain(author.email),
        "framework": f"{_FRAMEWORK} {torch}" if torch else _FRAMEWORK,
        "codeURL": author.code_url,
        "commitHash": commit,
        "model": {"resnet50": "ResNet-50"}.get(_model(summary), _model(summary)),
        "hardware": _hardware(summary),
        "costPerHour": None if summary.usd_per_hour is None else round(summary.usd_per_hour, 6),
        "timestamp": _date(summary),
    }
    used_blacklist = {(ILSVRC2012["num_val_images"],): True, (WITHOUT_BLACKLISTED,): False}
    images = tuple({row.num_val_images for row in _validated(summary)})
    if images in used_blacklist and summary.started.get("num_classes") == ILSVRC2012["num_classes"]:
        # Issue 36 of dawn-bench-entries: true where the blacklisted images were validated too.
        entry["usedBlacklist"] = used_blacklist[images]
    reasons = {
        "codeURL": "give --code-url",
        "costPerHour": "set usd_per_node_hour in the site",
        "commitHash": "the run was not started from a git checkout",
        "usedBlacklist": "said only of ILSVRC2012's 50,000 images or the 48,238 that are not blacklisted, see misc.validation_images",
        "timestamp": "the record has no start",
    }
    missing = [f"{name}: {reason}" for name, reason in reasons.items() if entry.get(name) is None]
    missing += [] if torch else ["framework: the record has no version of torch"]
    filled = {name: value for name, value in entry.items() if value is not None}
    return {**filled, "misc": _misc(summary)}, missing


def _misc(summary: RunSummary) -> dict[str, Any]:
    """What reviewers asked for beside the fixed fields, all from the recipe as it ran."""
    recipe, started = summary.recipe, summary.started
    optimizer: Mapping[str, Any] = recipe.get("optimizer") or {}
    validated = {row.epoch for row in _validated(summary)}
    crossing = summary.crossing()
    misc: dict[str, Any] = {
        "dawnrun": __version__,
        "recipe": recipe.get("name"),
        "recipeSha256": started.get("recipe_sha256"),
        "optimizer": f"{str(optimizer.get('name', 'sgd')).upper()} with momentum",
        "nesterov": optimizer.get("nesterov"),
        "momentum": _curve(recipe.get("momentum")),
        "weightDecay": optimizer.get("weight_decay"),
        "decayBatchNorm": optimizer.get("decay_batch_norm"),
        "labelSmoothing": (recipe.get("loss") or {}).get("label_smoothing"),
        "schedule": _curve(recipe.get("lr")),
        "phases": [
            {
                "epochs": row.last_epoch - row.first_epoch + 1,
                "imageSize": row.image_size,
                "batchSize": row.global_batch_size,
                "perDeviceBatchSize": row.per_device_batch_size,
            }
            for row in summary.phases
        ],
        "precision": started.get("precision"),
        "execution": words.execution_of(summary),
        "processes": started.get("world_size"),
        "versions": started.get("versions"),
        "seed": recipe.get("seed"),
        "hours": "initialise + data_setup + training at the moment the weights were frozen; validation and "
        "checkpoints left out",
        "validation_images": sorted({row.num_val_images for row in _validated(summary) if row.num_val_images}),
        "validation": [f"{epochs}: {how}" for epochs, how in words.views(summary)],
        "epochsWithoutRow": [row.epoch for row in summary.epochs if row.epoch not in validated],
        "targetEpoch": crossing.epoch if crossing else None,
        "costToTargetUSD": _rounded(summary.cost_to_accuracy_usd()),
        "attempts": words.attempts_text(summary) if len(summary.attempts) > 1 else None,
        "remarks": [words.plain(remark) for remark in summary.remarks],
    }
    return {name: value for name, value in misc.items() if value not in (None, [])}


def _rounded(usd: float | None) -> float | None:
    """Cents."""
    return None if usd is None else round(usd, 2)


def _curve(curve: Any) -> Any:
    """A curve of the recipe: its number, or its pieces by epochs."""
    if not isinstance(curve, Mapping):
        return curve
    if curve.get("constant") is not None:
        return curve["constant"]
    return [
        {"epochs": list(piece["epochs"]), "start": piece["start"], "end": piece["end"], "shape": piece.get("shape")}
        for piece in curve.get("segments") or ()
    ]


def _model(summary: RunSummary) -> str:
    """The network's name in the recipe."""
    return str((summary.recipe.get("model") or {}).get("name", "resnet50"))


def _date(summary: RunSummary) -> str | None:
    """Day on which the run was started, UTC."""
    day = summary.attempts[0].started_utc[:10] if summary.attempts else ""
    return day if re.fullmatch(r"\d{4}-\d\d-\d\d", day) else None


def _hardware(summary: RunSummary) -> str:
    """Machines and processes, then what is in each machine: devices, CPU, cores, memory, as far as it is recorded."""
    machine: Mapping[str, Any] = summary.started.get("machine") or {}
    each = (
        [f"{summary.processes_per_node} x {summary.started['device_name']}"]
        if summary.started.get("device_name")
        else []
    )
    each += [str(machine["cpu"])] if machine.get("cpu") else []
    each += [text.plural(int(machine["cores"]), "core")] if machine.get("cores") else []
    each += [f"{int(machine['memory_bytes']) / 2**30:.0f} GiB"] if machine.get("memory_bytes") else []
    inside = f"; in each node: {', '.join(each)}" if each else ""
    return words.plain(f"{words.machine_text(summary)}{inside}")


def _hardware_tag(summary: RunSummary) -> str:
    """`16x8-Tesla-V100`: machines, processes on each, device."""
    name = summary.site.get("gpu") or summary.started.get("device") or "device"
    return f"{summary.nodes}x{summary.processes_per_node}-{name}"


def _slug(value: str) -> str:
    """A part of the file name: small letters, digits, dots and hyphens; `_` stands between the parts."""
    return re.sub(r"[^a-z0-9.]+", "-", value.lower()).strip("-.") or "unnamed"


def dawnbench_problems(json_text: str, tsv_text: str) -> list[str]:
    """What the competition's own checks would say of two files; empty if they would be accepted.

    They look at the fields, the version, the date, the columns as a set, that there is a row, and that an epoch has
    93 % top-5; not at the order of hours, the number of fields in a row, or whether the figures can be true.
    """
    return [*_json_problems(json_text), *_tsv_problems(tsv_text)]


def _json_problems(json_text: str) -> Iterator[str]:
    """Of the JSON file."""
    try:
        entry = json.loads(json_text)
    except ValueError as error:
        yield f"JSON: {error}"
        return
    if not isinstance(entry, dict):
        yield "JSON: not an object"
        return
    yield from (f"JSON: {name} is missing" for name in REQUIRED_FIELDS if name not in entry)
    if "version" in entry and entry["version"] != "v1.0":
        yield f"JSON: version is {entry['version']!r}, only v1.0 is accepted"
    try:
        datetime.strptime(str(entry.get("timestamp", "2000-01-01")), "%Y-%m-%d")
    except ValueError:
        yield f"JSON: timestamp {entry['timestamp']!r} is not a date such as 2018-04-20"


def _tsv_problems(tsv_text: str) -> Iterator[str]:
    """Of the TSV file."""
    lines = [line for line in tsv_text.splitlines() if line.strip()]
    columns = lines[0].split("\t") if lines else []
    if sorted(columns) != sorted(TSV_COLUMNS):
        yield f"TSV: columns are {', '.join(columns) or 'missing'}; they must be {', '.join(TSV_COLUMNS)}"
        return
    if len(lines) == 1:
        yield "TSV: no row"
        return
    place = columns.index("top5Accuracy") - len(columns)
    try:
        highest = max(float(line.split("\t")[place]) for line in lines[1:])
    except (ValueError, IndexError):
        yield "TSV: top5Accuracy is not a number in every row"
        return
    if highest < DAWNBENCH_TOP5:
        yield f"TSV: highest top5Accuracy is {highest:g}, the rules ask for {DAWNBENCH_TOP5:g}"

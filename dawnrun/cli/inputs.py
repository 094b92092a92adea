"""What the arguments of `dawnrun report` are: run directories, DAWNBench entries, MLPerf result logs, mixed freely."""

from collections.abc import Sequence
from pathlib import Path

from dawnrun.errors import UsageError
from dawnrun.record.cache import summarize_cached
from dawnrun.record.seal import with_seal
from dawnrun.record.summary import RunSummary
from dawnrun.report.claim import Claim, Others


def read_inputs(paths: Sequence[Path], records: Sequence[str] = ()) -> tuple[list[RunSummary], Others]:
    """Runs, others' claims and published records by name, each in the order given and once.

    UsageError or ReportError for a path that is none of them, or a name that no record has.
    """
    known = _published(tuple(dict.fromkeys(records))) if records else ()
    once: dict[Path, Path] = {}
    for path in paths:
        once.setdefault(path.resolve(), path)
    paths = list(once.values())
    claimed = [path for path in paths if _is_claim(path)]
    summaries = [with_seal(summarize_cached(path)) for path in paths if path not in claimed]
    return summaries, Others(claims=tuple(_claims(claimed)) if claimed else (), records=known)


def _published(names: Sequence[str]) -> tuple[Claim, ...]:
    """Records by name, before any log is read: a wrong name is told at once."""
    from dawnrun.report.claims import published

    return tuple(map(published, names))


def _is_claim(path: Path) -> bool:
    """A file that looks like one, or a folder of entries; anything else is to be a run directory and is judged as one."""
    if path.is_dir():
        return not (path / "events").is_dir() and any(path.glob("*.tsv"))
    return path.is_file() and (_is_log(path) or _head(path).lstrip()[:1] in (b"{", b"[") or b"\t" in _head(path))


def _head(path: Path) -> bytes:
    """The first bytes of a file; none of one that cannot be read."""
    try:
        with path.open("rb") as file:
            return file.read(65_536)
    except OSError:
        return b""


def _is_log(path: Path) -> bool:
    """MLPerf's logs are known by their lines, which may come after other output."""
    return b":::ML" in _head(path)


def _claims(paths: Sequence[Path]) -> list[Claim]:
    """Read others' files; entries with their JSON."""
    from dawnrun.cli.audit import pair
    from dawnrun.report.claims import read_entry
    from dawnrun.report.mlperf_log import read_log

    logs = [path for path in paths if path.is_file() and _is_log(path)]
    claims = []
    for tsv, json in pair([path for path in paths if path not in logs]):
        if tsv is None:
            raise UsageError(f"{json}: no TSV with it, so there is no time in it; --audit judges such files too")
        claims.append(read_entry(tsv, json))
    return [*claims, *map(read_log, logs)]

"""`dawnrun verify --quick` and `dawnrun bundle`, called in the process: verdicts, exit codes, archives."""

import json
import os
import tarfile

import pytest
from record_factory import make_run

from dawnrun.cli.main import run
from dawnrun.record.seal import write_seal


@pytest.fixture
def sealed(tmp_path):
    found = make_run(tmp_path / "runs")
    write_seal(found)
    return found


@pytest.fixture(autouse=True)
def runs_folder(tmp_path):
    (tmp_path / "runs").mkdir()


def invoke(*arguments) -> int:
    return run([str(argument) for argument in arguments])


def verify(path, capsys) -> tuple[int, dict[str, str], str]:
    code = invoke("verify", path, "--quick", "--format", "json")
    captured = capsys.readouterr()
    return code, {finding["name"]: finding["verdict"] for finding in json.loads(captured.out)}, captured.err


def names_in(path) -> list[str]:
    with tarfile.open(path) as archive:
        return archive.getnames()


def test_a_made_up_recipe_hash_contradicts(sealed, capsys):
    """The factory's logs state a hash of ones."""
    code, verdicts, said = verify(sealed.path, capsys)
    assert code == 7
    assert verdicts["claim from the log"] == verdicts["seal"] == "confirmed"
    assert verdicts["recipe"] == "contradicts"
    assert "contradicted: " in said


def test_a_removed_row_contradicts(sealed, capsys):
    """C38: the log no longer agrees with itself, and the seal says that it was changed."""
    log = sealed.event_files(1)[1]
    kept = [line for line in log.read_text().splitlines(keepends=True) if "eval.finished" not in line]
    log.write_text("".join(kept))
    code, verdicts, _ = verify(sealed.path, capsys)
    assert (code, verdicts) == (7, {"claim from the log": "contradicts", "seal": "contradicts"})


def test_a_newer_record_is_no_contradiction(sealed, capsys):
    log = sealed.event_files(1)[1]
    log.write_text(log.read_text().replace('"schema_version":1', '"schema_version":2'))
    assert invoke("verify", sealed.path, "--quick") == 2
    assert "newer dawnrun" in capsys.readouterr().err


def test_not_a_run(tmp_path, capsys):
    assert invoke("verify", tmp_path / "no") == invoke("bundle", tmp_path / "no") == 2
    assert len(capsys.readouterr().err.splitlines()) == 2


def test_the_same_run_gives_the_same_archive(sealed, tmp_path, capsys):
    (sealed.path / "link").symlink_to("/etc/passwd")
    (sealed.path / ".half").write_text("x")
    for name in ("a.tar.gz", "b.tar.gz"):
        assert invoke("bundle", sealed.path, "--output", tmp_path / name) == 0
    assert (tmp_path / "a.tar.gz").read_bytes() == (tmp_path / "b.tar.gz").read_bytes()
    assert (tmp_path / "a.tar.gz").read_bytes()[4:8] == bytes(4)  # gzip's own time stamp
    names = set(names_in(tmp_path / "a.tar.gz"))
    top = sealed.path.name
    assert {f"{top}/events/1/trainer.jsonl", f"{top}/resolved.yaml", f"{top}/site.yaml", f"{top}/seal.json"} <= names
    assert not [name for name in names if "checkpoints" in name or "link" in name or ".half" in name]
    assert "no report in it" in capsys.readouterr().err


def test_with_the_checkpoint_of_the_crossing_alone(sealed, tmp_path, capsys):
    """Epoch 3 crosses, at step 40."""
    assert invoke("bundle", sealed.path, "--with-checkpoint", "--output", tmp_path / "c.tar.gz") == 0
    names = names_in(tmp_path / "c.tar.gz")
    assert [name.split("/", 1)[1] for name in names if "checkpoints" in name] == ["checkpoints/step-00000040/state.pt"]
    (sealed.checkpoints / "step-00000040" / "state.pt").unlink()
    (sealed.checkpoints / "step-00000040").rmdir()
    assert invoke("bundle", sealed.path, "--with-checkpoint", "--output", tmp_path / "d.tar.gz") == 2
    assert not (tmp_path / "d.tar.gz").exists()
    assert "not kept" in capsys.readouterr().err


def test_an_archive_that_cannot_be_written_leaves_nothing(sealed, tmp_path, capsys):
    (tmp_path / "file").write_text("x")
    assert invoke("bundle", sealed.path, "--output", tmp_path / "file" / "x.tar.gz") == 2
    assert invoke("bundle", sealed.path, "--output", tmp_path) == 2
    assert sorted(path.name for path in tmp_path.iterdir()) == ["file", "runs"]
    assert "--output" in capsys.readouterr().err


def test_a_device_or_pipe_is_not_replaced_by_the_archive(sealed, tmp_path, capsys):
    """`--output /dev/null`, as root, made a file of it."""
    os.mkfifo(tmp_path / "pipe")
    assert invoke("bundle", sealed.path, "--output", tmp_path / "pipe") == 2
    assert (tmp_path / "pipe").is_fifo()
    assert "not a regular file" in capsys.readouterr().err

"""`make before`: each commit is built of its own files, and a failure leaves nothing to measure."""

from __future__ import annotations

import os
import shutil
import subprocess
import time
from pathlib import Path

import pytest

from gleaner_lab import build
from gleaner_lab.workload import ROOT

#: Stands for cargo: the source is built unless it is broken or older than the last build.
CARGO = """#!/bin/bash
set -eu
if grep -q broken source; then exit 1; fi
if [ ! -e "$CARGO_TARGET_DIR/kept" ] || [ source -nt "$CARGO_TARGET_DIR/kept" ]; then
    cp source "$CARGO_TARGET_DIR/kept"
fi
mkdir -p "$CARGO_TARGET_DIR/release"
cp "$CARGO_TARGET_DIR/kept" "$CARGO_TARGET_DIR/release/gleaner-bench"
"""


@pytest.fixture
def tree(tmp_path):
    """A repository with the project's Makefile and a source in three commits, the last broken."""
    shutil.copy(ROOT / "Makefile", tmp_path)
    (tmp_path / "scripts").mkdir()
    for path, text in [("scripts/install-packages.sh", "#!/bin/sh\n"), ("cargo", CARGO)]:
        (tmp_path / path).write_text(text)
        (tmp_path / path).chmod(0o755)
    _git(tmp_path, "init", "--quiet")
    for number, text in enumerate(["first", "second", "broken"]):
        (tmp_path / "source").write_text(text)
        _git(tmp_path, "add", "source")
        day = f"2020-01-0{3 - number}T00:00:00Z"
        _git(tmp_path, "commit", "--quiet", "--message", text, date=day)
    return tmp_path


def _git(tree: Path, *words: str, date: str = "") -> str:
    who = {
        f"GIT_{who}_{what}": "a@b.c"
        for who in ("AUTHOR", "COMMITTER")
        for what in ("NAME", "EMAIL")
    }
    environment = os.environ | who | ({"GIT_COMMITTER_DATE": date} if date else {})
    done = subprocess.run(
        ["git", *words], cwd=tree, env=environment, check=True, capture_output=True, text=True
    )
    return done.stdout.strip()


def _before(tree: Path, commit: str) -> subprocess.CompletedProcess[str]:
    # A file of now is newer than one of the last build.
    time.sleep(0.05)
    command = ["make", "before", f"COMMIT={commit}", "CARGO=" + str(tree / "cargo")]
    return subprocess.run(command, cwd=tree, capture_output=True, text=True, check=False)


def test_each_commit_is_built_of_its_own_files(tree):
    release = tree / "target" / "before" / "release"
    for commit, text in [("HEAD~1", "second"), ("HEAD~2", "first"), ("HEAD~1", "second")]:
        done = _before(tree, commit)
        assert done.returncode == 0, done.stderr
        assert (release / "gleaner-bench").read_text() == text
        assert (release / build.COMMIT).read_text().strip() == _git(tree, "rev-parse", commit)


@pytest.mark.parametrize(
    ("commit", "said"), [("no-such-commit", "'no-such-commit' names no commit"), ("HEAD", "")]
)
def test_a_failure_leaves_nothing_to_measure(tree, commit, said):
    assert _before(tree, "HEAD~1").returncode == 0
    done = _before(tree, commit)
    assert done.returncode != 0 and said in done.stderr
    release = tree / "target" / "before" / "release"
    assert not (release / "gleaner-bench").exists()
    assert not (release / build.COMMIT).exists()

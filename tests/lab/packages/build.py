#!/usr/bin/env python3
# Copyright: (c) 2026, GPU Fleet contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
"""`build.py FOLDER`: makes the signed repositories of stubs.yml below FOLDER/www, once for each state of the sources.

FOLDER/vendor.asc is the key that signs, FOLDER/other.asc one that signs nothing; both are made here and never leave.
Needs dpkg-deb, apt-ftparchive, rpmbuild, rpmsign, createrepo_c, modifyrepo_c and gpg.
"""

from __future__ import annotations

import hashlib
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import yaml

HERE = Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parents[2] / "collections"))

from ansible_collections.gpufleet.kimi_k3.tests.lab.packages import debs, rpms  # noqa: E402

KEYS = {"vendor": "Stub Vendor <vendor@stubs.invalid>", "other": "Somebody Else <other@stubs.invalid>"}


def recipe() -> str:
    """What the repositories are made from: changed sources make them anew."""
    texts = [path.read_bytes() for path in sorted(HERE.iterdir()) if path.suffix in (".py", ".yml")]
    return hashlib.sha256(b"\0".join(texts)).hexdigest()[:16]


def stubs_of(table: dict[str, Any], repository: dict[str, Any]) -> Iterator[tuple[dict[str, Any], dict[str, Any]]]:
    """Each stub of a repository with the names its texts may use: v, b, f."""
    for release in repository["releases"]:
        version = str(release["version"])
        for name in release["sets"]:
            for stub in table["sets"][name]:
                yield stub, {"v": version, "b": version.split(".", 1)[0]}
    for stub in table["others"][repository["kind"]]:
        for full in stub["versions"]:
            yield {**stub, "full": full}, {"v": full.rsplit("-", 1)[0], "b": ""}


def make_key(home: Path, user: str, public: Path) -> None:
    """A signing key without a passphrase, and its public half as text."""
    gpg = ["gpg", "--homedir", str(home), "--batch", "--quiet", "--passphrase", ""]
    subprocess.run([*gpg, "--quick-generate-key", user, "rsa3072", "sign", "never"], check=True, capture_output=True)
    public.write_bytes(subprocess.run([*gpg, "--armor", "--export", user], check=True, capture_output=True).stdout)


def build(folder: Path) -> None:
    """Everything, from nothing."""
    table = yaml.safe_load((HERE / "stubs.yml").read_text(encoding="utf-8"))
    # Outside the clone: the path of the agent's socket may have 107 characters at most.
    with tempfile.TemporaryDirectory(prefix="stub-keys-") as home:
        try:
            for name, user in KEYS.items():
                make_key(Path(home), user, folder / f"{name}.asc")
            with ThreadPoolExecutor(max_workers=os.cpu_count() or 2) as pool:
                waiting = []
                for name, repository in table["repositories"].items():
                    maker = debs.build if repository["kind"] == "deb" else rpms.build
                    stubs = list(stubs_of(table, repository))
                    for machine in repository["machines"]:
                        target = folder / "www" / "cuda" / "repos" / name / machine
                        target.mkdir(parents=True)
                        waiting.append(pool.submit(maker, repository, machine, stubs, target, home, KEYS["vendor"]))
                for made in waiting:
                    made.result()
        finally:
            subprocess.run(["gpgconf", "--homedir", home, "--kill", "gpg-agent"], check=False, capture_output=True)


def main() -> None:
    folder = Path(sys.argv[1]).resolve()
    folder.parent.mkdir(parents=True, exist_ok=True)
    stamp = folder / "recipe"
    if stamp.is_file() and stamp.read_text(encoding="utf-8") == recipe():
        return
    # Beside it and then in its place: an interrupted run leaves nothing that looks finished.
    made = Path(tempfile.mkdtemp(prefix="stubs-", dir=folder.parent))
    made.chmod(0o755)
    build(made)
    (made / "recipe").write_text(recipe(), encoding="utf-8")
    shutil.rmtree(folder, ignore_errors=True)
    made.rename(folder)


if __name__ == "__main__":
    main()

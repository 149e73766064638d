# Copyright: (c) 2026, GPU Fleet contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
"""Stub packages and signed repositories for dnf, with module streams where the table names some."""

from __future__ import annotations

import shutil
import tempfile
from pathlib import Path
from typing import Any

from ansible_collections.gpufleet.kimi_k3.tests.lab.packages.debs import run

# In Lua, which rpm brings itself. As for deb: seconds in /run/stubs/slow, failure with /run/stubs/fail.
SCRIPT = """local slow = io.open("/run/stubs/slow")
if slow then posix.sleep(tonumber(slow:read("*l"))) slow:close() end
if io.open("/run/stubs/fail") then error("stub told to fail") end
"""


def build(
    repository: dict[str, Any],
    machine: str,
    stubs: list[tuple[dict[str, Any], dict[str, Any]]],
    target: Path,
    home: str,
    user: str,
) -> None:
    """Make the packages of one machine's folder, sign them, write the index, its streams, and sign that."""
    architecture = repository["machines"][machine]
    with tempfile.TemporaryDirectory(prefix="stub-rpm-") as made:
        for number, (version, release, epoch, group) in enumerate(groups(repository, architecture, stubs)):
            spec = Path(made) / f"{number}.spec"
            spec.write_text(specification(version, release, epoch, group))
            argv = ["rpmbuild", "-bb", "--quiet", "--target", f"{architecture}-linux", "--nodeps"]
            run([*argv, "--define", f"_topdir {made}", "--define", f"_rpmdir {target}",
                 "--define", "_build_name_fmt %%{NAME}-%%{VERSION}-%%{RELEASE}.%%{ARCH}.rpm", str(spec)], target)  # fmt: skip
    sign = ["rpmsign", "--addsign", "--define", f"_gpg_name {user}", "--define", f"_gpg_path {home}"]
    sign += ["--define", f"__gpg {shutil.which('gpg')}"]
    run([*sign, *sorted(str(path) for path in target.glob("*.rpm"))], target)
    run(["createrepo_c", "--quiet", "--no-database", "."], target)
    streams = modules(repository, architecture, stubs)
    if streams:
        (target / "modules.yaml").write_text(streams)
        run(["modifyrepo_c", "--mdtype=modules", "modules.yaml", "repodata"], target)
    gpg = ["gpg", "--homedir", home, "--batch", "--quiet", "--local-user", user]
    run([*gpg, "--armor", "--detach-sign", "--output", "repodata/repomd.xml.asc", "repodata/repomd.xml"], target)


def groups(repository: dict[str, Any], architecture: str, stubs: list[Any]) -> list[tuple[str, str, int, list[Any]]]:
    """Stubs of one version, built together: (version, release, epoch, [(stub, words)])."""
    found: dict[str, tuple[str, str, int, list[Any]]] = {}
    for stub, words in stubs:
        if architecture not in stub.get("architectures", [architecture]):
            continue
        # The vendor's driver packages carry an epoch, its other packages none (facts 1.17).
        epoch = 0 if stub.get("full") else repository.get("epoch", 3)
        release = stub["full"].rsplit("-", 1)[1] if stub.get("full") else "1"
        group = found.setdefault(words["v"] + release, (words["v"], release + repository["dist"], epoch, []))
        full = f"{epoch}:{group[0]}-{group[1]}"
        group[3].append((stub, {**words, "f": full}))
    return list(found.values())


def specification(version: str, release: str, epoch: int, group: list[Any]) -> str:
    """One spec file whose subpackages are the stubs."""
    lines = [
        *("Name: stubs", f"Version: {version}", f"Release: {release}", f"Epoch: {epoch}"),
        *("Summary: stubs", "License: GPL-3.0-or-later", "AutoReqProv: no", "%description", "Stubs."),
    ]
    for stub, words in group:
        name = stub["name"].format(**words)
        lines += [f"%package -n {name}", "Summary: stub of a package of the same name", "AutoReqProv: no"]
        for relation in ("requires", "conflicts", "provides", "obsoletes"):
            lines += [f"{relation.capitalize()}: {text.format(**words)}" for text in stub.get(relation, [])]
        lines += [f"%description -n {name}", "Stub.", f"%files -n {name}", f"/usr/share/stubs/{name}"]
        lines += stub.get("files", {})
        if stub.get("conffile"):
            lines.append(f"%config(noreplace) {stub['conffile']}")
        if stub.get("scripts"):
            lines += [f"%post -n {name} -p <lua>", SCRIPT]
    lines.append("%install")
    for stub, words in group:
        name = stub["name"].format(**words)
        files = {f"/usr/share/stubs/{name}": name, **stub.get("files", {})}
        if stub.get("conffile"):
            files[stub["conffile"]] = f"# stub of {words['f']}"
        for path, text in files.items():
            lines.append(f"mkdir -p %{{buildroot}}{path.rsplit('/', 1)[0]}; printf '{text}\\n' > %{{buildroot}}{path}")
    return "\n".join(lines) + "\n"


def modules(repository: dict[str, Any], architecture: str, stubs: list[Any]) -> str:
    """The module nvidia-driver: a document for each stream, one that names the default; empty without modularity."""
    artifacts: dict[str, list[tuple[str, str]]] = {}
    for version, release, epoch, group in groups(repository, architecture, stubs):
        for stub, words in group:
            if not stub.get("full"):
                nevra = f"{stub['name'].format(**words)}-{epoch}:{version}-{release}.{architecture}"
                artifacts.setdefault(version, []).append((stub.get("flavour", ""), nevra))
    streams: dict[str, dict[str, Any]] = {}
    for made in repository["releases"]:
        for name, flavour in made.get("streams", {}).items():
            stream = streams.setdefault(name, {"flavour": flavour, "artifacts": []})
            stream["artifacts"] += [
                text for kind, text in artifacts[str(made["version"])] if kind in ("", flavour)
            ]  # fmt: skip
    if not streams:
        return ""
    texts = []
    for number, (name, stream) in enumerate(sorted(streams.items())):
        texts.append(
            "---\ndocument: modulemd\nversion: 2\ndata:\n"
            f'  name: nvidia-driver\n  stream: "{name}"\n  version: {20260000000000 + number}\n'
            f"  context: {number:08x}\n  arch: {architecture}\n  summary: stub\n  description: stub\n"
            "  license:\n    module: [MIT]\n  profiles:\n    default:\n      rpms: [nvidia-driver]\n"
            "  artifacts:\n    rpms:\n" + "".join(f"    - {text}\n" for text in sorted(stream["artifacts"]))
        )
    texts.append(
        "---\ndocument: modulemd-defaults\nversion: 1\ndata:\n  module: nvidia-driver\n"
        f"  stream: {repository['default_stream']}\n  profiles:\n    {repository['default_stream']}: [default]\n"
    )
    return "".join(texts) + "...\n"

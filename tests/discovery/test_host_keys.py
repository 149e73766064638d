# Copyright: (c) 2026, GPU Fleet contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
"""Host keys against a real server: unknown, changed, revoked, new and accepted."""

from __future__ import annotations

import subprocess

import pytest

from ansible_collections.gpufleet.kimi_k3.tests.discovery.conftest import listed, plain
from ansible_collections.gpufleet.kimi_k3.tests.discovery.servers import public

HOST, OTHER = {"a": "127.77.0.1"}, {"b": "127.77.0.2"}


def line(servers, key, address="127.77.0.1"):
    return f"[{address}]:{servers.port} {key}\n"


def test_an_unknown_key_is_an_error_whose_command_makes_it_known(discover, servers, tmp_path):
    found = discover(HOST, {}, "")
    why = plain(found.variables("a"))["gpu_fabric_error"]
    assert found.rc == 0
    assert found.hosts("undiscovered") == ["a"]
    assert "its host key is not known: ssh-ed25519 SHA256:" in why
    shown = subprocess.run(
        ["ssh-keygen", "-l", "-f", str(servers.folder / "host_key.pub")], capture_output=True, text=True, check=True
    )
    assert shown.stdout.split()[1] in why
    assert why in found.said
    subprocess.run(["sh", "-c", why.split("add the key: ", 1)[1]], check=True)
    assert listed(tmp_path / "test.gpu_fabric.yml").hosts("gpu_nodes") == ["a"]


@pytest.mark.parametrize("policy", ["reject", "accept_new"])
def test_a_changed_key_is_an_error_whatever_is_accepted(ask, servers, tmp_path, policy):
    old = line(servers, public(servers.folder / "other_key"))
    found = ask({**HOST, **OTHER}, {"host_key_policy": policy}, old + line(servers, servers.host_key, "127.77.0.2"))
    assert "ITS HOST KEY HAS CHANGED" in found["a"]["error"]
    assert f"{tmp_path}/known_hosts:1" in found["a"]["error"]
    assert f"ssh-keygen -R '[127.77.0.1]:{servers.port}'" in found["a"]["error"]
    assert found["b"]["observed"]["gpu_count"] == 4
    assert (tmp_path / "known_hosts").read_text().startswith(old)


def test_a_changed_key_gets_no_password(ask, servers):
    """The server would note an attempt to log in."""
    before = servers.log().count("for kimi-operator from")
    old = line(servers, public(servers.folder / "other_key"), "127.79.0.1")
    options = {"private_key_file": None, "user": "kimi-operator", "password": "hidden"}
    assert "Nothing was sent to it" in ask({"a": "127.79.0.1"}, options, old)["a"]["error"]
    assert servers.log().count("for kimi-operator from") == before
    assert "none of: the password" in ask({"a": "127.79.0.1"}, options)["a"]["error"]
    assert servers.log().count("for kimi-operator from") == before + 1


@pytest.mark.parametrize("pattern", ["*", "[127.77.0.1]:{port}"])
def test_a_revoked_key_is_an_error_even_beside_a_valid_line(ask, servers, pattern):
    revoked = f"@revoked {pattern.format(port=servers.port)} {servers.host_key}\n"
    found = ask(HOST, {"host_key_policy": "accept_new"}, revoked + line(servers, servers.host_key))
    assert "is revoked" in found["a"]["error"]


def test_an_authority_for_hosts_vouches_for_nobody(ask, servers):
    assert "is not known" in ask(HOST, {}, f"@cert-authority * {servers.host_key}\n")["a"]["error"]


def test_accepted_keys_are_written_down_once_and_count_from_then_on(ask, servers, tmp_path):
    hosts = {"a": "127.77.0.1", "b": "127.77.0.2", "again": "127.77.0.1"}
    options = {"host_key_policy": "accept_new", "known_hosts_files": ["new/known_hosts"]}
    assert all("observed" in answer for answer in ask(hosts, options).values())
    file = tmp_path / "new" / "known_hosts"
    expected = sorted(line(servers, servers.host_key, address) for address in ("127.77.0.1", "127.77.0.2"))
    assert sorted(file.read_text().splitlines(keepends=True)) == expected
    assert file.stat().st_mode & 0o777 == 0o600
    rejecting = ask(hosts, {**options, "host_key_policy": "reject"})
    assert all("observed" in answer for answer in rejecting.values())


def test_hashed_names_are_known(ask, servers, tmp_path):
    (tmp_path / "hashed").write_text(line(servers, servers.host_key))
    subprocess.run(["ssh-keygen", "-q", "-H", "-f", str(tmp_path / "hashed")], capture_output=True, check=True)
    hashed = (tmp_path / "hashed").read_text()
    assert hashed.startswith("|1|")
    found = ask({**HOST, **OTHER}, {}, hashed)
    assert "observed" in found["a"]
    assert "is not known" in found["b"]["error"]


def ssh_says(servers, config, host):
    """What OpenSSH says of a host by the same configuration."""
    options = ["-o", "BatchMode=yes", "-o", "StrictHostKeyChecking=accept-new", "-p", str(servers.port)]
    return subprocess.run(
        ["ssh", "-F", str(config), *options, host, "true"], capture_output=True, text=True, check=False, timeout=60
    ).stderr


@pytest.mark.parametrize(
    ("host", "name", "config", "file"),
    [
        ("LOCALHOST", "[localhost]:{port}", "UserKnownHostsFile {folder}/kh\n", "kh"),
        ("a", "rack", "HostKeyAlias rack\n  UserKnownHostsFile {folder}/kh\n", "kh"),
        ("a", "rack", "HostKeyAlias Rack  # seven\n  UserKnownHostsFile {folder}/kh\n", "kh"),
        ("a", "[127.77.0.1]:{port}", 'UserKnownHostsFile "{folder}/with space/kh"\n', "with space/kh"),
        ("a", "[127.77.0.1]:{port}", "UserKnownHostsFile ${{KEPT_IN}}/kh\n", "kh"),
        ("a", "[127.77.0.1]:{port}", "UserKnownHostsFile {folder}/new {folder}/%n-%h/kh\n", "a-127.77.0.1/kh"),
        ("a", "[127.77.0.1]:{port}", "UserKnownHostsFile {folder}/new\n  GlobalKnownHostsFile {folder}/g\n", "g"),
    ],
)
def test_a_key_that_has_changed_for_ssh_is_not_new_for_discovery(
    ask, servers, tmp_path, monkeypatch, host, name, config, file
):
    monkeypatch.setenv("KEPT_IN", str(tmp_path))
    known = tmp_path / file
    known.parent.mkdir(exist_ok=True)
    known.write_text(f"{name.format(port=servers.port)} {public(servers.folder / 'other_key')}\n")
    subprocess.run(["ssh-keygen", "-q", "-H", "-f", str(known)], capture_output=True, check=True)
    before = known.read_text()
    mine = tmp_path / "mine"
    address = "" if host == "LOCALHOST" else "HostName 127.77.0.1\n  "
    mine.write_text(f"Host *\n  {address}{config.format(folder=tmp_path)}")
    assert "REMOTE HOST IDENTIFICATION HAS CHANGED" in ssh_says(servers, mine, host)
    options = {"host_key_policy": "accept_new", "known_hosts_files": None, "ssh_config_file": "mine"}
    found = ask({host: ""}, options)
    assert "ITS HOST KEY HAS CHANGED" in found[host]["error"]
    assert f"and {known}:1 knows ssh-ed25519" in found[host]["error"]
    assert known.read_text() == before
    assert not (tmp_path / "new").exists()


def test_a_new_key_goes_to_the_user_and_never_to_the_machine(ask, servers, tmp_path, monkeypatch):
    monkeypatch.setenv("HOME", str(tmp_path))
    (tmp_path / ".ssh").mkdir()
    (tmp_path / ".ssh" / "known_hosts").write_text(line(servers, public(servers.folder / "other_key")))
    (tmp_path / "mine").write_text(
        f"Host a\n  HostName 127.77.0.1\nHost b\n  HostName 127.77.0.2\n"
        f"Host *\n  GlobalKnownHostsFile {tmp_path}/machine\n"
    )
    options = {"host_key_policy": "accept_new", "known_hosts_files": None, "ssh_config_file": "mine"}
    found = ask({**HOST, **OTHER}, options)
    assert "ITS HOST KEY HAS CHANGED" in found["a"]["error"]
    assert found["b"]["observed"]["gpu_count"] == 4
    assert (tmp_path / ".ssh" / "known_hosts").read_text().endswith(line(servers, servers.host_key, "127.77.0.2"))
    assert not (tmp_path / "machine").exists()

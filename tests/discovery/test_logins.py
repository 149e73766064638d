# Copyright: (c) 2026, GPU Fleet contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
"""Logging in to a real server: keys, passwords, and users with login shells of all kinds."""

from __future__ import annotations

import os
import re
import shutil
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from ansible_collections.gpufleet.kimi_k3.plugins.plugin_utils.discovery.errors import OptionError
from ansible_collections.gpufleet.kimi_k3.tests.discovery.conftest import listed, odd_address, plain, unavailable
from ansible_collections.gpufleet.kimi_k3.tests.discovery.servers import PASSWORD

BY_KEY, BY_PASSWORD = {"a": "127.77.0.1"}, {"a": "127.79.0.1"}
NO_KEYS = {"private_key_file": None, "user": "kimi-operator"}


@pytest.fixture(autouse=True)
def home(tmp_path, monkeypatch):
    """A home without the keys of whoever runs this."""
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.delenv("SSH_AUTH_SOCK", raising=False)
    return tmp_path


def test_a_host_that_takes_passwords_only(discover, ask):
    found = discover(BY_PASSWORD, NO_KEYS, env={"GPU_FABRIC_PASSWORD": PASSWORD})
    assert found.hosts("gpu_nodes") == ["a"]
    assert plain(found.variables("a"))["ansible_user"] == "kimi-operator"
    assert PASSWORD not in str(found)
    wrong = ask(BY_PASSWORD, {**NO_KEYS, "password": "quite another one"})
    assert wrong["a"]["error"] == "it let kimi-operator in with none of: the password"


def test_a_password_that_ansible_vault_encrypted(write_config, home):
    (home / "vault").write_text("open sesame")
    vault = [str(Path(sys.executable).parent / "ansible-vault"), "encrypt_string", "--vault-password-file"]
    secret = subprocess.run(
        [*vault, str(home / "vault"), "--name", "password", PASSWORD], capture_output=True, text=True, check=True
    )
    path = write_config(BY_PASSWORD, NO_KEYS)
    path.write_text(path.read_text() + secret.stdout)
    found = listed(path, {"ANSIBLE_VAULT_PASSWORD_FILE": str(home / "vault")})
    assert found.hosts("gpu_nodes") == ["a"]
    assert PASSWORD not in str(found)


def test_without_anything_to_log_in_with_that_is_told(ask):
    why = ask(BY_KEY, NO_KEYS)["a"]["error"]
    assert why == "no key, agent or password is there to log in with as kimi-operator"


def test_a_key_that_is_refused_is_named_by_its_fingerprint(ask, servers):
    why = ask(BY_KEY, {"private_key_file": str(servers.folder / "other_key")})["a"]["error"]
    assert why.startswith("it let root in with none of: ssh-ed25519 SHA256:")


def test_a_key_with_a_passphrase(ask, servers, home):
    key = home / "locked_key"
    shutil.copy(servers.folder / "user_key", key)
    subprocess.run(["ssh-keygen", "-q", "-p", "-P", "", "-N", "open sesame", "-f", str(key)], check=True)
    options = {"private_key_file": "locked_key"}
    assert "observed" in ask(BY_KEY, {**options, "private_key_passphrase": "open sesame"})["a"]
    with pytest.raises(OptionError, match=r"^private_key_file: .*locked_key' cannot be used: a passphrase protects it"):
        ask(BY_KEY, options)
    with pytest.raises(OptionError, match="or the passphrase is wrong") as caught:
        ask(BY_KEY, {**options, "private_key_passphrase": "open barley"})
    assert "barley" not in str(caught.value)


def test_the_default_keys_of_the_user(ask, servers, home):
    (home / ".ssh").mkdir()
    shutil.copy(servers.folder / "user_key", home / ".ssh" / "id_ed25519")
    assert "observed" in ask(BY_KEY, {"private_key_file": None})["a"]


@pytest.mark.parametrize("user", ["kimi-noisy", "kimi-csh"])
def test_other_login_shells_and_banners_are_no_obstacle(ask, user):
    if user == "kimi-csh" and not shutil.which("tcsh"):
        unavailable("tcsh is not installed")
    assert ask(BY_KEY, {"user": user})["a"]["observed"]["k3_nvlink_partition"] == "2"


def test_a_user_whose_shell_runs_nothing_is_told(ask):
    assert "the script did not start (exit status 1" in ask(BY_KEY, {"user": "kimi-locked"})["a"]["error"]


def test_without_root_what_is_readable_is_told(ask):
    """On an NVLink 5 board only the product data tells rails from the adapters that manage its switches."""
    told = ask({"b200": odd_address("b200")}, {"user": "kimi-operator"})["b200"]["observed"]
    assert told["gpu_count"] == 8
    assert "k3_rdma_hcas" not in told
    assert "vpd needs root" in told["unknown"]["k3_rdma_hcas"]


def test_keys_of_an_agent(ask, servers, monkeypatch):
    started = subprocess.run(["ssh-agent", "-s"], capture_output=True, text=True, check=True)
    agent = dict(re.findall(r"(SSH_[A-Z_]+)=([^;]+);", started.stdout))
    monkeypatch.setenv("SSH_AUTH_SOCK", agent["SSH_AUTH_SOCK"])
    try:
        subprocess.run(["ssh-add", "-q", str(servers.folder / "user_key")], stderr=subprocess.DEVNULL, check=True)
        hosts = {f"gb-{tray}": f"127.77.0.{tray}" for tray in range(1, 9)}
        found = ask(hosts, {"private_key_file": None, "use_agent": True})
        assert all("observed" in answer for answer in found.values())
        assert "error" in ask(BY_KEY, {"private_key_file": None, "use_agent": False})["a"]
    finally:
        os.kill(int(agent["SSH_AGENT_PID"]), signal.SIGTERM)


def test_a_host_behind_a_bastion(write_config, servers, home):
    """ssh -W is what ProxyJump does; the key that counts is that of the host behind it."""
    path = write_config(BY_KEY)
    common = f"-F /dev/null -i {servers.folder}/user_key -o UserKnownHostsFile={home}/bastion -p {servers.port}"
    (home / "bastion").write_text(f"[127.77.0.9]:{servers.port} {servers.host_key}\n")
    proxy = f"Host a\n  HostName 127.77.0.1\n  ProxyCommand ssh {common} -W %h:%p root@127.77.0.9\n"
    (home / "ssh_config").write_text(proxy)
    assert listed(path).hosts("gpu_nodes") == ["a"]
    (home / "ssh_config").write_text(proxy.replace("-W %h:%p", "-W 127.77.0.1:1"))
    broken = listed(path)
    assert "a: its ProxyCommand runs, but no SSH server answered" in broken.said
    assert "its ProxyCommand said: channel 0: open failed: connect failed" in broken.said
    (home / "ssh_config").write_text("Host a\n  HostName 127.77.0.1\n  ProxyJump root@127.77.0.9\n")
    refused = listed(path)
    assert refused.rc != 0
    assert f"{path}: ssh_config_file: {home}/ssh_config gives host a the option proxyjump" in refused.said

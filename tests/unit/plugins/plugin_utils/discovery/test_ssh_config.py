# Copyright: (c) 2026, GPU Fleet contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
"""What is honoured of an SSH configuration, and what is refused."""

from __future__ import annotations

import getpass
import os
import socket
from dataclasses import replace
from pathlib import Path

import pytest

from ansible_collections.gpufleet.kimi_k3.plugins.plugin_utils.discovery import options
from ansible_collections.gpufleet.kimi_k3.plugins.plugin_utils.discovery.addresses import Book
from ansible_collections.gpufleet.kimi_k3.plugins.plugin_utils.discovery.errors import OptionError
from ansible_collections.gpufleet.kimi_k3.plugins.plugin_utils.discovery.hosts import Host
from ansible_collections.gpufleet.kimi_k3.plugins.plugin_utils.discovery.session import Limits
from ansible_collections.gpufleet.kimi_k3.plugins.plugin_utils.discovery.ssh_config import SshConfig

pytest.importorskip("paramiko")


@pytest.fixture
def config(tmp_path):
    """config(text): the configuration with this text."""

    def make(text):
        path = tmp_path / "config"
        path.write_text(text, encoding="utf-8")
        return SshConfig(path)

    return make


def test_what_is_honoured(config):
    found = config(
        "Host gpu*\n  HostName %h.example\n  User operator\n  Port 2222\n  IdentityFile ~/k1\n  IdentityFile ~/k2\n"
        "  IdentitiesOnly yes\n  ProxyCommand ssh -W %h:%p bastion\n  HostKeyAlias rack\n  UserKnownHostsFile /a /b\n"
        "Match host other\n  User somebody\n"
    ).lookup("gpu01")
    assert found.hostname == "gpu01.example"
    assert (found.user, found.port, found.identities_only, found.host_key_alias) == ("operator", 2222, True, "rack")
    assert [Path(name).name for name in found.identity_files] == ["k1", "k2"]
    assert found.proxy_command == "ssh -W gpu01.example:2222 bastion"
    assert found.user_known_hosts == ("/a", "/b")
    assert found.global_known_hosts is None


def test_what_was_given_wins_and_is_what_a_proxy_is_told(config):
    found = config("Host *\n  User a\n  Port 1\n  ProxyCommand nc %r %h %p\n").lookup("gpu01", "operator", 2222)
    assert (found.user, found.port, found.proxy_command) == ("operator", 2222, "nc operator gpu01 2222")


@pytest.mark.parametrize(
    "line",
    [
        "ServerAliveInterval 15",
        "ControlMaster auto",
        "ForwardAgent yes",
        "StrictHostKeyChecking no",
        "ProxyJump none",
        "AddressFamily any",
        "LogLevel DEBUG",
        "identityagent SSH_AUTH_SOCK",
        "Compression yes",
    ],
)
def test_what_has_no_effect_is_passed_over(config, line):
    assert config(f"Host *\n  {line}\n").lookup("gpu01").hostname == "gpu01"


@pytest.mark.parametrize(
    ("line", "option"),
    [
        ("ProxyJump bastion", "proxyjump"),
        ("CertificateFile ~/x", "certificatefile"),
        ("PKCS11Provider /x.so", "pkcs11provider"),
        ("KnownHostsCommand /x", "knownhostscommand"),
        ("IdentityAgent /run/agent", "identityagent"),
        ("Ciphers aes128-ctr", "ciphers"),
        ("AddressFamily inet6", "addressfamily"),
        ("PubkeyAuthentication no", "pubkeyauthentication"),
        ("NoSuchOption 1", "nosuchoption"),
    ],
)
def test_what_cannot_be_honoured_is_refused_with_file_host_and_option(config, tmp_path, line, option):
    made = config(f"Host gpu*\n  {line}\n")
    assert made.lookup("other").hostname == "other"
    with pytest.raises(OptionError) as caught:
        made.lookup("gpu01")
    assert f"{tmp_path}/config gives host gpu01 the option {option} " in str(caught.value)
    assert "allowed: HostName, User, Port" in str(caught.value)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    "line",
    [
        "Include other",
        "include ~/.ssh/x",
        "Match exec true",
        'Match host a exec "touch /tmp/x"',
        "Match !exec x",
        "CanonicalizeHostname yes",
    ],
)
def test_includes_and_commands_are_refused_wherever_they_stand(config, line):
    with pytest.raises(OptionError, match=r"line 2 of .*, which discovery does not carry out"):
        config(f"Host never\n{line}\n")


def test_what_cannot_be_read_is_refused(config, tmp_path):
    with pytest.raises(OptionError, match="cannot be read"):
        SshConfig(tmp_path / "missing")
    with pytest.raises(OptionError, match="cannot be read as ssh_config"):
        config("Host\n")
    with pytest.raises(OptionError, match="Port 'ssh'; allowed: 1 to 65535"):
        config("Port ssh\n").lookup("gpu01")


@pytest.mark.parametrize(
    ("given", "files"),
    [
        ("none", ()),
        ("NONE", ()),
        ('"/with space/kh"', ("/with space/kh",)),
        ('"/a b" "/c d"  # two', ("/a b", "/c d")),
        ("'/a \"b' /c\\ d\\e /x#y", ('/a "b', "/c d\\e", "/x#y")),
        ("~/kh ${FLEET}/kh %d/kh", ("/home/me/kh", "/fleet %h/kh", "/home/me/kh")),
        ("/%h/%n/%k/%p/%r/%%d$x", ("/gpu01.example/GPU01/GPU01/2222/operator/%d$x",)),
    ],
)
def test_names_of_known_hosts_files_are_read_as_ssh_reads_them(config, monkeypatch, given, files):
    monkeypatch.setenv("HOME", "/home/me")
    monkeypatch.setenv("FLEET", "/fleet %h")
    text = f"HostName GPU01.example\nPort 2222\nUser operator\nUserKnownHostsFile={given}\n"
    found = config(text + "UserKnownHostsFile /later\n").lookup("GPU01")
    assert found.user_known_hosts == files
    assert found.global_known_hosts is None


def test_of_the_machines_files_only_the_home_is_expanded(config, monkeypatch):
    monkeypatch.setenv("HOME", "/home/me")
    found = config('GlobalKnownHostsFile ~/g %d/g "${HOME} g"\n').lookup("gpu01")
    assert found.global_known_hosts == ("/home/me/g", "%d/g", "${HOME} g")
    assert found.user_known_hosts is None


def test_tokens_stand_for_this_user_and_machine(config):
    found = config("HostKeyAlias Rack\nUserKnownHostsFile /%i/%u/%r/%l/%L/%k\n").lookup("gpu01")
    here, me = socket.gethostname(), getpass.getuser()
    assert found.user_known_hosts == (f"/{os.getuid()}/{me}/{me}/{here}/{here.split('.')[0]}/rack",)


@pytest.mark.parametrize(
    ("line", "why"),
    [
        ('UserKnownHostsFile "/a b', "in which a quote is not closed; allowed: closed quotes"),
        ('GlobalKnownHostsFile ""', "which does not name files"),
        ("UserKnownHostsFile none /a", "which does not name files; allowed: files parted by blanks, or none alone"),
        ("UserKnownHostsFile # none", "which does not name files"),
        ("HostKeyAlias a b", "which is not the name of one host; allowed: one name as in known_hosts"),
        ('HostKeyAlias "a b"', "which is not the name of one host"),
        ("HostKeyAlias *", "which is not the name of one host"),
    ],
)
def test_a_line_that_names_no_file_or_host_is_refused(config, line, why):
    with pytest.raises(OptionError) as caught:
        config(f"Host never\n{line}\n")
    assert "ssh_config_file: line 2 of " in str(caught.value)
    assert why in str(caught.value)


@pytest.mark.parametrize(
    ("name", "why"),
    [
        ("/${NO_SUCH}/kh", "in which the environment has no NO_SUCH; allowed: files, with what ssh_config"),
        ("/${NO_SUCH", "in which ${ is not closed"),
        ("/%C", "in which %C is none of %%, %d, %h"),
        ("/kh%", "in which % is none of %%, %d, %h"),
        ("~nobody-of-that-name/kh", "in which there is no user nobody-of-that-name"),
    ],
)
def test_a_file_name_that_cannot_be_expanded_is_refused(config, name, why):
    made = config(f"Host gpu*\nUserKnownHostsFile {name}\n")
    assert made.lookup("other").user_known_hosts is None
    with pytest.raises(OptionError) as caught:
        made.lookup("gpu01")
    assert f"gives host gpu01 the option userknownhostsfile '{name}', " in str(caught.value)
    assert why in str(caught.value)


def made_options(**given):
    none = dict.fromkeys(("user", "port", "private_key_file", "private_key_passphrase", "password", "ssh_config_file"))
    base = options.Options(
        hosts=(Host("gpu01"),), **none, use_agent=True, known_hosts_files=(), host_key_policy="reject", workers=1,
        limits=Limits(), discovery_timeout=60, domain_names={},
    )  # fmt: skip
    return replace(base, **given)


def test_playbooks_reach_the_same_hosts_and_learn_no_password(config):
    path = config("Host gpu01\n  HostName 192.0.2.1\n  User operator\n").path
    book = Book(made_options(ssh_config_file=path, password="hidden", port=2200))
    assert book.variables(Host("gpu01", 2222)) == {
        "ansible_host": "192.0.2.1", "ansible_port": 2222, "ansible_user": "operator",
    }  # fmt: skip
    assert book.variables(Host("gpu02")) == {"ansible_port": 2200}
    assert Book(made_options()).variables(Host("gpu02")) == {}
    address = book.address(Host("gpu01", 2222))
    assert (address.host, address.port, address.user, address.key_name) == (
        "192.0.2.1",
        2222,
        "operator",
        "[192.0.2.1]:2222",
    )


@pytest.mark.parametrize(
    ("text", "user", "machine"),
    [
        ("", "default", "default"),
        ("UserKnownHostsFile /mine /too\n", ["/mine", "/too"], "default"),
        ("GlobalKnownHostsFile /all\n", "default", ["/all"]),
        ("UserKnownHostsFile none\nGlobalKnownHostsFile none\n", [], []),
    ],
)
def test_files_of_the_user_and_of_the_machine_each_have_their_default(
    config, monkeypatch, tmp_path, text, user, machine
):
    monkeypatch.setenv("HOME", str(tmp_path))
    defaults = {
        "user": [f"{tmp_path}/.ssh/known_hosts", f"{tmp_path}/.ssh/known_hosts2"],
        "machine": ["/etc/ssh/ssh_known_hosts", "/etc/ssh/ssh_known_hosts2"],
    }
    known = Book(made_options(ssh_config_file=config(text).path)).address(Host("gpu01")).known_hosts
    assert list(map(str, known.files)) == (defaults["user"] if user == "default" else user)
    assert list(map(str, known.others)) == (defaults["machine"] if machine == "default" else machine)
    given = Book(made_options(ssh_config_file=config(text).path, known_hosts_files=(tmp_path / "config",)))
    known = given.address(Host("gpu01")).known_hosts
    assert (known.files, known.others) == ([tmp_path / "config"], [])


def test_an_alias_is_looked_up_without_the_port(config):
    book = Book(made_options(ssh_config_file=config("HostKeyAlias Rack  # the rack\n").path))
    assert book.address(Host("gpu01", 2222)).key_name == "rack"

# Copyright: (c) 2026, GPU Fleet contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
"""Which host keys are known, of whom."""

from __future__ import annotations

import threading

import pytest

from ansible_collections.gpufleet.kimi_k3.plugins.plugin_utils.discovery.errors import HostError, OptionError

paramiko = pytest.importorskip("paramiko")

from ansible_collections.gpufleet.kimi_k3.plugins.plugin_utils.discovery.known_hosts import KnownHosts, host_name  # noqa: E402

SALT = "|1|MDEyMzQ1Njc4OTAxMjM0NTY3ODk=|"
KEY, OTHER, RSA = paramiko.ECDSAKey.generate(), paramiko.ECDSAKey.generate(bits=256), paramiko.RSAKey.generate(2048)


@pytest.fixture
def known(tmp_path):
    """known(lines, …): the known hosts of a file with these lines."""

    def make(*lines, **options):
        (tmp_path / "known_hosts").write_text("".join(line + "\n" for line in lines), encoding="utf-8")
        return KnownHosts([tmp_path / "known_hosts"], **options)

    return make


def text(key):
    return f"{key.get_name()} {key.get_base64()}"


@pytest.mark.parametrize(
    "pattern",
    ["gpu01", "GPU01", "x,gpu01,y", "gpu*", "gpu0?", "*,!gpu02", paramiko.HostKeys.hash_host("gpu01", SALT)],
)
def test_names_patterns_and_hashes(known, pattern):
    hosts = known("# comment", "", "damaged", f"gpu01 {KEY.get_name()} !!!", f"{pattern} {text(KEY)} a comment")
    hosts.check("gpu01", KEY)
    assert hosts.key_types("gpu01") == [KEY.get_name()]
    with pytest.raises(HostError, match="HAS CHANGED"):
        hosts.check("gpu01", OTHER)


@pytest.mark.parametrize("hashed", ["gpu01", "GPU01"])
@pytest.mark.parametrize("accept_new", [False, True])
def test_capitals_hide_no_changed_key_of_a_hashed_name(known, hashed, accept_new):
    """OpenSSH makes the name small before it hashes it."""
    hosts = known(f"{paramiko.HostKeys.hash_host(hashed, SALT)} {text(KEY)}", accept_new=accept_new)
    with pytest.raises(HostError, match="HAS CHANGED"):
        hosts.check("GPU01", OTHER)
    hosts.check("GPU01", KEY)


def test_a_new_name_is_written_in_small_letters(known, tmp_path):
    known(accept_new=True).check("[GPU01.example]:2222", KEY)
    assert (tmp_path / "known_hosts").read_text() == f"[gpu01.example]:2222 {text(KEY)}\n"


def test_other_files_count_and_get_no_new_key(tmp_path):
    mine, machine = tmp_path / "mine", tmp_path / "machine"
    machine.write_text(f"gpu01 {text(KEY)}\n@revoked * {text(OTHER)}\n", encoding="utf-8")
    before = machine.read_text(encoding="utf-8")
    hosts = KnownHosts([mine], [machine], accept_new=True)
    with pytest.raises(HostError, match="HAS CHANGED"):
        hosts.check("gpu01", RSA)
    with pytest.raises(HostError, match="is revoked"):
        hosts.check("gpu02", OTHER)
    hosts.check("gpu03", KEY)
    assert mine.read_text(encoding="utf-8") == f"gpu03 {text(KEY)}\n"
    with pytest.raises(HostError, match="no file is named"):
        KnownHosts([], [machine], accept_new=True).check("gpu03", KEY)
    assert machine.read_text(encoding="utf-8") == before


def test_commands_name_files_as_a_shell_reads_them(tmp_path):
    file = tmp_path / "with space"
    file.write_text(f"gpu01 {text(KEY)}\n", encoding="utf-8")
    hosts = KnownHosts([file])
    with pytest.raises(HostError, match=f"-f '{file}'$"):
        hosts.check("gpu01", OTHER)
    with pytest.raises(HostError, match=f">> '{file}'$"):
        hosts.check("gpu02", KEY)
    with pytest.raises(HostError, match=r"name a file that holds it \(known_hosts_files\)$"):
        KnownHosts([]).check("gpu02", KEY)


@pytest.mark.parametrize("pattern", ["gpu011", "gpu", "*,!gpu01", "!gpu01,*", "[gpu01]:22", "gpu[0]1"])
def test_what_names_another_host_is_no_help(known, pattern):
    with pytest.raises(HostError, match="is not known"):
        known(f"{pattern} {text(KEY)}").check("gpu01", KEY)


def test_a_port_is_part_of_the_name(known):
    hosts = known(f"[gpu01]:2222 {text(KEY)}")
    hosts.check(host_name("gpu01", 2222), KEY)
    with pytest.raises(HostError, match="is not known"):
        hosts.check(host_name("gpu01", 22), KEY)


def test_a_key_of_another_type_than_the_known_one_is_a_changed_one(known):
    with pytest.raises(HostError, match="HAS CHANGED"):
        known(f"gpu01 {text(KEY)}").check("gpu01", RSA)
    both = known(f"gpu01 {text(KEY)}", f"gpu01 {text(RSA)}")
    both.check("gpu01", RSA)
    assert both.key_types("gpu01") == [KEY.get_name(), "ssh-rsa"]


@pytest.mark.parametrize("accept_new", [False, True])
def test_revoked_keys_and_authorities_never_count(known, accept_new):
    hosts = known(f"@revoked * {text(KEY)}", f"gpu01 {text(KEY)}", accept_new=accept_new)
    with pytest.raises(HostError, match="is revoked"):
        hosts.check("gpu01", KEY)
    with pytest.raises(HostError, match="is not known"):
        known(f"@cert-authority * {text(KEY)}").check("gpu01", KEY)


def test_new_keys_are_appended_by_many_threads_without_loss(known, tmp_path):
    file = tmp_path / "known_hosts"
    hosts = known("old ssh-ed25519 AAAA", accept_new=True)
    file.write_text("# the last line has no end", encoding="utf-8")
    threads = [threading.Thread(target=hosts.check, args=(f"gpu{number}", KEY)) for number in range(20)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    lines = file.read_text(encoding="utf-8").splitlines()
    assert lines[0] == "# the last line has no end"
    assert sorted(lines[1:]) == sorted(f"gpu{number} {text(KEY)}" for number in range(20))
    # Whoever comes second with another key is a stranger.
    with pytest.raises(HostError, match="HAS CHANGED"):
        hosts.check("gpu1", OTHER)


def test_a_key_that_cannot_be_written_down_is_not_accepted(tmp_path):
    (tmp_path / "file").write_text("", encoding="utf-8")
    hosts = KnownHosts([tmp_path / "file" / "known_hosts"], accept_new=True)
    for _time in range(2):
        with pytest.raises(HostError, match="could not be written"):
            hosts.check("gpu01", KEY)
    with pytest.raises(HostError, match="no file is named"):
        KnownHosts([], accept_new=True).check("gpu01", KEY)


def test_files_that_were_asked_for_have_to_be_there(tmp_path):
    missing = tmp_path / "missing"
    assert KnownHosts([missing]).key_types("gpu01") == []
    with pytest.raises(OptionError, match=r"known_hosts_files: .*missing.* cannot be read"):
        KnownHosts([missing], must_exist=True)
    KnownHosts([missing], accept_new=True, must_exist=True)

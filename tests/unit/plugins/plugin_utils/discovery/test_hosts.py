# Copyright: (c) 2026, GPU Fleet contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
"""Which hosts a configuration names."""

from __future__ import annotations

import pytest

from ansible_collections.gpufleet.kimi_k3.plugins.plugin_utils.discovery import hosts as module
from ansible_collections.gpufleet.kimi_k3.plugins.plugin_utils.discovery.errors import OptionError
from ansible_collections.gpufleet.kimi_k3.plugins.plugin_utils.discovery.hosts import (
    HOSTS_MAX,
    Host,
    file_patterns,
    hosts,
)


def test_ranges_ports_and_addresses():
    found = hosts(["gpu[01:03].example", "r[a:b]-[1:3:2]:2222", "192.0.2.7", "[2001:db8::1]:22", "2001:db8::2"])
    assert found == [
        *(Host(f"gpu{number:02d}.example") for number in (1, 2, 3)),
        *(Host(name, 2222) for name in ("ra-1", "ra-3", "rb-1", "rb-3")),
        Host("192.0.2.7"),
        Host("2001:db8::1", 22),
        Host("2001:db8::2"),
    ]


def test_a_host_named_twice_is_one():
    assert hosts(["gpu01", "gpu[01:02]"]) == [Host("gpu01"), Host("gpu02")]
    with pytest.raises(OptionError, match="'gpu01' is named with two ports; allowed: one port a host"):
        hosts(["gpu01:22", "gpu01:23"])


@pytest.mark.parametrize(
    "pattern",
    [
        "",
        " ",
        "a b",
        "a,b",
        "user@host",
        "host:0",
        "host:99999",
        "gpu[1:]",
        "gpu[3:1]",
        "-oProxyCommand=id",
        "a;id",
        "{{ x }}",
        "gpu[1:2",
        "a\nb",
        "$(id)",
        "gpu*",
    ],
)
def test_what_is_no_host_is_refused_with_what_is_allowed(pattern):
    with pytest.raises(OptionError, match=r"^hosts: .* is not allowed; allowed: a host name or address"):
        hosts([pattern])


@pytest.mark.parametrize(
    "pattern",
    ["gpu[1:99999999]", "r[001:999]-[001:999]", f"n[0:{HOSTS_MAX}]", "[a:Z][a:Z][a:Z][a:Z]", "r[a:z][A:Z]-[0:99]"],
)
def test_a_slip_of_the_finger_does_not_fill_the_memory(monkeypatch, pattern):
    monkeypatch.setattr(module, "expand_hostname_range", lambda _name: pytest.fail("it was expanded"))
    with pytest.raises(OptionError, match=f"makes more than {HOSTS_MAX} hosts"):
        hosts([pattern])


@pytest.mark.parametrize(
    "pattern", ["n[a:Z]", "n[a:z:3]", "n[Y:Z]-[3:11:4]", "n[001:010:2]", "n[a:a]", "r[a:d][0:9:9]"]
)
def test_a_range_makes_as_many_hosts_as_were_counted(pattern):
    assert module._size(pattern) == len(hosts([pattern]))


def test_a_file_of_hosts(tmp_path):
    file = tmp_path / "nodes"
    file.write_text("# rack 7\ngpu[01:02]  # two\n\n192.0.2.1:22\n", encoding="utf-8")
    assert file_patterns(file) == ["gpu[01:02]", "192.0.2.1:22"]
    with pytest.raises(OptionError, match=r"hosts_file: .*missing.* cannot be read \(No such file or directory\)"):
        file_patterns(tmp_path / "missing")
    with pytest.raises(OptionError, match=r"^hosts_file nodes: 'a b' is not allowed"):
        hosts(["a b"], "hosts_file nodes")

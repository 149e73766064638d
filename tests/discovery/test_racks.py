# Copyright: (c) 2026, GPU Fleet contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
"""Two hundred trays in ten racks, discovered over real SSH connections."""

from __future__ import annotations

import json
import re

import pytest

from ansible_collections.gpufleet.kimi_k3.plugins.module_utils.readiness import contract, probe
from ansible_collections.gpufleet.kimi_k3.plugins.module_utils.readiness.topology import observed
from ansible_collections.gpufleet.kimi_k3.tests.discovery import fleet
from ansible_collections.gpufleet.kimi_k3.tests.discovery.conftest import listed, odd_address, plain, run_inventory
from ansible_collections.gpufleet.kimi_k3.tests.fixtures.nodes.profile import MadeNode


def connections(servers) -> int:
    """Connections that the server has taken so far."""
    return len(re.findall(r"^Accepted ", servers.log(), re.M))


def test_two_hundred_hosts_are_told_by_rack_and_kept_in_the_cache(write_config, servers, tmp_path):
    hosts = fleet.rack_hosts()
    assert len(hosts) == 200
    cache = {
        "cache": True,
        "cache_plugin": "ansible.builtin.jsonfile",
        "cache_connection": str(tmp_path / "cache"),
    }
    path = write_config(hosts, cache)
    before = connections(servers)
    graph = run_inventory(path, "--graph")
    assert graph.returncode == 0, graph.stderr
    assert graph.stderr == ""
    assert connections(servers) == before + 200
    groups = {}
    for line in graph.stdout.splitlines():
        name = line.lstrip("| -")
        if name.startswith("@"):
            group = groups.setdefault(name.strip("@:"), [])
        else:
            group.append(name)
    domains = {name: members for name, members in groups.items() if name.startswith("domain_")}
    assert len(domains) == fleet.RACKS
    for rack in range(fleet.RACKS):
        members = [name for name in hosts if name.startswith(f"gb-r{rack:02d}-")]
        assert domains[f"domain_gb_r{rack:02d}_{fleet.uuid_of(rack)[:8]}"] == members
    assert graph.stdout.index("@nvlink_domains:") < graph.stdout.index("  |  |--@domain_")
    assert set(groups["gpu_nodes"]) == set(groups["hw_gb200"]) == set(groups["rdma"]) == set(hosts)

    again = run_inventory(path, "--graph")
    assert again.stdout == graph.stdout
    assert connections(servers) == before + 200


def test_the_cache_answers_the_same_questions_only_and_holds_no_secret(write_config, servers, tmp_path):
    cache = {"cache": True, "cache_plugin": "ansible.builtin.jsonfile", "cache_connection": str(tmp_path / "cache")}
    options = {**cache, "password": "a secret of ours"}
    path = write_config({"a": "127.77.0.1", "b": "127.77.0.2"}, options)
    before = connections(servers)
    for arguments, asked in ((["--graph"], 2), (["--graph"], 2), (["--graph", "--flush-cache"], 4)):
        assert run_inventory(path, *arguments).returncode == 0
        assert connections(servers) == before + asked
    assert run_inventory(write_config({"a": "127.77.0.1", "b": "127.77.0.3"}, options), "--graph").returncode == 0
    assert connections(servers) == before + 6
    kept = "".join(file.read_text() for file in (tmp_path / "cache").iterdir())
    assert "k3_nvlink_domain" in kept
    assert "a secret of ours" not in kept


def kept_in(tmp_path):
    """The file of the cache, and what the plugin put into it; Ansible keeps that as a text within its own JSON."""
    (file,) = (tmp_path / "cache").iterdir()
    return file, json.loads(json.loads(file.read_text())["__payload__"])


def payload(kept):
    return json.dumps({"__payload__": json.dumps(kept)})


@pytest.mark.parametrize(
    ("spoil", "why"),
    [
        (lambda kept: payload(5), "it is no mapping"),
        (lambda kept: payload({**kept, "hosts": 5}), "it does not hold an answer of each host"),
        (lambda kept: payload({name: kept[name] for name in ("questions", "when")}), "it does not hold an answer of"),
        (lambda kept: payload({name: kept[name] for name in ("questions", "hosts")}), "it does not say when"),
        (lambda kept: payload({name: kept[name] for name in ("when", "hosts")}), "it does not say what was asked"),
        (lambda kept: payload({**kept, "hosts": {"a": {"observed": {"unknown": 5}}}}), "the answer of a has another"),
        (lambda kept: "5", "it cannot be read: TypeError"),
        (lambda kept: '{"__payload__": "}"}', "it cannot be read: JSONDecodeError"),
    ],
)
def test_a_cache_of_another_form_is_none_with_one_warning(write_config, servers, tmp_path, spoil, why):
    cache = {"cache": True, "cache_plugin": "ansible.builtin.jsonfile", "cache_connection": str(tmp_path / "cache")}
    path = write_config({"a": "127.77.0.1"}, cache)
    assert listed(path).hosts("gpu_nodes") == ["a"]
    file, whole = kept_in(tmp_path)
    file.write_text(spoil(whole))
    before = connections(servers)
    found = listed(path)
    assert found.rc == 0, found.said
    assert found.hosts("gpu_nodes") == ["a"]
    assert connections(servers) == before + 1
    assert found.said.count("[WARNING]") == 1
    assert f"what the cache holds are no answers of discovery ({why}" in found.said
    # And it is as it was.
    assert listed(path).said == ""
    assert connections(servers) == before + 1
    assert kept_in(tmp_path)[1]["hosts"] == whole["hosts"]


def test_what_a_cache_holds_reaches_no_terminal_as_it_is(write_config, tmp_path):
    cache = {"cache": True, "cache_plugin": "ansible.builtin.jsonfile", "cache_connection": str(tmp_path / "cache")}
    path = write_config({"gone": "127.88.0.1"}, {**cache, "port": 1})
    listed(path)
    file, kept = kept_in(tmp_path)
    kept["hosts"]["gone"]["error"] = "\x1b]0;pwned\x07 HF_TOKEN=hf_abcdefghijkl"
    file.write_text(payload(kept))
    found = listed(path)
    assert "gone: ?]0;pwned? HF_TOKEN=******** (asked at" in found.said
    assert "abcdefghijkl" not in str(found)
    assert "\\x1b" not in str(found.inventory)


def test_an_error_from_the_cache_says_when_it_was_met(discover, tmp_path):
    cache = {"cache": True, "cache_plugin": "ansible.builtin.jsonfile", "cache_connection": str(tmp_path / "cache")}
    hosts, options = {"gone": "127.88.0.1"}, {**cache, "port": 1}
    assert "from the cache" not in discover(hosts, options).said
    again = discover(hosts, options)
    assert re.search(r"gone: unreachable: .* \(asked at 20[-0-9T:]+Z, from the cache\)", again.said)
    assert again.hosts("undiscovered") == ["gone"]


def test_names_of_domains_stay_when_a_host_is_added_or_does_not_answer(discover):
    hosts = fleet.rack_hosts()
    few = {name: hosts[name] for name in ("gb-r03-07", "gb-r04-01")}
    more = {**few, "gb-r03-08": "127.77.3.8", "gb-r03-09": "127.88.3.9"}
    found = discover(more, {"connect_timeout": 2})
    assert found.hosts("undiscovered") == ["gb-r03-09"]
    assert set(discover(few).inventory) >= {name for name in found.inventory if name.startswith("domain_")}
    assert found.hosts("domain_gb_r03_00000003") == ["gb-r03-07", "gb-r03-08"]


def test_discovery_and_probe_read_the_same(discover, tmp_path):
    hosts = {"gb-r00-01": "127.77.0.1", "b200": odd_address("b200"), "h100": odd_address("h100")}
    found = discover(hosts)
    for name, profile in (("gb-r00-01", fleet.rack_profile(0)), ("b200", fleet.odd_nodes()["b200"].profile)):
        node = MadeNode(profile, tmp_path / f"made-{name}")
        node.require = contract.resolve({})
        probed = observed(probe.collect(node))
        told = plain(found.variables(name)["gpu_fabric"])
        only_probed = {"k3_data_interface", "k3_gpudirect_path"}
        # The processor is that of the machine which runs the tests.
        assert told.pop("unknown").keys() == only_probed
        assert told == {key: value for key, value in probed.items() if key not in {*only_probed, "unknown"}}
    assert plain(found.variables("b200"))["k3_rdma_hcas"] == [f"mlx5_{number}" for number in range(4, 12)]
    assert found.hosts("hw_b200") == ["b200"]


def test_compose_groups_and_names_of_the_site(discover):
    hosts = fleet.rack_hosts()
    options = {
        "strict": True,
        "compose": {"racked": "k3_nvlink_partition ~ '@' ~ k3_nvlink_domain[:8]"},
        "groups": {"big": "gpu_count >= 4"},
        "keyed_groups": [{"key": "driver_version", "prefix": "driver"}],
        "domain_names": {fleet.uuid_of(5): "hall_b_rack05"},
    }
    found = discover({name: hosts[name] for name in ("gb-r05-01", "gb-r06-01")}, options)
    assert found.said == ""
    assert plain(found.variables("gb-r05-01")["racked"]) == "2@00000005"
    assert found.hosts("big") == found.hosts("driver_580_173_02") == ["gb-r05-01", "gb-r06-01"]
    assert found.hosts("domain_hall_b_rack05") == ["gb-r05-01"]

# Copyright: (c) 2026, GPU Fleet contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
"""What a configuration file may say."""

from __future__ import annotations

from pathlib import Path

import pytest

from ansible_collections.gpufleet.kimi_k3.plugins.inventory.gpu_fabric import DOCUMENTATION
from ansible_collections.gpufleet.kimi_k3.plugins.plugin_utils.discovery.errors import OptionError
from ansible_collections.gpufleet.kimi_k3.plugins.plugin_utils.discovery.known_hosts import KnownHosts
from ansible_collections.gpufleet.kimi_k3.plugins.plugin_utils.discovery.options import (
    NAMES,
    NUMBERS,
    POLICIES,
    options,
    unknown_option,
)
from ansible_collections.gpufleet.kimi_k3.plugins.plugin_utils.discovery.session import Address

yaml = pytest.importorskip("yaml")
DOCUMENTED = yaml.safe_load(DOCUMENTATION)["options"]
DEFAULTS = {name: DOCUMENTED[name].get("default") for name in NAMES}
UUID = "7b1e4c2a-9d5f-4e08-b3a6-1c2d3e4f5a6b"


def checked(**given):
    return options({**DEFAULTS, "hosts": ["gpu01"], **given}, Path("/etc/fleet"))


def test_every_option_is_documented_with_a_default_that_is_allowed():
    assert {*NAMES, "plugin"} == set(DOCUMENTED)
    assert set(DOCUMENTED["host_key_policy"]["choices"]) == set(POLICIES)
    assert checked().limits.session == DOCUMENTED["session_timeout"]["default"]
    assert all(DOCUMENTED[name]["type"] == "int" for name in NUMBERS)


def test_relative_paths_start_at_the_configuration_file():
    found = checked(private_key_file="key", ssh_config_file="/abs", known_hosts_files=["known", "~/x"])
    assert found.private_key_file == Path("/etc/fleet/key")
    assert found.ssh_config_file == Path("/abs")
    assert found.known_hosts_files[0] == Path("/etc/fleet/known")
    assert found.known_hosts_files[1] == Path("~/x").expanduser()


@pytest.mark.parametrize(
    ("given", "allowed"),
    [
        ({"hosts": []}, "hosts: no host is named; allowed: at least one"),
        ({"hosts": None}, "hosts: no host is named"),
        ({"hosts": [1]}, "hosts: 1 is not allowed; allowed: a list of host names"),
        ({"hosts": {"a": None}}, "is not allowed; allowed: a list of host names"),
        ({"workers": 0}, "workers: 0 is not allowed; allowed: a whole number from 1 to 512"),
        ({"workers": True}, "workers: True is not allowed"),
        ({"workers": "8"}, "workers: '8' is not allowed"),
        ({"session_timeout": None}, "session_timeout: it is empty; allowed: a whole number from 1 to 3600"),
        ({"port": 70000}, "port: 70000 is not allowed; allowed: a whole number from 1 to 65535"),
        ({"user": "-x"}, "user: '-x' is not allowed"),
        ({"user": 0}, "user: 0 is not allowed; allowed: a text of one line"),
        ({"host_key_policy": "off"}, "host_key_policy: 'off' is not allowed; allowed: reject or accept_new"),
        ({"use_agent": "perhaps"}, "use_agent: 'perhaps' is not allowed; allowed: true or false"),
        ({"known_hosts_files": [""]}, "known_hosts_files: '' is not allowed"),
        ({"domain_names": ["x"]}, "domain_names: "),
        ({"domain_names": {"x": "rack"}}, "domain_names: 'x': 'rack' is not allowed"),
        ({"domain_names": {UUID: "Rack 7"}}, "'Rack 7' is not allowed"),
        ({"domain_names": {UUID: "r", UUID.replace("7", "8"): "r"}}, "two domains have one name"),
    ],
)
def test_what_cannot_be_right_is_refused_with_what_is_allowed(given, allowed):
    with pytest.raises(OptionError) as caught:
        checked(**given)
    assert allowed in str(caught.value)


@pytest.mark.parametrize("value", [123456, ["123456"], ""])
def test_a_secret_is_never_repeated(value):
    for name in ("password", "private_key_passphrase"):
        with pytest.raises(OptionError) as caught:
            checked(**{name: value})
        assert "123456" not in str(caught.value)
        assert name in str(caught.value)


def test_names_of_options():
    assert unknown_option({"hosts": 1}, ["hosts"]) == ""
    assert unknown_option({"hostz": 1}, ["hosts"]) == "there is no option 'hostz'; did you mean hosts?"
    assert "not a mapping" in unknown_option(["hosts"], ["hosts"])


def test_secrets_do_not_show_where_options_and_addresses_are_shown():
    assert "hidden" not in repr(checked(password="hidden", private_key_passphrase="hidden"))
    assert "hidden" not in repr(Address("gpu01", 22, "root", KnownHosts([]), "gpu01", password="hidden"))

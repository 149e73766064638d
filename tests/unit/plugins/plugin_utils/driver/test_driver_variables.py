# Copyright: (c) 2026, GPU Fleet contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
"""The role's variables, the versions that are chosen once, and the keys of repositories."""

from __future__ import annotations

import base64
import hashlib
from datetime import UTC, datetime
from pathlib import Path

import pytest
import yaml

from ansible_collections.gpufleet.kimi_k3.plugins.plugin_utils.driver import key, variables, versions
from ansible_collections.gpufleet.kimi_k3.plugins.plugin_utils.driver.table import DriverError

ROLE = Path(__file__).resolve().parents[5] / "roles" / "nvidia_driver"
BODY = b"\x04" + bytes(range(20))
FINGERPRINT = hashlib.sha1(b"\x99" + len(BODY).to_bytes(2, "big") + BODY).hexdigest().upper()


def armour(data, headers="Comment: made up\n"):
    text = base64.b64encode(data).decode()
    return f"-----BEGIN PGP PUBLIC KEY BLOCK-----\n{headers}\n{text}\n=abcd\n-----END PGP PUBLIC KEY BLOCK-----\n"


KEY = armour(b"\x98" + bytes([len(BODY)]) + BODY)


# ---- variables -----------------------------------------------------------------------------------------------------


def defaults():
    return yaml.safe_load((ROLE / "defaults" / "main.yml").read_text(encoding="utf-8"))


def test_the_defaults_the_specification_and_the_preflight_name_the_same_variables():
    specs = yaml.safe_load((ROLE / "meta" / "argument_specs.yml").read_text(encoding="utf-8"))["argument_specs"]
    assert set(defaults()) == set(variables.RULES.judges) == set(specs["main"]["options"])
    plain = {name: value for name, value in defaults().items() if "{{" not in str(value)}
    assert plain == {name: specs["main"]["options"][name]["default"] for name in plain}


def test_the_defaults_are_allowed():
    assert variables.faults({"node": defaults()}) == []


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("branch", "575"), ("branch", "newest"), ("branch", True), ("version", "580"), ("version", 580.126),
        ("version", "595.71.05"), ("version", "580.126.20; reboot"), ("flavour", "closed"), ("source", "runfile"), ("mirror_url", "ftp://x/"),
        ("mirror_url", "http://user:secret@mirror/"), ("mirror_url", "http://mirror/"), ("key_file", "/no/such/file"),
        ("key_fingerprint", "3BF863CC"), ("parts", "nvswitch"), ("allow_downgrade", "perhaps"),
        ("module_options", {"NVreg_X": "1\ninstall nvidia /bin/sh"}), ("module_options", ["NVreg_X=1"]),
        ("known_bad", [{"version": "580.1"}]), ("known_bad", [{"version": "580.1.1", "reason": "x", "kernel": "("}]),
        ("idle_holders", ["rm -rf"]), ("lock_timeout", -1), ("transaction_timeout", 5), ("rollback_dir", "/a/../b"),
        ("rollback_dir", "here"), ("record_dir", ""), ("repositories", [{"name": "x"}]), ("source", "mirror"),
    ],
)  # fmt: skip
def test_a_wrong_value_is_refused_with_host_variable_value_and_what_is_allowed(name, value):
    found = variables.faults({"gpu-01": {f"nvidia_driver_{name}": value}})
    assert found
    for said in found:
        assert said.startswith("host gpu-01: nvidia_driver_")
        assert "allowed" in said
        assert "\n" not in said


def test_a_misspelt_variable_is_refused_with_the_nearest():
    (said,) = variables.faults({"a": {"nvidia_driver_brnach": "580"}, "b": {"nvidia_driver_brnach": "580"}})
    assert said.startswith("hosts a, b: there is no variable")
    assert "nvidia_driver_branch" in said


def test_a_mirror_needs_its_key_and_the_key_its_fingerprint(tmp_path):
    file = tmp_path / "key.asc"
    file.write_text(KEY, encoding="utf-8")
    mirror = {"nvidia_driver_source": "mirror", "nvidia_driver_mirror_url": "https://mirror.example/cuda"}
    assert "nvidia_driver_key_file" in variables.faults({"a": mirror})[0]
    mirror["nvidia_driver_key_file"] = str(file)
    assert variables.faults({"a": mirror}) == []
    assert variables.faults({"a": {**mirror, "nvidia_driver_key_fingerprint": FINGERPRINT.lower()}}) == []
    assert FINGERPRINT in variables.faults({"a": {**mirror, "nvidia_driver_key_fingerprint": "0" * 40}})[0]


# ---- versions ------------------------------------------------------------------------------------------------------


def offer(*found, branch=580, name="580 vendor"):
    return {"key": name, "branch": branch, "versions": list(found)}


def test_all_nodes_get_the_newest_that_all_are_offered_compared_as_numbers():
    chosen, record = versions.resolve(
        {
            "a": offer("580.95.05-1ubuntu1", "580.126.20-1ubuntu1", "595.71.05-1ubuntu1"),
            "b": offer("3:580.126.20-1.el9", "3:580.173.02-1.el9", "3:580.95.05-1.el9"),
        },
        {},
        datetime(2026, 11, 30, tzinfo=UTC),
    )
    assert chosen == {"a": "580.126.20", "b": "580.126.20"}
    assert record == {"580 vendor": {"version": "580.126.20", "resolved": "2026-11-30T00:00:00Z", "nodes": 2}}


def test_a_late_comer_gets_what_was_chosen_whatever_is_newer_by_then():
    record = {"580 vendor": {"version": "580.95.05"}}
    assert versions.resolve({"late": offer("580.173.02-1")}, record) == ({"late": "580.95.05"}, record)


def test_nodes_of_other_branches_and_sources_are_chosen_for_apart():
    chosen, _record = versions.resolve(
        {"a": offer("580.1.1-1"), "b": offer("595.71.05-1", branch=595, name="595 vendor")}, {}
    )
    assert chosen == {"a": "580.1.1", "b": "595.71.05"}


@pytest.mark.parametrize("second", [offer("580.95.05-1"), offer(), offer("590.1.1-1")])
def test_without_a_common_version_everybody_is_told_what_is_offered(second):
    with pytest.raises(DriverError, match="nvidia_driver_version") as caught:
        versions.resolve({"a": offer("580.126.20-1"), "b": second}, {})
    assert "580.126.20" in str(caught.value)


def test_the_record_is_written_whole_and_read_back(tmp_path):
    record = {"580 vendor": {"version": "580.126.20", "resolved": "x", "nodes": 1}}
    versions.write(str(tmp_path / "reports"), record)
    assert versions.read(str(tmp_path / "reports")) == record
    assert versions.read(str(tmp_path)) == {}


@pytest.mark.parametrize("text", ["{", "[]", '{"580": "580.1.1"}'])
def test_a_damaged_record_is_not_written_over(tmp_path, text):
    (tmp_path / versions.FILE).write_text(text, encoding="utf-8")
    with pytest.raises(DriverError, match=versions.FILE):
        versions.read(str(tmp_path))


# ---- keys ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "text",
    [
        KEY,
        KEY.replace("\n", "\r\n"),
        armour(b"\xc6" + bytes([len(BODY)]) + BODY),
        armour(b"\x99" + len(BODY).to_bytes(2, "big") + BODY + b"\xb4\x02me"),
    ],
)
def test_the_fingerprint_is_read_from_the_key(text):
    assert key.fingerprint(text) == FINGERPRINT


@pytest.mark.parametrize(
    "text",
    ["", "hello", KEY + KEY, KEY.replace("PUBLIC", "PRIVATE"), armour(b"\x98\x40\x04short"), armour(b"\xb4\x03abc"),
     armour(b"\x98\x02\x03\x01"), "-----BEGIN PGP PUBLIC KEY BLOCK-----\n\n???\n-----END PGP PUBLIC KEY BLOCK-----"],
)  # fmt: skip
def test_what_is_not_one_public_key_is_refused(text):
    with pytest.raises(key.KeyFault):
        key.fingerprint(text)


def test_a_key_is_held_against_its_fingerprint_or_else_the_id_in_its_name():
    assert key.check(KEY, FINGERPRINT) == FINGERPRINT
    assert key.check(KEY, "", f"{FINGERPRINT[-8:].lower()}.pub") == FINGERPRINT
    for wanted, file in ((FINGERPRINT[:-1] + "G", ""), ("", "CDF6BA43.pub")):
        with pytest.raises(key.KeyFault, match=FINGERPRINT):
            key.check(KEY, wanted, file)

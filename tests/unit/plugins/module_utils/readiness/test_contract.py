# Copyright: (c) 2026, GPU Fleet contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)

from __future__ import annotations

import pytest

from ansible_collections.gpufleet.kimi_k3.plugins.module_utils.readiness import contract
from ansible_collections.gpufleet.kimi_k3.plugins.module_utils.readiness.contract import ContractError

GOOD = {
    "int": ["12", 12],
    "bool": [True],
    "version": ["", "580", "580.65.06"],
    "name": ["", "eth0", "6e0a4a1c-0d6b-4a3e-9a58-9d1f7f0f0001", 32766],
    "names": [[], ["mlx5_0", "rocep1s0"]],
    "path": ["", "/data/weights"],
}
BAD = {
    "int": [True, "twelve", 1.5, None, [1], "1" * 40],
    "bool": ["true", 1, None],
    "choice": ["", "other", None, ["auto"]],
    "version": [580, 580.65, "580.x", "580.126.20; reboot", "580."],
    "name": ["eth 0", "eth0;reboot", "$(reboot)", "{{ x }}", "\x1b[31m", True, None, "a" * 65],
    "names": ["mlx5_0", [1], ["mlx5_0", "mlx5_0"], ["mlx5 0"], None],
    "path": ["data", "~/data", "/data;reboot", "/data\n", None, 7],
}


def of_type(kind):
    return [name for name, key in contract.KEYS.items() if key.type == kind]


def test_the_defaults_are_a_valid_contract_of_their_own():
    assert (
        contract.resolve({}) == contract.resolve(None) == contract.resolve(contract.defaults()) == contract.defaults()
    )


@pytest.mark.parametrize(
    ("name", "value"),
    [
        (name, value)
        for kind, values in GOOD.items()
        for name in of_type(kind)
        for value in values
        if (kind, value) != ("int", 12)
    ],
)
def test_a_good_value_is_taken_over_in_its_own_type(name, value):
    taken = contract.resolve({name: value})[name]
    assert str(taken) == str(value)
    assert isinstance(taken, {"int": int, "bool": bool, "names": list}.get(contract.KEYS[name].type, str))


@pytest.mark.parametrize(
    ("name", "value"), [(name, value) for kind, values in BAD.items() for name in of_type(kind) for value in values]
)
def test_a_bad_value_is_refused_with_key_and_value(name, value):
    with pytest.raises(ContractError) as caught:
        contract.resolve({name: value})
    assert f"require.{name}: " in str(caught.value)
    assert "allowed: " in str(caught.value)
    assert str(caught.value).isprintable()


BOUNDS = [(name, key.minimum, -1) for name, key in contract.KEYS.items() if key.minimum is not None] + [
    (name, key.maximum, 1) for name, key in contract.KEYS.items() if key.maximum is not None
]


@pytest.mark.parametrize(("name", "limit", "outwards"), BOUNDS)
def test_bounds_are_inclusive(name, limit, outwards):
    assert contract.resolve({name: limit})[name] == limit
    with pytest.raises(ContractError):
        contract.resolve({name: limit + outwards})


def test_every_fault_comes_at_once_and_a_misspelt_key_gets_a_hint():
    with pytest.raises(ContractError) as caught:
        contract.resolve({"gpu_cont": 8, "driver_branch_min": "x", 3: 4})
    assert "did you mean gpu_count" in str(caught.value)
    assert "driver_branch_min" in str(caught.value)
    assert "no key 3" in str(caught.value)


@pytest.mark.parametrize("given", [[], "text", 5, True])
def test_require_and_skip_are_dictionaries(given):
    for resolve in (contract.resolve, lambda value: contract.resolve_skip(value, ["driver.branch"])):
        with pytest.raises(ContractError, match="must be a dictionary"):
            resolve(given)


@pytest.mark.parametrize("skip", [{"driver.brunch": "why"}, {"driver.branch": ""}, {"driver.branch": None}, {1: "why"}])
def test_a_skip_needs_a_known_check_and_a_reason(skip):
    with pytest.raises(ContractError):
        contract.resolve_skip(skip, ["driver.branch"])


def test_a_default_is_never_shared_between_contracts():
    contract.defaults()["rdma_hcas"].append("mlx5_0")
    assert contract.defaults()["rdma_hcas"] == []

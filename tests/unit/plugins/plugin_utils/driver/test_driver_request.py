# Copyright: (c) 2026, GPU Fleet contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
"""From the table, a node's facts and the site's wishes to what the package manager is asked for."""

from __future__ import annotations

import fnmatch

import pytest

from ansible_collections.gpufleet.kimi_k3.plugins.plugin_utils.driver.request import left_behind, request, upstream
from ansible_collections.gpufleet.kimi_k3.plugins.plugin_utils.driver.table import DriverError
from ansible_collections.gpufleet.kimi_k3.tests.fixtures.driver_wishes import (
    SYSTEMS,
    facts,
    item,
    plan,
    table,
    wish,
)

TABLE = table()
UNKNOWN = {"unknown": "needs root"}


def asked(node, **wishes):
    return request(node, wish(**wishes), TABLE)


def names(made):
    return [package["name"] for package in made["plan"]["install"]]


def ours(made):
    return next(file for file in made["plan"]["repositories"] if file["name"] == "nvidia-driver")


def refusal(node, **wishes):
    with pytest.raises(DriverError) as caught:
        asked(node, **wishes)
    return str(caught.value)


@pytest.mark.parametrize("folder", SYSTEMS)
def test_every_distribution_gets_the_open_driver_of_its_own_repository(folder):
    made = asked(facts(folder), version="580.126.20")
    assert (made["folder"], made["machine"], made["flavour"]) == (folder, "x86_64", "open")
    assert made["decides"] == "nvidia-open"
    assert {"name": "nvidia-open", "version": "580.126.20", "repository": "nvidia-driver"} in made["plan"]["install"]
    content = ours(made)["content"]
    assert f"https://developer.download.nvidia.com/compute/cuda/repos/{folder}/x86_64/" in content
    assert ours(made)["key_path"] in content


@pytest.mark.parametrize("folder", [folder for folder in SYSTEMS if folder != "debian13"])
def test_an_arm_server_takes_the_folder_sbsa(folder):
    made = asked(facts(folder, arch="aarch64"))
    assert made["machine"] == "sbsa"
    assert f"/{folder}/sbsa/" in ours(made)["content"]
    assert "aarch64/" not in ours(made)["content"]


def test_debian_13_has_no_sbsa_at_nvidia_and_may_have_it_on_a_mirror():
    node = facts("debian13", arch="aarch64")
    assert "no repository debian13/sbsa" in refusal(node)
    made = asked(node, source="mirror", mirror_url="http://mirror.example/cuda/")
    assert "URIs: http://mirror.example/cuda/debian13/sbsa/\n" in ours(made)["content"]


@pytest.mark.parametrize(
    ("folder", "branch", "flavour", "first"),
    [
        ("ubuntu2404", "580", "proprietary", "nvidia-driver-580"),
        ("ubuntu2404", "595", "auto", "nvidia-open"),
        ("ubuntu2404", "595", "proprietary", "cuda-drivers"),
        ("debian12", "580", "proprietary", "nvidia-driver"),
        ("rhel9", "580", "proprietary", "nvidia-driver"),
        ("rhel10", "620", "open", "nvidia-open"),
    ],
)
def test_the_name_goes_by_branch_and_flavour(folder, branch, flavour, first):
    assert asked(facts(folder), branch=branch, flavour=flavour)["decides"] == first


@pytest.mark.parametrize(
    ("folder", "flavour", "streams"),
    [
        ("rhel9", "auto", {"nvidia-driver": ["580-open", "open-dkms"]}),
        ("rhel9", "proprietary", {"nvidia-driver": ["580-dkms", "latest-dkms"]}),
        ("amzn2023", "auto", {"nvidia-driver": ["580-open", "open-dkms"]}),
        ("rhel10", "auto", {}),
        ("debian12", "auto", {}),
    ],
)
def test_only_modular_systems_have_streams_and_open_never_means_580_dkms(folder, flavour, streams):
    assert asked(facts(folder), flavour=flavour)["plan"]["module_streams"] == streams


@pytest.mark.parametrize("folder", ["debian12", "rhel9"])
@pytest.mark.parametrize(
    ("product", "there", "not_there"),
    [
        ("h100-pcie", [], ["nvidia-fabricmanager", "nvlsm", "nvidia-imex"]),
        ("h100", ["nvidia-fabricmanager", "libnvidia-nscq"], ["nvlsm", "nvidia-imex"]),
        ("b200", ["nvidia-fabricmanager", "nvlsm", "libnvsdm"], ["nvidia-imex"]),
        ("gb200", ["nvidia-imex"], ["nvidia-fabricmanager", "nvlsm"]),
    ],
)
def test_a_node_gets_what_its_gpus_need(folder, product, there, not_there):
    made = names(asked(facts(folder, product=product), version="580.126.20"))
    assert set(there) <= set(made)
    assert not set(not_there) & set(made)


def test_only_what_carries_the_drivers_version_is_asked_for_at_it():
    wanted = {package["name"]: package.get("version") for package in asked(facts(product="b200"))["plan"]["install"]}
    assert wanted["nvidia-fabricmanager"] == wanted["libnvsdm"] == "580"
    assert wanted["nvlsm"] is None
    assert wanted["infiniband-diags"] is None


def test_arm_servers_have_no_libnvsdm():
    assert "libnvsdm" not in names(asked(facts(product="b200", arch="aarch64")))


def test_a_branch_takes_its_newest_and_a_version_takes_itself_with_its_pin():
    driver = asked(facts())["plan"]["install"][0]
    assert (driver["version"], driver["pick"]) == ("580", "newest")
    made = asked(facts(), version="580.126.20")
    assert made["plan"]["install"][0]["version"] == "580.126.20"
    assert "pick" not in made["plan"]["install"][0]
    assert "nvidia-driver-pinning-580.126.20" in names(made)


@pytest.mark.parametrize("product", ["gb200", "gb300"])
def test_trays_of_a_rack_need_an_exact_version(product):
    assert "nvidia_driver_version is empty" in refusal(facts(product=product, arch="aarch64"))
    assert asked(facts(product=product, arch="aarch64"), version="580.173.02")["parts"] == ["imex"]


@pytest.mark.parametrize(
    ("folder", "installed", "wishes", "gone"),
    [
        # Another branch.
        ("ubuntu2404", ["nvidia-dkms-575-open", "libnvidia-compute-575"], {}, ["libnvidia-compute-575", "nvidia-dkms-575-open"]),
        # Another flavour of the same branch.
        ("ubuntu2404", ["nvidia-dkms-580", "nvidia-driver-580", "libnvidia-compute-580"], {}, ["nvidia-dkms-580", "nvidia-driver-580"]),
        ("ubuntu2404", ["nvidia-dkms-580-open", "nvidia-open"], {"flavour": "proprietary"}, ["nvidia-dkms-580-open", "nvidia-open"]),
        ("debian12", ["nvidia-kernel-dkms", "libcuda1"], {}, ["nvidia-kernel-dkms"]),
        ("rhel9", ["kmod-nvidia-latest-dkms", "nvidia-driver", "libnvidia-ml"], {}, ["kmod-nvidia-latest-dkms"]),
        # Another origin.
        ("ubuntu2404", ["nvidia-utils-580-server", "nvidia-fabricmanager-580"], {}, ["nvidia-fabricmanager-580", "nvidia-utils-580-server"]),
        ("ubuntu2404", ["nvidia-utils-580", "nvidia-dkms-580-open"], {"source": "distribution"}, ["nvidia-dkms-580-open", "nvidia-utils-580"]),
        ("debian12", ["nvidia-open-kernel-dkms", "libcuda1"], {}, ["nvidia-open-kernel-dkms"]),
        # Another naming: the branch went out of the names at 590, and the hyphen out of the fabric manager at 580.
        ("ubuntu2404", ["nvidia-dkms-580-open", "libnvidia-compute-580"], {"branch": "595"}, ["libnvidia-compute-580", "nvidia-dkms-580-open"]),
        ("ubuntu2404", ["nvidia-dkms-open", "libnvidia-compute"], {}, ["libnvidia-compute", "nvidia-dkms-open"]),
        ("rhel9", ["nvidia-fabric-manager", "nvidia-imex-575"], {}, ["nvidia-fabric-manager", "nvidia-imex-575"]),
        # Nothing of its own.
        ("ubuntu2404", ["nvidia-dkms-580-open", "nvidia-open", "libnvidia-compute-580", "nvidia-utils-580"], {}, []),
        ("debian13", ["nvidia-open", "nvidia-driver-cuda", "libnvidia-ml1", "libcuda1", "libegl-nvidia0"], {}, []),
        ("rhel10", ["nvidia-open", "kmod-nvidia-open-dkms", "nvidia-driver-cuda-libs", "libnvidia-ml"], {}, []),
    ],
)  # fmt: skip
def test_what_is_of_another_branch_flavour_origin_or_naming_goes(folder, installed, wishes, gone):
    node = facts(folder)
    node["driver"]["packages"]["locked"] = dict.fromkeys(installed, "575.57.08-1")
    removed = asked(node, **wishes)["plan"]["remove"]
    assert [name for name in removed if "*" not in name and name in installed] == gone


def test_a_fabric_package_that_is_there_without_need_follows_the_driver():
    node = facts(product="h100-pcie")
    node["driver"]["packages"]["fabric"] = ["nvidia-imex"]
    assert {"name": "nvidia-imex", "version": "580.126.20"} in asked(node, version="580.126.20")["plan"]["install"]


@pytest.mark.parametrize("naming", TABLE["namings"], ids=lambda row: row["name"])
def test_the_hold_takes_in_the_set_and_leaves_what_has_a_version_of_its_own(naming):
    folder = {"ubuntu": "ubuntu2404", "debian": "debian12", "el_modular": "rhel9", "el": "rhel10"}[
        naming["families"][0]
    ]
    branch = str(naming["branches"]["from"])
    made = asked(facts(folder), branch=branch, source=naming["sources"][0], version=f"{branch}.10.20")

    def held(name):
        return any(fnmatch.fnmatchcase(name, pattern) for pattern in made["plan"]["hold"])

    free = {"zstd", "python3-dnf-plugin-versionlock", "infiniband-diags"}
    assert [name for name in names(made) if name not in free and not held(name)] == []
    own = [
        "nvidia-container-toolkit",
        "nvidia-container-toolkit-base",
        "libnvidia-container1",
        "nvidia-docker2",
        "nvidia-fs",
    ]
    assert [name for name in own if held(name)] == []


@pytest.mark.parametrize(
    ("kernel", "folder", "wanted"),
    [
        ("6.8.0-85-generic", "ubuntu2404", [{"name": "linux-headers-6.8.0-85-generic"}]),
        ("6.1.0-57-amd64", "debian12", [{"name": "linux-headers-6.1.0-57-amd64"}]),
        ("5.14.0-570.12.1.el9_6.x86_64", "rhel9", [
            {"name": "kernel-devel", "version": "5.14.0-570.12.1.el9_6"},
            {"name": "kernel-devel-matched", "version": "5.14.0-570.12.1.el9_6"}]),
        ("5.14.0-570.12.1.el9_6.aarch64+64k", "rhel9", [
            {"name": "kernel-64k-devel", "version": "5.14.0-570.12.1.el9_6"},
            {"name": "kernel-64k-devel-matched", "version": "5.14.0-570.12.1.el9_6"}]),
        ("5.15.0-310.184.5.el9uek.x86_64", "rhel9", [{"name": "kernel-uek-devel", "version": "5.15.0-310.184.5.el9uek"}]),
        ("6.1.150-174.273.amzn2023.x86_64", "amzn2023", [
            {"name": "kernel-devel", "version": "6.1.150-174.273.amzn2023"},
            {"name": "kernel-modules-extra", "version": "6.1.150-174.273.amzn2023"}]),
    ],
)  # fmt: skip
def test_headers_are_asked_for_by_the_kernel_they_are_for(kernel, folder, wanted):
    kernels = {"running": kernel, "boot": kernel, "installed": [kernel], "how": ""}
    made = asked(facts(folder, kernels=kernels, headers={kernel: False}))
    assert made["headers"] == [{"kernel": kernel, "install": wanted}]


def test_headers_are_needed_for_the_running_and_the_next_kernel_and_only_where_they_are_missing():
    kernels = {"running": "6.8.0-85-generic", "boot": "6.8.0-90-generic", "installed": [], "how": ""}
    made = asked(facts(kernels=kernels, headers={"6.8.0-85-generic": True}))
    assert [row["kernel"] for row in made["headers"]] == ["6.8.0-90-generic"]
    assert made["kernels"] == ["6.8.0-85-generic", "6.8.0-90-generic"]


@pytest.mark.parametrize("boot", ["6.12.0-124.el10.x86_64", "6.12.0-9.el10.x86_64"])
def test_the_companion_of_the_headers_is_asked_for_the_newest_kernel_alone(boot):
    """kernel-devel-matched: one version of it is there at a time, so that of an older kernel would be a downgrade."""
    running = "6.12.0-55.el10.x86_64"
    kernels = {"running": running, "boot": boot, "installed": [], "how": ""}
    made = asked(facts("rhel10", kernels=kernels, headers={}))
    names = {row["kernel"]: [item["name"] for item in row["install"]] for row in made["headers"]}
    newest = boot if "124" in boot else running
    other = running if newest == boot else boot
    assert names == {newest: ["kernel-devel", "kernel-devel-matched"], other: ["kernel-devel"]}


def test_where_the_next_kernel_is_not_known_every_installed_one_counts():
    kernels = {
        "running": "6.8.0-85-generic",
        "boot": UNKNOWN,
        "installed": ["6.8.0-85-generic", "6.8.0-90-generic"],
        "how": "",
    }
    assert asked(facts(kernels=kernels))["kernels"] == ["6.8.0-85-generic", "6.8.0-90-generic"]
    assert "needs root" in refusal(facts(kernels={**kernels, "installed": []}))


def test_ubuntus_own_archive_needs_no_headers_and_takes_a_module_for_each_kernel():
    kernels = {"running": "6.8.0-85-generic", "boot": "6.8.0-90-generic", "installed": [], "how": ""}
    made = asked(facts(kernels=kernels, headers={}), source="distribution")
    assert made["headers"] == []
    assert made["dkms"] is False
    assert made["plan"]["repositories"] == []
    assert {
        "linux-modules-nvidia-580-server-open-6.8.0-85-generic",
        "linux-modules-nvidia-580-server-open-6.8.0-90-generic",
    } <= set(names(made))
    assert "nvidia-fabricmanager-580" in names(made)


def test_a_former_file_of_nvidias_goes_and_one_that_may_hold_more_is_refused():
    node = facts()
    known = node["driver"]["packages"]["repositories"]
    known["vendor"] = [
        {"distro": "ubuntu2404", "machine": "x86_64", "file": "/etc/apt/sources.list.d/cuda-ubuntu2404-x86_64.list"}
    ]
    former = asked(node)["plan"]["repositories"][0]
    assert (former["path"], former["state"]) == ("/etc/apt/sources.list.d/cuda-ubuntu2404-x86_64.list", "absent")
    known["vendor"][0]["file"] = "/etc/apt/sources.list"
    assert "/etc/apt/sources.list names NVIDIA's repository" in refusal(node)


@pytest.mark.parametrize(
    ("node", "wishes", "says"),
    [
        (facts("sles"), {}, "SUSE"),
        (facts("azurelinux"), {}, "Microsoft"),
        (facts("fedora"), {}, "is not managed; managed: ubuntu2204"),
        (facts("debian12"), {"source": "distribution"}, "allowed: vendor, mirror"),
        (facts(arch="ppc64le"), {}, "ppc64le"),
        (facts(product="b200"), {"flavour": "proprietary"}, "b200"),
        (facts(), {"branch": "620", "flavour": "proprietary"}, "no proprietary flavour of branch 620"),
        (facts(), {"branch": "590", "source": "distribution"}, "branch 590 is not in the table"),
        (facts(product="gb200", arch="aarch64"), {"source": "distribution", "version": "580.1.1"}, "no imex package"),
        (facts(kernels=UNKNOWN), {}, "which kernels"),
    ],
)  # fmt: skip
def test_what_the_role_does_not_know_is_refused_in_one_sentence(node, wishes, says):
    said = refusal(node, **wishes)
    assert says in said
    assert "\n" not in said


def test_amd_no_gpu_dgx_el8_and_an_unknown_fabric_are_refused():
    node = facts()
    node["host"]["gpus"] = [{"vendor": "1002", "id": "75a3", "product": "mi355x", "form": "oam"}]
    assert "AMD" in refusal(node)
    node["host"]["gpus"] = []
    assert "no NVIDIA GPU" in refusal(node)
    node = facts()
    node["host"]["os"]["dgx"] = True
    assert "DGX OS" in refusal(node)
    node = facts("rhel9")
    node["host"]["os"]["version"] = "8.10"
    assert "dnf bindings" in refusal(node)
    node = facts()
    node["fabric"]["kind"]["kind"] = {"unknown": "this GPU product is not in the table"}
    assert "nvidia_driver_parts" in refusal(node)
    assert asked(node, parts="hgx")["parts"] == ["fabric_manager"]


def test_what_would_stay_at_another_version_is_named():
    node = facts("debian12")
    node["driver"]["packages"]["locked"] = {
        "nvidia-driver": "550.1-1",
        "nvidia-smi": "550.1-1",
        "libcuda1": "580.126.20-1",
    }
    planned = plan(item("nvidia-driver", "550.1-1", "580.126.20-1"))
    assert left_behind(node, planned, "580.126.20") == ["nvidia-smi"]


@pytest.mark.parametrize("version", ["580.126.20-1ubuntu1", "3:580.126.20-1.el9", "580.126.20"])
def test_the_drivers_version_is_read_from_a_packages(version):
    assert upstream(version) == "580.126.20"

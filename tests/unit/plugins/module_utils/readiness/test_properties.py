# Copyright: (c) 2026, GPU Fleet contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
"""Properties: nothing that a node can show makes the probe break, and nothing broken makes it answer ``ready``."""

from __future__ import annotations

import contextlib
import json
from pathlib import Path
from xml.etree import ElementTree

import pytest

hypothesis = pytest.importorskip("hypothesis")
from hypothesis import HealthCheck, assume, given, settings  # noqa: E402
from hypothesis import strategies as st  # noqa: E402

from ansible_collections.gpufleet.kimi_k3.plugins.module_utils.readiness import contract, probe  # noqa: E402
from ansible_collections.gpufleet.kimi_k3.plugins.module_utils.readiness.concerns import load  # noqa: E402
from ansible_collections.gpufleet.kimi_k3.plugins.module_utils.readiness.model import READY, VERDICTS  # noqa: E402
from ansible_collections.gpufleet.kimi_k3.plugins.module_utils.readiness.node import Node  # noqa: E402
from ansible_collections.gpufleet.kimi_k3.plugins.module_utils.readiness.verdict import verdict  # noqa: E402
from ansible_collections.gpufleet.kimi_k3.tests.fixtures.captures import capture  # noqa: E402
from ansible_collections.gpufleet.kimi_k3.tests.fixtures.nodes import REQUIRE, healthy  # noqa: E402
from ansible_collections.gpufleet.kimi_k3.tests.fixtures.nodes.parts import fabric, gpu, rdma  # noqa: E402
from ansible_collections.gpufleet.kimi_k3.tests.fixtures.nodes.profile import (  # noqa: E402
    KINDS,
    STUB_VERBS,
    MadeNode,
    Reply,
    pci_device,
)

CONTRACT = contract.resolve(REQUIRE)
# The same examples on every machine and in every run; no data base beside the tests.
BOUNDED = settings(
    max_examples=40,
    derandomize=True,
    database=None,
    deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow, HealthCheck.data_too_large],
)
HUGE = 3 << 20
EDGES = "\0 \t\r\n"


class Bench:
    """A node written once; each question is asked of a fresh Node over the same folder, with one thing exchanged."""

    def __init__(self, profile, root):
        self.made = MadeNode(profile, root)
        # What the stub of libibverbs answers from is no file of a node.
        self.files = {path: text for path, text in profile.all_files().items() if path != STUB_VERBS}
        self.commands = profile.all_commands()

    def fresh(self, commands=None):
        """A Node that remembers nothing, with some commands answered otherwise."""
        node = MadeNode.__new__(MadeNode)
        Node.__init__(node, self.made.root, self.made.timeout)
        node.profile, node.machine_is_root, node.asked = self.made.profile, True, []
        node._commands = {**self.commands, **(commands or {})}
        node.require = CONTRACT
        return node

    def ask_gpus(self, text):
        """The verdict of the GPU and fabric checks alone, where nvidia-smi answers ``text``."""
        node = self.fresh({gpu.QUERY: Reply(text)})
        facts = {name: load(name).collect(node) for name in ("gpu", "fabric")}
        return verdict([check for name in facts for check in load(name).assess(facts, CONTRACT)])

    def ask_rdma(self, require, path, content):
        """The status of each RDMA check alone, with the file at ``path`` holding ``content``."""
        with self.holding(path, content):
            checks = load("rdma").assess({"rdma": load("rdma").collect(self.fresh())}, require)
        return {check.id: check.status for check in checks}

    def ask(self, commands=None, path=None, content=b""):
        """The report, with commands answered otherwise or the file at ``path`` holding ``content``."""
        node = self.fresh(commands)
        with self.holding(path, content) if path else contextlib.nullcontext():
            return checked(probe.probe(node, CONTRACT, {}))

    @contextlib.contextmanager
    def holding(self, path, content):
        """The file at ``path`` holds ``content`` for a while."""
        target = Path(self.made.root + path)
        before = target.read_bytes()
        target.write_bytes(content)
        try:
            yield
        finally:
            target.write_bytes(before)


def checked(report):
    """What holds of every report: whole, of known words, small, and without a concern that had to be caught."""
    assert report["verdict"] in VERDICTS
    assert [check["id"] for check in report["checks"]] == probe.check_ids()
    assert len(json.dumps(report)) <= probe.SIZE_LIMIT
    broken = [check for check in report["checks"] if "this part of the node failed: " in check["reason"]]
    assert broken == []
    return report


@pytest.fixture(scope="module", params=KINDS)
def bench(request, tmp_path_factory):
    return Bench(healthy(request.param), tmp_path_factory.mktemp(request.param) / "node")


def one_of(items, share):
    """The item at that share of a list, which hypothesis can make smaller without seeing the list."""
    return items[int(share * len(items))]


def told(content):
    """What a reader of one-value files takes from it."""
    return content.decode("utf-8", "replace").strip(EDGES).split("\n", 1)[0].strip()


NUMBERS = (
    "-1",
    "0",
    "1e999",
    "nan",
    "0x",
    "9" * 5000,
    "\u0663",
    "[1,2]",
    '{"a": {}}',
    "null",
    "true",
    '"x"',
    "[" * 9000,
)
ENCODINGS = ("utf-16", "utf-32", "cp500")
CONTROL = (*range(9), 11, 12, 27)
# How a text is spoilt, and two numbers that say where and with what: small, so that a failing example can be read.
SPOILS = st.tuples(
    st.sampled_from(["cut", "control", "encoding", "binary", "empty", "huge", "long line", "number"]),
    st.floats(0, 1, exclude_max=True),
    st.binary(max_size=40),
)


def spoilt(original, spoil):
    """Anything in the place of ``original``: cut, mixed with control characters, of another encoding, empty, huge."""
    kind, share, noise = spoil
    at = int(share * len(original))
    if kind == "cut":
        return original[:at]
    if kind == "control":
        return original[:at] + bytes([CONTROL[len(noise) % len(CONTROL)]]) + original[at:]
    if kind == "encoding":
        return original.decode("utf-8", "replace").encode(ENCODINGS[len(noise) % len(ENCODINGS)], "replace")
    if kind == "huge":
        return (original or b"\xff\n") * (HUGE // max(2, len(original)))
    if kind == "long line":
        return (noise[:1] or b"9") * HUGE
    if kind == "number":
        return NUMBERS[int(share * len(NUMBERS))].encode()
    return noise if kind == "binary" else b""


def test_the_healthy_nodes_are_ready(bench):
    """Without it everything below would hold for the wrong reason."""
    report = bench.ask()
    assert (report["verdict"], report["root_cause"]) == (READY, None)


@BOUNDED
@given(spoil=SPOILS)
def test_no_text_of_nvidia_smi_makes_a_node_ready(bench, spoil):
    original = bench.commands[gpu.QUERY].stdout.rstrip().encode()
    text = spoilt(original, spoil).decode("utf-8", "replace")
    assert bench.ask({gpu.QUERY: Reply(text)})["verdict"] != READY


@settings(BOUNDED, max_examples=60)
@given(share=st.floats(0, 1, exclude_max=True), spoil=SPOILS)
def test_no_file_breaks_the_probe(bench, share, spoil):
    path = one_of(sorted(bench.files), share)
    original = bench.files[path]
    bench.ask(path=path, content=spoilt(original.encode() if isinstance(original, str) else original, spoil))


@BOUNDED
@given(share=st.floats(0, 1, exclude_max=True), spoil=SPOILS)
def test_no_file_that_decides_may_be_broken_on_a_ready_node(bench, share, spoil):
    gpus = [path for path in bench.files if path.rsplit("/", 1)[-1] in ("vendor", "device", "class")]
    gpus = [path for path in gpus if any(f"/{bdf}/" in path for bdfs in gpu.BDFS.values() for bdf in bdfs)]
    path = one_of([*sorted(gpus), *["/sys/module/nvidia/version"] * 4], share)
    original = str(bench.files[path]).encode()
    content = spoilt(original, spoil)
    assume(told(content) != told(original))
    assert bench.ask(path=path, content=content)["verdict"] != READY


@settings(BOUNDED, max_examples=60)
@given(share=st.floats(0, 1, exclude_max=True), spoil=SPOILS, ended=st.sampled_from(["well", "badly", "killed", "not"]))
def test_no_command_breaks_the_probe(bench, share, spoil, ended):
    argv = one_of(sorted(bench.commands), share)
    text = spoilt(bench.commands[argv].stdout.encode(), spoil).decode("utf-8", "replace")
    answers = {"well": Reply(text), "badly": Reply("", text, 1), "killed": Reply(text, rc=139), "not": Reply(hang=True)}
    report = bench.ask({argv: answers[ended]})
    if ended != "well" and argv in (gpu.QUERY, fabric.IMEX_CTL):
        assert report["verdict"] != READY


# ---- one field of a healthy answer at a time -----------------------------------------------------------------------------

SLOW = "clocks_event_reasons/clocks_event_reason_"
VOLATILE = "ecc_errors/volatile/"
# Path below <gpu> -> values that break the contract; None takes the element away.
BROKEN = {
    "gpu_recovery_action": ("Reset", "Reboot", "Drain P2P", "Drain and Reset", "Bus Reset", "N/A", "", None),
    "ecc_mode/current_ecc": ("Disabled", "N/A", None),
    "ecc_mode/pending_ecc": ("Disabled", "N/A", None),
    VOLATILE + "sram_uncorrectable_parity": ("1", "N/A", None),
    VOLATILE + "sram_uncorrectable_secded": ("7", "N/A", None),
    VOLATILE + "dram_uncorrectable": ("184467440737095516150", "2", "N/A", None),
    "ecc_errors/aggregate/sram_threshold_exceeded": ("Yes", "N/A", None),
    "ecc_errors/channel_repair_pending": ("Yes",),
    "ecc_errors/tpc_repair_pending": ("Yes",),
    "ecc_errors/unrepairable_memory": ("Yes",),
    "remapped_rows/remapped_row_pending": ("Yes", "N/A", None),
    "remapped_rows/remapped_row_failure": ("Yes", "N/A", None),
    "mig_mode/current_mig": ("Enabled", "N/A", None),
    "mig_mode/pending_mig": ("Enabled", "N/A", None),
    "compute_mode": ("Exclusive_Process", "Prohibited", "N/A", None),
    "pci/pci_gpu_link_info/link_widths/current_link_width": ("8x", "1x", "N/A", None),
    "pci/pci_gpu_link_info/link_widths/max_link_width": ("8x", "N/A", None),
    "pci/replay_counter": ("99999",),
    SLOW + "hw_slowdown": ("Active", "N/A", None),
    SLOW + "hw_thermal_slowdown": ("Active", "N/A", None),
    SLOW + "hw_power_brake_slowdown": ("Active", "N/A", None),
    SLOW + "sw_thermal_slowdown": ("Active", "N/A", None),
    "gsp_firmware_version": ("570.86.15", "N/A", None),
    "vbios_version": ("00.00.00.00.00", "N/A", None),
    "fb_memory_usage/used": ("99999 MiB", "N/A", None),
    "fabric/state": ("In Progress", "Not Started", "Not Supported", "N/A", "", None),
    "fabric/status": ("Unknown Error", "Insufficient Resources", "N/A", None),
    "fabric/health/summary": ("Unhealthy", "Limited Capacity"),
    "fabric/health/bandwidth": ("Degraded",),
    "fabric/health/route_unhealthy": ("True",),
    "fabric/health/route_recovery_in_progress": ("True",),
    "fabric/health/access_timeout_recovery": ("True",),
    "fabric/health/incorrect_configuration": ("Incorrect SystemGuid",),
}
TRAY_ONLY = {
    "fabric/clusterUuid": ("11111111-2222-3333-4444-555555555555", gpu.NO_CLUSTER, "N/A", None),
    "fabric/cliqueId": ("31", "N/A", None),
}


def mutations(kind):
    table = {**BROKEN, **TRAY_ONLY} if kind == "gb200" else BROKEN
    return [(path, value) for path, values in table.items() for value in values]


def mutated(root, path, value):
    """The XML with one field of the second GPU changed; None where the answer does not have it."""
    parent_path, _slash, name = path.rpartition("/")
    block = root.findall("gpu")[1]
    parent = block.find(parent_path) if parent_path else block
    element = None if parent is None else parent.find(name)
    if element is None:
        return None
    before = element.text
    position = list(parent).index(element)
    if value is None:
        parent.remove(element)
    else:
        element.text = value
    text = ElementTree.tostring(root, encoding="unicode")
    element.text = before
    if value is None:
        parent.insert(position, element)
    return text


def still_ready(bench, text, kind):
    """The mutations of a healthy answer that leave the node ready, and how many were tried."""
    root = ElementTree.fromstring(text.encode())
    for block in root.findall("gpu"):
        for clocks in block.findall("supported_clocks"):  # nine tenths of a real answer, and never read
            block.remove(clocks)
    assert bench.ask_gpus(ElementTree.tostring(root, encoding="unicode")) == READY
    tried, ready = 0, []
    for path, value in mutations(kind):
        changed = mutated(root, path, value)
        if changed is not None:
            tried += 1
            if bench.ask_gpus(changed) == READY:
                ready.append((path, value))
    return ready, tried


@pytest.mark.parametrize("kind", KINDS)
def test_no_broken_field_leaves_a_node_ready(tmp_path, kind):
    ready, tried = still_ready(Bench(healthy(kind), tmp_path / "node"), gpu.smi_xml(kind), kind)
    assert ready == []
    assert tried > 60


@pytest.mark.parametrize(("kind", "version"), [("b200", "580.105.08"), ("gb200", "580.173.02")])
def test_no_broken_field_of_a_real_capture_leaves_its_node_ready(tmp_path, kind, version):
    text = capture(f"nvidia-smi/qx-{kind}.xml").read_text()
    # The healthy node of that kind with the GPUs of the capture in the place of its own, and of its version.
    profile = healthy(kind).without(*(f"/sys/bus/pci/devices/{bdf}" for bdf in gpu.BDFS[kind]))
    for block in ElementTree.fromstring(text.encode()).findall("gpu"):
        profile = profile.plus(
            pci_device(block.get("id", "")[4:].lower(), "10de", gpu.DEVICES[kind], "030200", "nvidia")
        )
    profile.files["/sys/module/nvidia/version"] = version
    for name in ("nvidia-fabricmanager", "nvidia-imex"):
        if name in profile.packages:
            profile.packages[name] = f"{version}-1"
    ready, tried = still_ready(Bench(profile, tmp_path / "node"), text, kind)
    assert ready == []
    assert tried > 60


# ---- one file of a real rail at a time ---------------------------------------------------------------------------------

GARBAGE = (b"", b"\n", b"garbage\n", b"\0\xff\xfe", b"\x1b[2J")
# File of a port -> contents that break the contract of a rail that must carry 400 Gb/s of InfiniBand.
BAD_PORT = {
    "state": (*GARBAGE, b"1: DOWN\n", b"2: INIT\n", b"3: ARMED\n", b"5: ACTIVE_DEFER\n", b"DOWN\n", b"4:\n"),
    "phys_state": (*GARBAGE, b"2: Polling\n", b"3: Disabled\n", b"6: LinkErrorRecovery\n", b"Polling\n", b"5:\n"),
    "rate": (*GARBAGE, b"2.5 Gb/sec (1X SDR)\n", b"100 Gb/sec (4X EDR)\n", b"0 Gb/sec\n", b"-400 Gb/sec\n", b"DOWN\n"),
    "link_layer": (*GARBAGE, b"Unknown\n", b"Unspecified\n", b"Ethernet\n", b"DOWN\n"),
}


@pytest.mark.parametrize("name", sorted(BAD_PORT))
def test_no_bad_port_of_a_real_capture_leaves_rdma_healthy(tmp_path, name):
    root = capture("sysfs/sys-class-infiniband-h100.0")
    # The healthy node of that kind with the ports of the capture in the place of its own.
    profile = healthy("h100")
    for path in root.rglob("*"):
        if path.is_file():
            profile.files[f"{rdma.CLASS}/{path.relative_to(root)}"] = path.read_bytes()
    bench = Bench(profile, tmp_path / "node")
    rails = rdma.RAILS["h100"]
    require = contract.resolve({**REQUIRE, "interconnect": "rdma", "rdma_rate_min_gbps": 400, "rdma_hcas": rails})
    passing = {"pass", "not_applicable"}
    files = [f"{rdma.CLASS}/{rail}/ports/1/{name}" for rail in rails]
    # Written back as it was, a file changes nothing: what is found below comes from the contents.
    told = bench.ask_rdma(require, files[0], profile.files[files[0]])
    assert (set(told.values()), told["rdma.ports"], told["rdma.rate"]) == (passing, "pass", "pass")
    healthy_anyway = [
        (path, content)
        for path in files
        for content in BAD_PORT[name]
        if set(bench.ask_rdma(require, path, content).values()) <= passing
    ]
    assert healthy_anyway == []

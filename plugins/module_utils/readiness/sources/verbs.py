# Copyright: (c) 2026, GPU Fleet contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
"""Whether the RDMA devices would register a dma-buf, asked of libibverbs in a child process (facts 3.4 to 3.8)."""

from __future__ import annotations

import errno
import json
import pkgutil
import sys
from typing import Any

from ansible_collections.gpufleet.kimi_k3.plugins.module_utils.readiness.model import Unknown
from ansible_collections.gpufleet.kimi_k3.plugins.module_utils.readiness.node import Node

# Imported for its text, and so that Ansible sends it to the node along with this file.
from ansible_collections.gpufleet.kimi_k3.plugins.module_utils.readiness.sources import verbs_child

SOURCE = "ibv_reg_dmabuf_mr(fd -1), libibverbs in a child process"

CAPABLE = "capable"
NOT_CAPABLE = "not capable"
UNKNOWN = "unknown"

# The kernel's own ENOTSUPP, which leaks out of nvidia's dma-buf code; Python's errno has no name for it (facts 3.5).
ENOTSUPP = 524
# Names by our own table: Python's gives EOPNOTSUPP its other name, ENOTSUP.
MEANINGS = {
    errno.EBADF: ("EBADF", "the request reached the descriptor: kernel, driver and library support it"),
    errno.EOPNOTSUPP: ("EOPNOTSUPP", "the provider library or the kernel driver has no dma-buf registration"),
    errno.EPROTONOSUPPORT: ("EPROTONOSUPPORT", "this kernel's RDMA stack is older than 5.12, without dma-buf"),
    errno.EINVAL: ("EINVAL", "alignment was refused, or the function is limited (virtual function, firmware)"),
    errno.ENOSYS: ("ENOSYS", "this kernel has no RDMA stack"),
    errno.ENOMEM: ("ENOMEM", "no memory could be locked: look at the locked-memory limit"),
    errno.EPERM: ("EPERM", "permission denied"),
    errno.EACCES: ("EACCES", "permission denied"),
    ENOTSUPP: ("ENOTSUPP", "what a driver gives where the PCI topology is not supported"),
}


def command(page_size: int) -> list[str] | Unknown:
    """The child's argv: this Python, without site packages, with the text of verbs_child.py."""
    package = verbs_child.__name__.rpartition(".")[0]
    try:
        text = pkgutil.get_data(package, "verbs_child.py")
    except (OSError, ImportError) as exc:
        return Unknown(f"the probe cannot find its own file verbs_child.py: {exc}")
    if not text or not sys.executable:
        return Unknown("the probe cannot find its own file verbs_child.py or the Python it runs on")
    return [sys.executable, "-I", "-S", "-c", text.decode(), str(page_size)]


def ask(node: Node) -> dict[str, dict[str, Any]] | Unknown:
    """``{device: {"answer", "step", "errno", "meaning"}}`` with answer capable, not capable or unknown.

    ``capable`` is never ``proven``: a descriptor of -1 ends before a GPU's buffer would be attached, so errno 524
    cannot show (facts 3.7). Unknown where the library cannot be asked at all.
    """

    def load() -> dict[str, dict[str, Any]] | Unknown:
        argv = command(node.page_size())
        if isinstance(argv, Unknown):
            return argv
        result = node.run(argv)
        if result.error:
            why = f"gave no answer within {result.detail}" if result.error == "timeout" else "could not be started"
            return Unknown(f"the child process that asks libibverbs {why}", SOURCE)
        return read(result.stdout, result.rc, result.stderr, node.is_root())

    return node.once("verbs", load)


def read(stdout: str, rc: int, stderr: str, is_root: bool) -> dict[str, dict[str, Any]] | Unknown:
    """The child's lines as answers; a line that is none is passed over."""
    devices: dict[str, dict[str, Any]] = {}
    ended = False
    for line in stdout.splitlines():
        try:
            told = json.loads(line)
        except ValueError:
            continue
        if not isinstance(told, dict):
            continue
        if isinstance(told.get("library"), str):
            return Unknown(told["library"], SOURCE)
        if isinstance(told.get("list"), int):
            return Unknown(f"libibverbs lists no device: {explain(told['list'], is_root)}", SOURCE)
        ended = ended or "end" in told
        name = told.get("device")
        if isinstance(name, str) and name:
            devices[name] = _answer(told, is_root)
    if not devices and not ended:
        said = (stderr.strip().splitlines() or ["nothing"])[-1][:200]
        how = f"was ended by signal {-rc}" if rc < 0 else f"ended with {rc}"
        return Unknown(f"the child process that asks libibverbs {how} and said: {said}", SOURCE)
    return devices


def explain(number: int, is_root: bool = True) -> str:
    """``EBADF (9): what it means``."""
    if number in (errno.EPERM, errno.EACCES) and not is_root:
        return "needs root"
    name, meaning = MEANINGS.get(
        number, (errno.errorcode.get(number, "an unnamed error"), "not an answer to this question")
    )
    return f"{name} ({number}): {meaning}"


def _answer(told: dict[str, Any], is_root: bool) -> dict[str, Any]:
    number, step = told.get("errno"), told.get("step")
    if isinstance(told.get("signal"), int):
        meaning = f"the library crashed or hung on this device (signal {told['signal']})"
        return {"answer": UNKNOWN, "step": None, "errno": None, "meaning": meaning}
    if isinstance(number, bool) or not isinstance(number, int) or step not in ("open", "pd", "reg"):
        return {"answer": UNKNOWN, "step": None, "errno": None, "meaning": "the answer is not readable"}
    # UCX's stricter reading for yes, NCCL's for no, and what lies between is unknown (facts 3.4).
    answer = UNKNOWN
    if step == "reg" and number in (0, errno.EBADF):
        answer = CAPABLE
    elif step == "reg" and number in (errno.EOPNOTSUPP, errno.EPROTONOSUPPORT):
        answer = NOT_CAPABLE
    meaning = "registered" if step == "reg" and number == 0 else explain(number, is_root)
    return {"answer": answer, "step": step, "errno": number, "meaning": meaning}

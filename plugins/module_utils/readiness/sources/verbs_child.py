# Copyright: (c) 2026, GPU Fleet contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
"""Asks libibverbs of every RDMA device whether it would register a dma-buf. Runs alone, in a child of the probe.

A sick provider library may hang or crash: every device is asked in a process of its own with its own time limit, so
that one costs only its own answer. The question is a registration of file descriptor -1, which no device can grant
and which changes nothing: EBADF says that the request got as far as the descriptor.

One line of JSON an answer, on standard output:
``{"library": "why it cannot be asked"}`` · ``{"list": errno}`` · ``{"device": name, "step": …, "errno": number}``
(step: open, pd, reg; errno 0 with step reg: it was registered) · ``{"device": name, "signal": number}`` ·
``{"end": count}``.

Source: facts 3.4 to 3.6.
"""

from __future__ import annotations

import json
import os
import signal
import sys
from typing import Any

LIBRARY = "libibverbs.so.1"
DEVICE_LIMIT = 5  # seconds
DEVICES_MAX = 64


def main(page_size: int) -> None:
    """Ask every device and print the answers."""
    try:
        verbs = _library()
    except (ImportError, OSError) as exc:
        _say({"library": f"{LIBRARY} cannot be loaded: {exc}"})
        return
    except AttributeError:
        _say({"library": f"{LIBRARY} has no ibv_reg_dmabuf_mr: rdma-core is older than 34"})
        return
    import ctypes

    ctypes.set_errno(0)
    count = ctypes.c_int(0)
    found = verbs.ibv_get_device_list(ctypes.byref(count))
    if not found:
        _say({"list": ctypes.get_errno()})
        return
    children = {}
    for number in range(min(count.value, DEVICES_MAX)):
        name = (verbs.ibv_get_device_name(found[number]) or b"").decode("utf-8", "replace")
        child = os.fork()
        if child == 0:
            # The default action of the alarm ends this process, whatever the library is doing.
            signal.alarm(DEVICE_LIMIT)
            step, number = _ask(verbs, found[number], page_size)
            _say({"device": name, "step": step, "errno": number})
            os._exit(0)
        children[child] = name
    for child, name in children.items():
        status = os.waitpid(child, 0)[1]
        if os.WIFSIGNALED(status):
            _say({"device": name, "signal": os.WTERMSIG(status)})
    _say({"end": count.value})


def _library() -> Any:
    """The library with the types of what is called: without them pointers are cut to 32 bits."""
    # Here and not above: the probe imports this file to find its text, and a Python may lack ctypes.
    import ctypes

    verbs = ctypes.CDLL(LIBRARY, use_errno=True)
    pointer, number = ctypes.c_void_p, ctypes.c_int
    types: dict[str, tuple[Any, list[Any]]] = {
        "ibv_get_device_list": (ctypes.POINTER(pointer), [ctypes.POINTER(number)]),
        "ibv_get_device_name": (ctypes.c_char_p, [pointer]),
        "ibv_open_device": (pointer, [pointer]),
        "ibv_close_device": (number, [pointer]),
        "ibv_alloc_pd": (pointer, [pointer]),
        "ibv_dealloc_pd": (number, [pointer]),
        "ibv_dereg_mr": (number, [pointer]),
        "ibv_reg_dmabuf_mr": (
            pointer,
            [pointer, ctypes.c_uint64, ctypes.c_size_t, ctypes.c_uint64, number, number],
        ),
    }
    for name, (result, arguments) in types.items():
        function = getattr(verbs, name)
        function.restype, function.argtypes = result, arguments
    return verbs


def _ask(verbs: Any, device: Any, page_size: int) -> tuple[str, int]:
    """(the step that ended it, its errno) for one device."""
    import ctypes

    ctypes.set_errno(0)
    context = verbs.ibv_open_device(device)
    if not context:
        return "open", ctypes.get_errno()
    ctypes.set_errno(0)
    domain = verbs.ibv_alloc_pd(context)
    if not domain:
        number = ctypes.get_errno()
        verbs.ibv_close_device(context)
        return "pd", number
    ctypes.set_errno(0)
    region = verbs.ibv_reg_dmabuf_mr(domain, 0, page_size, 0, -1, 0)
    number = 0 if region else ctypes.get_errno()
    if region:
        verbs.ibv_dereg_mr(region)
    verbs.ibv_dealloc_pd(domain)
    verbs.ibv_close_device(context)
    return "reg", number


def _say(answer: dict[str, Any]) -> None:
    # One write a line: the lines of several processes never mix below the size of a pipe's buffer.
    os.write(1, (json.dumps(answer) + "\n").encode())


if __name__ == "__main__":
    main(int(sys.argv[1]))

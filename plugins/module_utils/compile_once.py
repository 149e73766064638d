# Copyright: (c) 2026, GPU Fleet contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
"""Makes imports from Ansible's payload compile each file once. Call install() before the imports it shall serve.

Ansible sends a module as a zip archive. Up to 3.14 CPython compiles every module of such an archive twice: the import
system first asks the importer for the file's name, and zipimport.get_filename() compiles the module to find it. The
name is in the archive's table; looking there takes a third off what the whole probe costs a node.
Source: CPython Lib/zipimport.py, get_filename and _get_module_code.
"""

from __future__ import annotations

import zipimport

_by_compiling = zipimport.zipimporter.get_filename


def _by_looking(self: zipimport.zipimporter, fullname: str) -> str:
    """The path of the module's file, as get_filename() gives it."""
    # From 3.13 on the table is read at first use, by a method.
    files = self._get_files() if hasattr(self, "_get_files") else getattr(self, "_files", None)
    if isinstance(files, dict):
        stem = self.prefix + fullname.rpartition(".")[2]
        # The order in which zipimport itself looks. A compiled file would be first, and Ansible sends none.
        for name in (stem + "/__init__.py", stem + ".py"):
            if name in files:
                return f"{self.archive}/{name}"
    return _by_compiling(self, fullname)


def install() -> None:
    """Have every import from a zip archive of this process look where it would compile."""
    zipimport.zipimporter.get_filename = _by_looking  # type: ignore[method-assign]

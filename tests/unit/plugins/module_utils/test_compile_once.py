# Copyright: (c) 2026, GPU Fleet contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)

from __future__ import annotations

import importlib
import sys
import zipfile
import zipimport

import pytest

from ansible_collections.gpufleet.kimi_k3.plugins.module_utils import compile_once


@pytest.fixture
def archive(tmp_path, monkeypatch):
    """A zip archive on the path of imports, as Ansible's payload is."""
    path = tmp_path / "payload.zip"
    with zipfile.ZipFile(path, "w") as payload:
        payload.writestr("sent_package/__init__.py", "")
        payload.writestr("sent_package/part.py", "VALUE = __file__\n")
        payload.writestr("sent_package/inner/__init__.py", "from sent_package import part\n")
        payload.writestr("sent_package/broken.py", "def :\n")
    monkeypatch.setattr(zipimport.zipimporter, "get_filename", compile_once._by_compiling)
    compile_once.install()
    monkeypatch.syspath_prepend(str(path))
    yield str(path)
    for name in [name for name in sys.modules if name.startswith("sent_package")]:
        del sys.modules[name]


def test_a_file_is_compiled_once(archive, monkeypatch):
    compiled = []
    real = zipimport._compile_source

    def counting(path, source):
        compiled.append(path.rpartition("payload.zip")[2].lstrip("/"))
        return real(path, source)

    monkeypatch.setattr(zipimport, "_compile_source", counting)
    importlib.import_module("sent_package.inner")
    assert sorted(compiled) == ["sent_package/__init__.py", "sent_package/inner/__init__.py", "sent_package/part.py"]


@pytest.mark.parametrize("name", ["sent_package", "part", "inner"])
def test_the_name_is_the_one_that_compiling_finds(archive, name):
    importer = zipimport.zipimporter(archive if name == "sent_package" else archive + "/sent_package")
    assert importer.get_filename(name) == compile_once._by_compiling(importer, name)


def test_what_is_not_there_is_said_as_before(archive):
    with pytest.raises(ImportError):
        zipimport.zipimporter(archive).get_filename("absent")


def test_a_file_that_does_not_compile_still_says_so(archive):
    with pytest.raises(SyntaxError):
        importlib.import_module("sent_package.broken")


def test_an_importer_of_another_make_is_asked_as_before(archive, monkeypatch):
    class Other(zipimport.zipimporter):
        _files = None

        def _get_files(self):
            return None

    monkeypatch.setattr(compile_once, "_by_compiling", lambda self, fullname: "asked")
    assert compile_once._by_looking(Other.__new__(Other), "sent_package") == "asked"

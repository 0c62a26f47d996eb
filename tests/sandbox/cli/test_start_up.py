"""The program as a process."""

from __future__ import annotations

import subprocess
import sys


def test_help_waits_for_neither_kubernetes_nor_rich_nor_aiohttp() -> None:
    words = (
        "import sys; sys.argv = ['loadtest', '--help']\n"
        "from loadtest import cli\n"
        "try:\n    cli.main()\nexcept SystemExit: pass\n"
        "print(sorted({'kubernetes', 'rich', 'aiohttp', 'pydantic', 'jinja2', 'yaml'} & set(sys.modules)), file=sys.stderr)"
    )
    called = subprocess.run([sys.executable, "-c", words], capture_output=True, text=True, check=True)
    assert "deployment" in called.stdout.lower()
    assert called.stderr.strip() == "[]"


def test_an_error_goes_to_standard_error_and_nothing_to_standard_output() -> None:
    called = subprocess.run([sys.executable, "-m", "loadtest", "run", "web"], capture_output=True, text=True, check=False)
    assert called.returncode == 2
    assert called.stdout == ""
    assert called.stderr.splitlines()[0].startswith("error: ")


def test_the_version_is_one_line_and_no_words_are_the_help() -> None:
    called = subprocess.run([sys.executable, "-m", "loadtest", "--version"], capture_output=True, text=True, check=True)
    assert len(called.stdout.splitlines()) == 1
    bare = subprocess.run([sys.executable, "-m", "loadtest"], capture_output=True, text=True, check=True)
    assert "deployment" in bare.stdout.lower()

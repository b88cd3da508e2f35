"""TORCH_TRACE: what is written of a compilation, and what tlparse makes of it."""

import ast
import html
import json
import os
import pathlib
import re
import subprocess
import sys

import pytest

from tests.e2e.python_process import run_code

PAGE = pathlib.Path(__file__).parents[2] / "docs" / "structured-tracing.md"
PROGRAM, LISTING = (
    re.search(rf"^```{kind}\n(.*?)^```$", PAGE.read_text(), re.M | re.S)[1]
    for kind in ("py", "listing")
)
# tlparse links it in every page and writes it for logs with collectives alone.
DEAD_LINKS = ["collectives_parity.json"]
ADDRESS = re.compile(r"0x[0-9a-f]{6,}")


def report_of(folder, code):
    """{artifact: text} by heading, of tlparse's report on what the code logs."""
    ran = run_code(code, TORCH_TRACE=str(folder / "traces"))
    assert ran.returncode == 0, ran.stderr
    assert "structured log" not in ran.stderr
    (log,) = (folder / "traces").glob("*.log")
    report = folder / "report"
    made = subprocess.run(
        [pathlib.Path(sys.executable).with_name("tlparse"), log, "-o", report, "--strict"]
        + ["--no-browser"],
        capture_output=True,
        text=True,
        check=False,
    )
    assert made.returncode == 0, made.stderr
    assert "Unknown fields" not in made.stderr
    links = re.findall(r'href="([^"#]+)"', (report / "index.html").read_text())
    local = [html.unescape(link) for link in links if "://" not in link]
    assert [link for link in local if not (report / link).exists()] == DEAD_LINKS
    found = {}
    for heading, listed in json.loads((report / "compile_directory.json").read_text()).items():
        for entry in listed["artifacts"]:
            name = re.sub(rf"_{entry['number']}\.\w+$", "", entry["url"].split("/")[-1])
            if name.startswith("fulgurite"):
                assert entry["url"] in local
                texts = found.setdefault(heading, {})
                assert name not in texts
                texts[name] = (report / entry["url"]).read_text()
    return found


@pytest.fixture(scope="module")
def reports(tmp_path_factory):
    return [report_of(tmp_path_factory.mktemp("run"), PROGRAM) for _ in range(2)]


def test_the_report_has_what_the_page_lists(reports):
    (texts,) = reports[0].values()
    assert list(reports[0]) == ["[10000/0]"]
    assert [name for name in texts if "_s01_" not in name] == LISTING.split()
    second = [name.replace("_s01_", "_s00_") for name in texts if "_s01_" in name]
    assert second == LISTING.split()[1:]


def test_traces_are_programs_without_addresses(reports):
    for name, text in reports[0]["[10000/0]"].items():
        assert text.strip(), name
        assert name.endswith("_src") or not ADDRESS.search(text), name  # a kernel has constants
        if re.search(r"_p\d\d_\w+$", name):
            defined = [n for n in ast.walk(ast.parse(text)) if isinstance(n, ast.FunctionDef)]
            assert defined, name


def test_equal_runs_give_equal_text(reports):
    first, second = (
        {k: v for k, v in report["[10000/0]"].items() if not k.endswith("_passes")}
        for report in reports
    )
    assert first == second


def test_a_final_trace_is_what_runs(reports):
    texts = reports[0]["[10000/0]"]
    final = texts["fulgurite_g00_c00_s00_computation_p99_final"]
    assert "def fusion0(" in final
    before = texts["fulgurite_g00_c00_s00_computation_p20_before_grad"]
    assert before == texts["fulgurite_g00_c00_s00_computation_p00_acquired"]


def test_reasons_and_lines(reports):
    texts = {k: v for k, v in reports[0]["[10000/0]"].items() if "_p" not in k or "prov" in k}
    refused = json.loads(texts["fulgurite_g00_c00_s00_fusions"])
    assert any("linear" in row["call"] and row["refusal"] for row in refused)
    assert "2, 4" in json.loads(texts["fulgurite_g00_c00_s01_cache_miss"])["reason"]
    rows = json.loads(texts["fulgurite_g00_c00_s00_provenance"])["computation"]
    assert any("F.linear(input, self.weight, self.bias)" in row["user"] for row in rows)


def test_functions_and_threads_keep_their_scopes(tmp_path):
    report = report_of(
        tmp_path,
        "import threading, torch, fulgurite\n"
        "f, g = fulgurite.jit(lambda a: a.sin() * 2), fulgurite.jit(lambda a: a.cos())\n"
        "f(torch.ones(2)); g(torch.ones(2))\n"
        "t = threading.Thread(target=lambda: f(torch.ones(3))); t.start(); t.join()\n"
        "f(torch.ones(3))\n",
    )
    misses = {h: [n for n in names if n.endswith("miss")] for h, names in report.items()}
    name = "fulgurite_g00_c00_s{}_cache_miss".format
    assert misses == {"[10000/0]": [name("00"), name("01")], "[10001/0]": [name("00")]}


CALL = (
    "import sys, torch, fulgurite\nassert fulgurite.jit(lambda a: a + 1)(torch.ones(2))[0] == 2\n"
)


def test_without_a_log_nothing_is_imported():
    environment = {"TORCH_TRACE": ""} if "TORCH_TRACE" in os.environ else {}
    code = "\nassert not [m for m in sys.modules if m.startswith('fulgurite.observe.')]"
    ran = run_code(CALL + code, **environment)
    assert ran.returncode == 0, ran.stderr


@pytest.mark.parametrize(
    "change",
    [
        "del torch._logging.trace_structured",
        "del torch._guards.compile_context",
        "del torch._guards.CompileId",
        "torch._logging.trace_structured = lambda name: None",
    ],
)
def test_compilation_survives_another_torch(tmp_path, change):
    code = f"import torch, fulgurite\n{change}\n{CALL}"
    ran = run_code(code, TORCH_TRACE=str(tmp_path))
    assert ran.returncode == 0, ran.stderr
    assert ran.stderr.count("no more records to torch's structured log") == 1

#!/usr/bin/env python3
"""Checks of the source tree that no compiler makes.

  lint.py CHECK ROOT     CHECK: layers, fences, coroutines, tests_registered, texts, links
Prints one line a finding, "path:line: what is wrong"; exits 1 when there is one.
"""
import pathlib
import re
import sys

SOURCES = (".h", ".cc", ".cu", ".cuh")
INCLUDE = re.compile(r'^\s*#\s*include\s*[<"]([^>"]+)[>"]')


def layers_of(root):
    """The table in cmake/GdfModule.cmake: module name to layer."""
    text = (root / "cmake/GdfModule.cmake").read_text()
    layers = {m: int(n) for m, n in re.findall(r"set\(GDF_LAYER_([a-z]+) (\d+)\)", text)}
    for names, layer in re.findall(r"foreach\(m ([a-z ]+)\)\s*set\(GDF_LAYER_\$\{m\} (\d+)\)", text):
        layers.update({m: int(layer) for m in names.split()})
    return layers


def sources(root, *folders):
    for folder in folders:
        for path in sorted((root / folder).rglob("*")):
            if path.suffix in SOURCES and path.is_file():
                yield path


def includes(path):
    for number, line in enumerate(path.read_text(errors="replace").splitlines(), 1):
        found = INCLUDE.match(line)
        if found:
            yield number, found.group(1)


def check_layers(root):
    """core/X includes core/Y only where Y's layer is lower (or Y is X), and nothing of the programs."""
    layers = layers_of(root)
    for path in sources(root, "core"):
        module = path.relative_to(root / "core").parts[0]
        if module not in layers:
            yield path, 1, f"module {module} has no layer in cmake/GdfModule.cmake"
            continue
        for number, name in includes(path):
            parts = name.split("/")
            if parts[0] in ("gdfd", "gdfctl", "cuda", "tests"):
                yield path, number, f"core must not include {name}"
            elif parts[0] == "core" and parts[1] != module and layers.get(parts[1], 99) >= layers[module]:
                yield path, number, f"core/{module} (layer {layers[module]}) must not include {name} (layer {layers.get(parts[1])})"
    for path in sources(root, "gdfctl"):
        for number, name in includes(path):
            parts = name.split("/")
            if parts[0] in ("gdfd", "cuda") or (parts[0] == "core" and parts[1] not in ("base", "config", "control")):
                yield path, number, f"gdfctl must not include {name}"


# What may be included where: a pattern of the include, then the folders that may have it.
FENCES = [
    (re.compile(r"^(torch|ATen|c10|caffe2)/"), ["gdfd/worker/", "cuda/", "tests/unit/worker/", "tests/bench/", "tests/gpu/"], "libtorch"),
    (re.compile(r"\.pb\.h$"), ["core/wire/", "core/control/", "gdfd/services/", "tests/support/", "tests/unit/wire/", "tests/unit/services/"], "generated protobuf"),
    (re.compile(r"^grpcpp?/"), ["core/control/", "gdfd/services/", "tests/support/", "tests/unit/services/"], "gRPC"),
    (re.compile(r"^yaml-cpp/"), ["core/config/"], "yaml-cpp"),
    (re.compile(r"^sqlite3\.h$"), ["core/store/", "core/state/", "tests/unit/state/", "tests/sim/sqlite_disk.cc"], "SQLite"),
    (re.compile(r"^(asio\.hpp|asio/|openssl/(ssl|x509|tls1))"), ["core/net/", "tests/unit/net/", "tests/bench/"], "Asio and OpenSSL's TLS"),
    (re.compile(r"^CLI/"), ["gdfctl/", "gdfd/main.cc", "gdfd/worker/main.cc", "tests/bench/"], "CLI11"),
    (re.compile(r"^(thread|future)$"), ["core/base/", "core/net/", "gdfd/", "gdfctl/", "tests/", "cuda/"], "threads"),
]
SLEEPS = re.compile(r"\b(sleep_for|sleep_until|usleep|nanosleep|absl::SleepFor)\s*\(")
CLOCKS = re.compile(r"\b(absl::Now\(|steady_clock::now|system_clock::now|\bgetenv\()")


def check_fences(root):
    """Third-party headers stay behind their module; time and sleeping stay in base and the programs."""
    for path in sources(root, "core", "gdfd", "gdfctl", "cuda", "tests"):
        name = str(path.relative_to(root))
        for number, include in includes(path):
            for pattern, allowed, what in FENCES:
                if pattern.search(include) and not any(name.startswith(a) for a in allowed):
                    yield path, number, f"{what} ({include}) is allowed in {', '.join(allowed)} only"
        for number, line in enumerate(path.read_text(errors="replace").splitlines(), 1):
            code = line.split("//")[0]
            if SLEEPS.search(code):
                yield path, number, "sleeping is for nobody: wait for the event with a deadline"
            if CLOCKS.search(code) and name.startswith("core/") and not name.startswith("core/base/"):
                yield path, number, "clocks and the environment are passed in (core/base)"


LAMBDA = re.compile(r"\[[^\]\[]*\]\s*(\([^)]*\))?\s*(mutable\s*)?(->[^{;]*)?\{")
BRACES = re.compile(r"[\w>]\{[^}]|[(,=]\s*\{")


def expression_after(text, start):
    """From `start` to the end of the statement or of the bracket that it stands in."""
    depth = 0
    for end in range(start, len(text)):
        if text[end] in "([{":
            depth += 1
        elif text[end] in ")]}":
            depth -= 1
        if depth < 0 or (text[end] == ";" and depth == 0):
            return text[start:end]
    return text[start:]


def check_coroutines(root):
    """GCC 12 copies lambdas and braced aggregates inside a co_await expression bit by bit and destroys them twice."""
    for path in sources(root, "core", "gdfd", "gdfctl", "tests"):
        text = re.sub(r"//[^\n]*", "", path.read_text(errors="replace"))
        for found in re.finditer(r"\bco_await\b", text):
            expression = expression_after(text, found.end())
            if LAMBDA.search(expression) or BRACES.search(expression):
                yield path, text.count("\n", 0, found.start()) + 1, "give the lambda or aggregate a name before co_await"


def check_tests_registered(root):
    """Every file with a TEST_CASE is one that a CMake glob or list reaches."""
    for path in sources(root, "tests"):
        if path.suffix != ".cc" or "TEST_CASE" not in path.read_text(errors="replace"):
            continue
        name = path.relative_to(root / "tests")
        lists = [p / "CMakeLists.txt" for p in path.parents if (root / "tests") in (p, *p.parents)]
        text = "".join(l.read_text() for l in lists if l.exists() and l != root / "tests/CMakeLists.txt")
        by_rule = len(name.parts) == 3 and name.parts[0] == "unit" and path.name.endswith("_test.cc") and not (path.parent / "CMakeLists.txt").exists()
        by_glob = re.search(r"GLOB[^)]*\*(_test)?\.cc", text) and path.name.endswith("_test.cc")
        if not (by_rule or by_glob or path.name in text):
            yield path, 1, "has TEST_CASEs but no CMakeLists.txt names it"


def check_texts(root):
    """Module READMEs exist and are short; headers have guards."""
    for module in sorted((root / "core").iterdir()):
        if module.is_dir():
            readme = module / "README.md"
            if not readme.exists():
                yield module, 1, "has no README.md"
            elif len(readme.read_text().splitlines()) > 15:
                yield readme, 1, "is longer than 15 lines"
    for path in sources(root, "core", "gdfd", "gdfctl", "cuda"):
        if path.suffix == ".h":
            guard = re.sub(r"[^A-Z0-9]", "_", ("gdf/" + str(path.relative_to(root))).upper()) + "_"
            if f"#ifndef {guard}" not in path.read_text():
                yield path, 1, f"has no include guard {guard}"


LINK = re.compile(r"\[[^\]]*\]\(([^)#\s]+)(#[^)]*)?\)")


def check_links(root):
    """Relative links of the documents lead to something that is there."""
    for path in sorted([*root.glob("*.md"), *(root / "docs").rglob("*.md"), *(root / "core").rglob("*.md")]):
        for number, line in enumerate(path.read_text().splitlines(), 1):
            for target, _ in LINK.findall(line):
                if "://" not in target and not target.startswith("mailto:") and not (path.parent / target).exists():
                    yield path, number, f"link to {target}, which is not there"


def main():
    check, root = sys.argv[1], pathlib.Path(sys.argv[2]).resolve()
    findings = list(globals()["check_" + check](root))
    for path, number, what in findings:
        print(f"{path.relative_to(root)}:{number}: {what}")
    return 1 if findings else 0


if __name__ == "__main__":
    sys.exit(main())

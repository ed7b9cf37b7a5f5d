# SPDX-FileCopyrightText: The penstock authors
# SPDX-License-Identifier: Apache-2.0
import os

from conan import ConanFile
from conan.errors import ConanInvalidConfiguration
from conan.tools.build import check_min_cppstd
from conan.tools.cmake import CMake, CMakeToolchain, cmake_layout
from conan.tools.files import copy, get
from conan.tools.scm import Version

required_conan_version = ">=2.0"


class PenstockConan(ConanFile):
    name = "penstock"
    description = "Typed asynchronous data pipelines into CUDA"
    license = "Apache-2.0"
    url = "https://github.com/conan-io/conan-center-index"
    homepage = "https://penstock.invalid"
    topics = ("cuda", "gpu", "pipeline", "data-loading", "header-only")
    settings = "os", "arch", "compiler", "build_type"
    # Without it, the part that depends on no type of the user's is a library.
    options = {"header_only": [True, False]}
    default_options = {"header_only": True}
    no_copy_source = True

    @property
    def _oldest_compilers(self):
        return {"gcc": "12", "clang": "17"}

    def layout(self):
        cmake_layout(self, src_folder="src")

    def package_id(self):
        if self.info.options.header_only:
            self.info.clear()

    def validate(self):
        check_min_cppstd(self, 20)
        if self.settings.os != "Linux" or self.settings.arch not in ("x86_64", "armv8"):
            raise ConanInvalidConfiguration(f"{self.ref} needs Linux on x86-64 or Arm64.")
        oldest = self._oldest_compilers.get(str(self.settings.compiler))
        if oldest and Version(self.settings.compiler.version) < oldest:
            raise ConanInvalidConfiguration(f"{self.ref} needs {self.settings.compiler} {oldest} or later.")

    def source(self):
        get(self, **self.conan_data["sources"][self.version], strip_root=True)

    def generate(self):
        if not self.options.header_only:
            CMakeToolchain(self).generate()

    def build(self):
        if not self.options.header_only:
            cmake = CMake(self)
            cmake.configure(build_script_folder="include")
            cmake.build(target="penstock_compiled")

    def package(self):
        copy(self, "LICENSE", self.source_folder, os.path.join(self.package_folder, "licenses"))
        for files in "penstock/*.hpp", "penstock/*.cuh", "penstock/*.cpp":
            copy(self, files, os.path.join(self.source_folder, "include"), os.path.join(self.package_folder, "include"))
        copy(self, "*.a", self.build_folder, os.path.join(self.package_folder, "lib"), keep_path=False)

    def package_info(self):
        self.cpp_info.set_property("cmake_file_name", "penstock")
        self.cpp_info.set_property("cmake_target_name", "penstock::penstock")
        self.cpp_info.set_property("pkg_config_name", "penstock")
        self.cpp_info.bindirs = []
        self.cpp_info.system_libs = ["pthread"]
        if self.options.header_only:
            self.cpp_info.libdirs = []
        else:
            self.cpp_info.libs = ["penstock_compiled"]
            self.cpp_info.defines = ["PENSTOCK_COMPILED"]
        self.cpp_info.system_libs = ["pthread"]

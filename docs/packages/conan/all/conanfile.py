# SPDX-FileCopyrightText: The penstock authors
# SPDX-License-Identifier: Apache-2.0
import os

from conan import ConanFile
from conan.errors import ConanInvalidConfiguration
from conan.tools.build import check_min_cppstd
from conan.tools.files import copy, get
from conan.tools.layout import basic_layout
from conan.tools.scm import Version

required_conan_version = ">=2.0"


class PenstockConan(ConanFile):
    name = "penstock"
    description = "Typed asynchronous data pipelines into CUDA"
    license = "Apache-2.0"
    url = "https://github.com/conan-io/conan-center-index"
    homepage = "https://penstock.invalid"
    topics = ("cuda", "gpu", "pipeline", "data-loading", "header-only")
    package_type = "header-library"
    settings = "os", "arch", "compiler", "build_type"
    no_copy_source = True

    @property
    def _oldest_compilers(self):
        return {"gcc": "12", "clang": "17"}

    def layout(self):
        basic_layout(self, src_folder="src")

    def package_id(self):
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

    def build(self):
        pass

    def package(self):
        copy(self, "LICENSE", self.source_folder, os.path.join(self.package_folder, "licenses"))
        for files in "penstock/*.hpp", "penstock/*.cuh", "penstock/*.cpp":
            copy(self, files, os.path.join(self.source_folder, "include"), os.path.join(self.package_folder, "include"))

    def package_info(self):
        self.cpp_info.set_property("cmake_file_name", "penstock")
        self.cpp_info.set_property("cmake_target_name", "penstock::penstock")
        self.cpp_info.set_property("pkg_config_name", "penstock")
        self.cpp_info.bindirs = []
        self.cpp_info.libdirs = []
        self.cpp_info.system_libs = ["pthread"]

# SPDX-FileCopyrightText: The penstock authors
# SPDX-License-Identifier: Apache-2.0
set(VCPKG_BUILD_TYPE release) # headers alone

vcpkg_download_distfile(ARCHIVE
    URLS "https://penstock.invalid/penstock-${VERSION}.tar.gz"
    FILENAME "penstock-${VERSION}.tar.gz"
    SHA512 0
)
vcpkg_extract_source_archive(SOURCE_PATH
    ARCHIVE "${ARCHIVE}"
)
vcpkg_cmake_configure(
    SOURCE_PATH "${SOURCE_PATH}/include"
)
vcpkg_cmake_install()
vcpkg_cmake_config_fixup(CONFIG_PATH share/cmake/penstock)

file(INSTALL "${CMAKE_CURRENT_LIST_DIR}/usage" DESTINATION "${CURRENT_PACKAGES_DIR}/share/${PORT}")
vcpkg_install_copyright(FILE_LIST "${SOURCE_PATH}/LICENSE")

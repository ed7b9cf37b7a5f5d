// SPDX-FileCopyrightText: The penstock authors
// SPDX-License-Identifier: Apache-2.0

int main() {}

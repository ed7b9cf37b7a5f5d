# SPDX-FileCopyrightText: The penstock authors
# SPDX-License-Identifier: Apache-2.0
"""Has a program read what moto, a server that speaks as S3 does, lists and gives.

check_s3.py PROGRAM, which is built of s3_read.cpp
"""
import http.client
import importlib.util
import os
import socket
import subprocess
import sys
import time

KEYS = 2500
SECRET, TOKEN = "hush/hush", "token-hush"


def put(connection: http.client.HTTPConnection, path: str, data: bytes = b"") -> None:
    connection.request("PUT", path, body=data)
    answer = connection.getresponse()
    answer.read()
    assert answer.status == 200, (path, answer.status)


def read(program: str, name: str, port: int, **more: str) -> subprocess.CompletedProcess:
    clean = {key: value for key, value in os.environ.items() if not key.startswith("AWS_") and "proxy" not in key.lower()}
    own = {"AWS_ACCESS_KEY_ID": "AKID", "AWS_SECRET_ACCESS_KEY": SECRET, "AWS_SESSION_TOKEN": TOKEN, "AWS_REGION": "eu-west-1",
           "AWS_ENDPOINT_URL": f"http://127.0.0.1:{port}"}
    return subprocess.run([program, name], env=clean | own | more, capture_output=True, text=True, timeout=240)


def main(program: str) -> int:
    if not importlib.util.find_spec("moto") or not importlib.util.find_spec("flask"):
        print("there is no moto: pip install 'moto[server]'")
        return 77
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    server = subprocess.Popen([sys.executable, "-m", "moto.server", "-H", "127.0.0.1", "-p", str(port)], stdout=subprocess.DEVNULL,
                              stderr=subprocess.DEVNULL)
    try:
        connection = http.client.HTTPConnection("127.0.0.1", port, timeout=60)
        for _ in range(300):
            try:
                put(connection, "/bucket")
                break
            except OSError:
                connection.close()
                time.sleep(0.1)
        for i in range(KEYS):
            put(connection, f"/bucket/many/{i:05d}%20%C3%A9%26%2B%3F.bin", i.to_bytes(4, "little"))
        put(connection, "/bucket/many/inner/one.bin", b"1234")
        put(connection, "/bucket/one.bin", (7).to_bytes(4, "little") * 5)

        for name in "s3://bucket/many/", "s3://bucket/many":
            done = read(program, name, port)
            assert done.returncode == 0, done.stderr
            records, total, requests = map(int, done.stdout.split())
            assert (records, total) == (KEYS, KEYS * (KEYS - 1) // 2), done.stdout
            # Three pages of keys, and two questions more if the name has no '/' at its end. records() looks into 256 files;
            # none asks about each object.
            assert requests == 256 + (3 if name.endswith("/") else 5), done.stdout
        done = read(program, "s3://bucket/one.bin", port)
        assert done.stdout.split()[:2] == ["5", "35"], (done.stdout, done.stderr)

        for name, words in ("s3://bucket/none.bin", "cannot find s3://bucket/none.bin"), ("s3://nobody/a/", "NoSuchBucket"):
            done = read(program, name, port)
            assert done.returncode == 1 and words in done.stderr, done.stderr
            assert SECRET not in done.stderr and TOKEN not in done.stderr, done.stderr
    finally:
        server.kill()
        server.wait()
    print(f"{KEYS} keys listed and read, signed")
    return 0


sys.exit(main(sys.argv[1]))

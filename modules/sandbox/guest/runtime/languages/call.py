"""Calls one tool for a bash function: the tool, then its arguments as JSON."""

import json
import socket
import sys

SOCKET = "/run/portico/tool.sock"


def main():
    tool = json.loads(sys.argv[1])
    text = sys.argv[2] if len(sys.argv) > 2 else "{}"
    try:
        arguments = json.loads(text or "{}")
    except ValueError as error:
        fail("the argument is not JSON: %s" % error)
    if not isinstance(arguments, dict):
        fail("the argument must be a JSON object")
    arguments = {name: value for name, value in arguments.items() if value is not None or name in tool["nullable"]}
    if tool["toolset"]:
        request = {"toolsetKey": tool["toolset"], "toolName": tool["name"], "arguments": arguments}
        answer = post("/v1/tool/execute", request).get("data") or {}
        failed, result = answer.get("status") == "error" and (answer.get("error") or "the tool failed"), answer.get("data")
    else:
        answer = post("/v1/program/calls", {"calls": [{"name": tool["name"], "input": arguments}]})["results"][0]
        failed, result = answer.get("error"), answer.get("result")
    if failed:
        fail(failed)
    print(json.dumps(result, ensure_ascii=False, separators=(",", ":")))


def post(path, request):
    """One request without http.client, whose import takes longer than it."""
    body = json.dumps(request).encode()
    with socket.socket(socket.AF_UNIX) as connection:
        try:
            connection.connect(SOCKET)
        except OSError as error:
            fail("the tools cannot be reached: %s" % error)
        head = "POST %s HTTP/1.0\r\nHost: localhost\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n"
        connection.sendall((head % (path, len(body))).encode() + body)
        answer = b"".join(iter(lambda: connection.recv(1 << 16), b""))
    head, _, body = answer.partition(b"\r\n\r\n")
    try:
        envelope = json.loads(body)
    except ValueError:
        fail("the tools gave no answer")
    if b" 200 " not in head.partition(b"\r\n")[0] + b" ":
        fail(" ".join(t for t in (envelope.get("errMsg"), envelope.get("errDetail")) if t))
    return envelope


def fail(message):
    print(message, file=sys.stderr)
    sys.exit(1)


main()

"""A sandbox worker beside the server: plain Python with the variables of a
program, which calls tools over HTTP."""
import json, os, sys, urllib.error, urllib.request


def call(toolset, tool, arguments):
    request = urllib.request.Request(
        os.environ["REFLY_TOOL_SERVICE_API_URL"] + "/v1/tool/execute",
        data=json.dumps({"toolsetKey": toolset, "toolName": tool, "arguments": arguments}).encode(),
        headers={
            "Content-Type": "application/json",
            "Authorization": "Bearer " + os.environ["REFLY_TOOL_SERVICE_API_KEY"],
            "x-ptc-call-id": os.environ["REFLY_PTC_CALL_ID"],
            "x-refly-result-id": os.environ["REFLY_RESULT_ID"],
            "x-refly-canvas-id": os.environ["REFLY_CANVAS_ID"],
        },
    )
    if version := os.environ.get("REFLY_RESULT_VERSION"):
        request.add_header("x-refly-result-version", version)
    try:
        with urllib.request.urlopen(request) as answer:
            return json.load(answer)["data"]
    except urllib.error.HTTPError as error:
        return {"status": error.code, "error": json.load(error)["errMsg"]}


for arguments in json.load(sys.stdin):
    print(json.dumps(call("demo", "get_weather", arguments | {"file_name_title": "x"})))

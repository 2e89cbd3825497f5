import json, urllib.error, urllib.request


def by_hand(tool):
    """Call a tool without its function, as code may that knows the address."""
    body = json.dumps({"tool": tool, "input": {"title": "x", "text": "y"}}).encode()
    request = urllib.request.Request("http://127.0.0.1:5800/tool_call", body, {"Content-Type": "application/json"})
    try:
        return urllib.request.urlopen(request).status, ""
    except urllib.error.HTTPError as error:
        said = json.load(error)
        return error.code, said["errMsg"] + " " + said["errDetail"]


found = search_knowledge("auth patterns")
assert "auth patterns" in found[0]["text"]
print("search_knowledge finds:", found[0]["title"])

page = fetch_url(PAGE)
assert page.startswith("# ") and "## When a key is lost" in page and "<" not in page
print("fetch_url reads a page as Markdown:", page.splitlines()[0])

assert llm_query("Say hello.") == "Hello."
print("llm_query answers as before:", llm_query("Say hello."))

status, said = by_hand("serch_knowledge")
assert status == 404 and "search_knowledge" in said
print("A tool that nobody registered:", status, said.split("\n")[0])

status, said = by_hand("save_note")
assert status == 404 and "save_note" not in globals()
print("A tool that is not marked is no function, and is refused:", status)

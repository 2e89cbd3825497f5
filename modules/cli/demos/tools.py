# A tool that an operator marked is a plain function: by position or by name.
print(get_weather("Oslo", 1)["forecast"][0])
print([get_weather(city=city, days=1)["city"] for city in ("Rome", "Oslo")])

# A question to a model, and several at once: the answers are in their order.
print(llm_query("Say hello."))
print(llm_query_batch(["One?", "Two?"]))

# What is not marked is no function, and a call by hand is refused.
import json, urllib.error, urllib.request

for name in ("save_note", "get_wether", "rlm_exec"):
    body = json.dumps({"tool": name, "input": {}}).encode()
    request = urllib.request.Request("http://127.0.0.1:5800/tool_call", body, {"Content-Type": "application/json"})
    try:
        urllib.request.urlopen(request)
    except urllib.error.HTTPError as error:
        said = json.load(error)
        print(name, error.code, said["errMsg"], said["errDetail"])

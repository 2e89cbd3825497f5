"""Drives a stand-in with the client library that its vendor publishes."""

import json
import sys

vendor, url, token = sys.argv[1:4]


def failure(call):
    try:
        call()
    except Exception as e:
        return f"{type(e).__name__}"
    return "no error"


def perplexity():
    from perplexity import Perplexity

    client = Perplexity(api_key=token, base_url=url, max_retries=0)
    chat = client.chat.completions.create(model="sonar", messages=[{"role": "user", "content": "tea"}])
    found = client.search.create(query=["a", "b"])
    return {
        "answer": chat.choices[0].message.content,
        "cost": chat.usage.cost.total_cost,
        "citations": chat.citations,
        "sources": [r.title for r in chat.search_results],
        "search": [r.url for r in found.results],
        "refused": failure(lambda: Perplexity(api_key="bad", base_url=url, max_retries=0).search.create(query="a")),
    }


def jina():
    from jina_cli import api

    api.READER_BASE, api.SEARCH_SVIP_BASE, api.RETRY_BACKOFF = url + "/reader", url + "/search", [0, 0, 0]
    page = api.read_url("https://example.com/a", api_key=token, as_json=True)
    return {
        "page": [page["code"], page["data"]["title"], page["data"]["usage"]["tokens"] > 0],
        "shot": api.screenshot_url("https://example.com/a", api_key=token)["data"]["screenshotUrl"],
        "search": [r["title"] for r in api.search_web("tea", api_key=token, as_json=True)["data"]],
        "refused": failure(lambda: api.read_url("https://example.com/poor", api_key=token, as_json=True)),
    }


def apify():
    from apify_client import ApifyClient

    client = ApifyClient(token, api_url=url, max_retries=0)
    actor = client.actor("kenshinsee/sec-13f-manager-quarterly-report-scraper")
    run = actor.call(run_input={"manager_name": "Berkshire", "quarter_year": "Q2 2024"}, logger=None)
    failed = actor.call(run_input={"manager_name": "Nobody", "quarter_year": "Q2 2024"}, logger=None)
    items = client.dataset(run.default_dataset_id).list_items(limit=3)
    return {
        "run": [run.status, run.usage_total_usd],
        "failed": [failed.status, failed.status_message],
        "items": [items.total, len(items.items), items.items[0]["shares"]],
        "refused": failure(lambda: ApifyClient("bad", api_url=url, max_retries=0).dataset("x").list_items()),
    }


def notion():
    from notion_client import Client

    page, database, source, row, user = sys.argv[4:]
    client = Client(auth=token, base_url=url)
    made = client.pages.create(
        parent={"type": "data_source_id", "data_source_id": source},
        properties={"Task": {"title": [{"type": "text", "text": {"content": "New"}}]}},
    )
    client.blocks.children.append(
        made["id"], children=[{"type": "paragraph", "paragraph": {"rich_text": [{"type": "text", "text": {"content": "x"}}]}}]
    )
    block = client.blocks.children.list(made["id"])["results"][0]
    upload = client.file_uploads.create(mode="single_part", filename="a.txt")
    sent = client.file_uploads.send(upload["id"], file=("a.txt", b"hello", "text/plain"))
    return {
        "database": client.databases.retrieve(database)["data_sources"][0]["id"] == source,
        "rows": len(client.data_sources.query(source)["results"]),
        "columns": sorted(client.data_sources.retrieve(source)["properties"]),
        "block": [client.blocks.retrieve(block["id"])["type"], client.blocks.delete(block["id"])["archived"]],
        "search": len(client.search(filter={"property": "object", "value": "data_source"})["results"]),
        "user": [client.users.retrieve(user)["name"], len(client.users.list()["results"])],
        "page": client.pages.update(page, archived=True)["archived"],
        "property": client.pages.properties.retrieve(row, "title")["type"],
        "comment": client.comments.create(parent={"page_id": page}, rich_text=[])["object"],
        "upload": [upload["status"], sent["status"], int(sent["content_length"])],
        "refused": [failure(lambda: client.pages.retrieve("none")), failure(lambda: Client(auth="bad", base_url=url).users.list())],
    }


print(json.dumps({"perplexity": perplexity, "jina": jina, "apify": apify, "notion": notion}[vendor]()))

"""Drives the stand-in with Composio's own client library."""

import json
import os
import sys
import tempfile

os.environ["COMPOSIO_CACHE_DIR"] = tempfile.mkdtemp()

from composio import Composio

url, key, account = sys.argv[1:]
composio = Composio(api_key=key, base_url=url, allow_tracking=False)
api = composio.client

first = api.tools.list(toolkit_slug="gmail")
second = api.tools.list(toolkit_slug="gmail", cursor=first.next_cursor)
accounts = api.connected_accounts.list(user_ids=["u-1"], toolkit_slugs=["gmail"]).items


def execute(slug, arguments, user="u-1"):
    try:
        return composio.tools.execute(
            slug, arguments, user_id=user, connected_account_id=account, dangerously_skip_version_check=True
        )
    except Exception as e:
        return type(e).__name__


made = api.auth_configs.create(toolkit={"slug": "gmail"}, auth_config={"type": "use_composio_managed_auth"})
link = api.link.create(auth_config_id=made.auth_config.id, user_id="u-2")
place = api.files.create_presigned_url(
    toolkit_slug="gmail", tool_slug="GMAIL_SEND_EMAIL", filename="a.txt", mimetype="text/plain", md5="0" * 32
)
print(
    json.dumps(
        {
            "tools": [t.slug for t in first.items + second.items],
            "last": second.next_cursor,
            "account": [accounts[0].id == account, accounts[0].status, accounts[0].toolkit.slug],
            "success": execute("GMAIL_FETCH_EMAILS", {"max_results": 3}),
            "failure": execute("GMAIL_SEND_EMAIL", {"to": "nobody", "body": "x"}),
            "foreign": execute("GMAIL_FETCH_EMAILS", {}, "u-2"),
            "link": [link.redirect_url.startswith(url), link.connected_account_id],
            "upload": place.key,
            "revoked": api.connected_accounts.delete(account).success,
        }
    )
)

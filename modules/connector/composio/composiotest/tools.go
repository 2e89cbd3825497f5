package composiotest

import "fmt"

// tool is one tool as the service lists it.
func tool(toolkit, slug, description string, input map[string]any) map[string]any {
	return map[string]any{
		"slug": slug, "name": slug, "description": description, "toolkit": map[string]any{"slug": toolkit, "name": toolkit, "logo": ""},
		"input_parameters": input, "output_parameters": map[string]any{"type": "object", "properties": map[string]any{}},
		"version": "20260901_00", "available_versions": []string{"20260901_00"}, "scopes": []string{}, "tags": []string{}, "no_auth": false, "is_deprecated": false,
		"human_description": description, "status": "active",
	}
}

func object(required []string, properties map[string]any) map[string]any {
	out := map[string]any{"type": "object", "title": "Request", "properties": properties}
	if len(required) > 0 {
		out["required"] = required
	}
	return out
}

func text(description string) map[string]any {
	return map[string]any{"type": "string", "description": description}
}

// tools are three of a mail service, three of which one is exported of a
// weather service, and one of another name than the key of its toolset.
func tools() []map[string]any {
	attachment := map[string]any{
		"title": "Attachment", "description": "A file to attach.", "file_uploadable": true, "type": "object",
		"properties": map[string]any{"name": text("Name"), "mimetype": text("Type"), "s3key": text("Key")}, "required": []string{"name", "mimetype", "s3key"},
	}
	old := tool("alpha_vantage", "ALPHA_VANTAGE_OLD", "Old quotes. DEPRECATED: use the new one.", object(nil, map[string]any{}))
	gone := tool("alpha_vantage", "ALPHA_VANTAGE_GONE", "Gone.", object(nil, map[string]any{"x": map[string]any{"type": "string", "deprecated": true}}))
	return []map[string]any{
		tool("gmail", "GMAIL_SEND_EMAIL", "Sends a mail.", object([]string{"to", "body"}, map[string]any{
			"to": text("Address"), "body": text("Text"), "attachment": map[string]any{"anyOf": []any{attachment, map[string]any{"type": "null"}}},
		})),
		tool("gmail", "GMAIL_FETCH_EMAILS", "Reads mails.", object(nil, map[string]any{
			"max_results": map[string]any{"type": "integer", "minimum": 1, "maximum": 500, "default": 10},
		})),
		tool("gmail", "GMAIL_GET_ATTACHMENT", "Reads a file of a mail.", object([]string{"id"}, map[string]any{"id": text("Id")})),
		tool("alpha_vantage", "ALPHA_VANTAGE_SYMBOL_SEARCH", "Finds symbols.", object([]string{"keywords"}, map[string]any{"keywords": text("Words")})),
		old, gone,
		tool("googlesheets", "GOOGLESHEETS_READ", "Reads a sheet.", object([]string{"id"}, map[string]any{"id": text("Id")})),
	}
}

// run is what the tools do unless a test says otherwise.
func run(slug string, arguments map[string]any) (data map[string]any, failure string) {
	switch slug {
	case "GMAIL_SEND_EMAIL":
		if arguments["to"] == "nobody" {
			return map[string]any{"status": 550}, "Invalid To header"
		}
		out := map[string]any{"sent": true, "to": arguments["to"]}
		if a, ok := arguments["attachment"].(map[string]any); ok {
			out["attached"] = a["s3key"]
		}
		return out, ""
	case "GMAIL_FETCH_EMAILS":
		return map[string]any{"messages": []any{map[string]any{"subject": "Hello"}}, "asked": arguments["max_results"]}, ""
	case "ALPHA_VANTAGE_SYMBOL_SEARCH":
		return map[string]any{"bestMatches": []any{fmt.Sprint(arguments["keywords"])}}, ""
	}
	return map[string]any{"got": arguments}, ""
}

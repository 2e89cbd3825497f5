package vendorstest

import (
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"net/http"
	"strings"
	"sync"
	"testing"
)

// Ids of what is in the workspace from the beginning.
const (
	NotionPage     = "00000000-0000-4000-8000-00000000000a"
	NotionDatabase = "00000000-0000-4000-8000-00000000000b"
	NotionSource   = "00000000-0000-4000-8000-00000000000c"
	NotionRow      = "00000000-0000-4000-8000-00000000000d"
	NotionUser     = "00000000-0000-4000-8000-00000000000e"
)

// workspace is the little that the stand-in knows of one.
type workspace struct {
	mu       sync.Mutex
	n        int
	objects  map[string]object   // pages, databases, sources, blocks, uploads, users
	children map[string][]object // blocks by what they are in
	files    map[string][]byte
}

// Notion starts a stand-in for Notion, version 2025-09-03.
func Notion(t testing.TB) *Server {
	t.Helper()
	w := &workspace{objects: map[string]object{}, children: map[string][]object{}, files: map[string][]byte{}}
	w.objects[NotionPage] = w.page(NotionPage, object{"type": "workspace", "workspace": true}, object{"title": titled("Home")})
	w.objects[NotionDatabase] = object{
		"object": "database", "id": NotionDatabase, "title": texts("Tasks"), "url": "https://www.notion.so/tasks",
		"data_sources": []object{{"id": NotionSource, "name": "Tasks"}}, "parent": object{"type": "page_id", "page_id": NotionPage},
	}
	w.objects[NotionSource] = object{"object": "data_source", "id": NotionSource, "properties": object{"Task": object{"id": "title", "type": "title", "title": object{}}, "Done": object{"id": "d", "type": "checkbox", "checkbox": object{}}}}
	w.objects[NotionRow] = w.page(NotionRow, object{"type": "data_source_id", "data_source_id": NotionSource}, object{"Task": titled("Write"), "Done": object{"id": "d", "type": "checkbox", "checkbox": false}})
	w.objects[NotionUser] = object{"object": "user", "id": NotionUser, "type": "person", "name": "Ada"}
	mux := http.NewServeMux()
	for route, handle := range map[string]func(r *http.Request) (object, *refusal){
		"POST /v1/search":                     w.search,
		"POST /v1/pages":                      w.createPage,
		"GET /v1/pages/{id}":                  w.get("page"),
		"PATCH /v1/pages/{id}":                w.patch("page"),
		"GET /v1/pages/{id}/properties/{pid}": w.property,
		"POST /v1/databases":                  w.createDatabase,
		"GET /v1/databases/{id}":              w.get("database"),
		"PATCH /v1/databases/{id}":            w.patch("database"),
		"GET /v1/data_sources/{id}":           w.get("data_source"),
		"PATCH /v1/data_sources/{id}":         w.patch("data_source"),
		"POST /v1/data_sources/{id}/query":    w.query,
		"GET /v1/blocks/{id}":                 w.get("block"),
		"PATCH /v1/blocks/{id}":               w.patch("block"),
		"DELETE /v1/blocks/{id}":              w.get("block"),
		"GET /v1/blocks/{id}/children":        w.listChildren,
		"PATCH /v1/blocks/{id}/children":      w.appendChildren,
		"GET /v1/users":                       func(*http.Request) (object, *refusal) { return list(w.all("user")), nil },
		"GET /v1/users/{id}":                  w.get("user"),
		"POST /v1/comments":                   w.comment,
		"POST /v1/file_uploads":               w.createUpload,
		"GET /v1/file_uploads":                func(*http.Request) (object, *refusal) { return list(w.all("file_upload")), nil },
		"GET /v1/file_uploads/{id}":           w.get("file_upload"),
		"POST /v1/file_uploads/{id}/send":     w.sendUpload,
		"POST /v1/file_uploads/{id}/complete": w.completeUpload,
	} {
		mux.HandleFunc(route, func(out http.ResponseWriter, r *http.Request) {
			w.mu.Lock()
			defer w.mu.Unlock()
			got, no := handle(r)
			if no != nil {
				no.write(out)
				return
			}
			answer(out, http.StatusOK, got)
		})
	}
	vendor := http.HandlerFunc(func(out http.ResponseWriter, r *http.Request) {
		if r.Header.Get("Notion-Version") != "2025-09-03" {
			(&refusal{http.StatusBadRequest, "missing_version", "Notion-Version header failed validation"}).write(out)
			return
		}
		mux.ServeHTTP(out, r)
	})
	return start(t, vendor, func(out http.ResponseWriter) {
		(&refusal{http.StatusUnauthorized, "unauthorized", "API token is invalid."}).write(out)
	})
}

type refusal struct {
	status        int
	code, message string
}

func (r *refusal) write(w http.ResponseWriter) {
	answer(w, r.status, object{"object": "error", "status": r.status, "code": r.code, "message": r.message, "request_id": "req-1"})
}

func invalid(message string) *refusal {
	return &refusal{http.StatusBadRequest, "validation_error", message}
}

func texts(s string) []object {
	return []object{{"type": "text", "text": object{"content": s}, "plain_text": s}}
}

func titled(s string) object { return object{"id": "title", "type": "title", "title": texts(s)} }

func list(results []object) object {
	if results == nil {
		results = []object{}
	}
	return object{"object": "list", "results": results, "has_more": false, "next_cursor": nil, "type": "list"}
}

func (w *workspace) id() string {
	w.n++
	return fmt.Sprintf("00000000-0000-4000-9000-%012d", w.n)
}

func (w *workspace) page(id string, parent, properties object) object {
	return object{"object": "page", "id": id, "parent": parent, "properties": properties, "url": "https://www.notion.so/" + id, "archived": false}
}

func (w *workspace) all(kind string) []object {
	var found []object
	for _, o := range w.objects {
		if o["object"] == kind {
			found = append(found, o)
		}
	}
	return found
}

func (w *workspace) find(kind, id string) (object, *refusal) {
	o, ok := w.objects[id]
	if !ok || o["object"] != kind {
		return nil, &refusal{http.StatusNotFound, "object_not_found", fmt.Sprintf("Could not find %s with ID: %s.", kind, id)}
	}
	return o, nil
}

func (w *workspace) get(kind string) func(r *http.Request) (object, *refusal) {
	return func(r *http.Request) (object, *refusal) {
		o, no := w.find(kind, r.PathValue("id"))
		if no == nil && r.Method == http.MethodDelete {
			o["archived"] = true
		}
		return o, no
	}
}

func (w *workspace) patch(kind string) func(r *http.Request) (object, *refusal) {
	return func(r *http.Request) (object, *refusal) {
		o, no := w.find(kind, r.PathValue("id"))
		body := read(r)
		if no != nil || body == nil {
			return nil, no
		}
		for name, v := range body {
			if was, ok := o[name].(object); ok && name == "properties" {
				merge(was, v.(object))
				continue
			}
			o[name] = v
		}
		return o, nil
	}
}

// merge changes properties; what they are stays.
func merge(was, now object) {
	for column, value := range now {
		before, ok := was[column].(object)
		after, also := value.(object)
		if !ok || !also {
			was[column] = value
			continue
		}
		maps.Copy(before, after)
	}
}

func (w *workspace) search(r *http.Request) (object, *refusal) {
	body := read(r)
	filter, _ := body["filter"].(object)
	if filter["value"] == "database" {
		return nil, invalid("body.filter.value should be \"page\" or \"data_source\"")
	}
	var found []object
	for _, kind := range []string{"page", "data_source"} {
		if filter == nil || filter["value"] == kind {
			found = append(found, w.all(kind)...)
		}
	}
	return list(found), nil
}

func (w *workspace) createPage(r *http.Request) (object, *refusal) {
	body := read(r)
	parent, _ := body["parent"].(object)
	properties, _ := body["properties"].(object)
	title := "title"
	switch {
	case parent["database_id"] != nil:
		return nil, invalid("parent.data_source_id should be defined")
	case parent["data_source_id"] != nil:
		id, _ := parent["data_source_id"].(string)
		if _, no := w.find("data_source", id); no != nil {
			return nil, no
		}
		title = "Task"
	default:
		id, _ := parent["page_id"].(string)
		if _, no := w.find("page", id); no != nil {
			return nil, no
		}
	}
	for name, v := range properties {
		column, _ := v.(object)
		if _, isTitle := column["title"]; isTitle {
			if name != title {
				return nil, invalid(name + " is not a property that exists.")
			}
			column["type"] = "title"
			for _, part := range column["title"].([]any) {
				piece, _ := part.(object)
				text, _ := piece["text"].(object)
				piece["plain_text"] = text["content"]
			}
		}
	}
	p := w.page(w.id(), parent, properties)
	id, _ := p["id"].(string)
	w.objects[id] = p
	children, _ := body["children"].([]any)
	return p, w.add(id, children)
}

// add puts blocks into a page or block.
func (w *workspace) add(id string, children []any) *refusal {
	if len(children) > 100 {
		return invalid("body.children.length should be ≤ 100")
	}
	for _, c := range children {
		b, _ := c.(object)
		kind, _ := b["type"].(string)
		content, ok := b[kind].(object)
		if !ok {
			return invalid("body.children: a block has no type")
		}
		for _, part := range orNone(content["rich_text"]) {
			piece, _ := part.(object)
			text, _ := piece["text"].(object)
			if s, _ := text["content"].(string); len([]rune(s)) > 2000 {
				return invalid("text.content.length should be ≤ 2000")
			}
		}
		b["object"], b["id"], b["has_children"] = "block", w.id(), false
		blockID, _ := b["id"].(string)
		w.objects[blockID] = b
		w.children[id] = append(w.children[id], b)
	}
	return nil
}

func orNone(v any) []any {
	list, _ := v.([]any)
	return list
}

func (w *workspace) property(r *http.Request) (object, *refusal) {
	p, no := w.find("page", r.PathValue("id"))
	if no != nil {
		return nil, no
	}
	for _, v := range p["properties"].(object) {
		if column, ok := v.(object); ok && column["id"] == r.PathValue("pid") {
			return object{"object": "property_item", "id": column["id"], "type": column["type"]}, nil
		}
	}
	return nil, invalid("there is no such property")
}

func (w *workspace) createDatabase(r *http.Request) (object, *refusal) {
	body := read(r)
	source, _ := body["initial_data_source"].(object)
	if source == nil || body["properties"] != nil {
		return nil, invalid("body.initial_data_source should be defined, instead of body.properties")
	}
	id, sourceID := w.id(), w.id()
	w.objects[sourceID] = object{"object": "data_source", "id": sourceID, "properties": source["properties"]}
	w.objects[id] = object{"object": "database", "id": id, "title": body["title"], "url": "https://www.notion.so/" + id, "data_sources": []object{{"id": sourceID}}, "parent": body["parent"]}
	return w.objects[id], nil
}

func (w *workspace) query(r *http.Request) (object, *refusal) {
	if _, no := w.find("data_source", r.PathValue("id")); no != nil {
		return nil, no
	}
	var rows []object
	for _, p := range w.all("page") {
		if parent, _ := p["parent"].(object); parent["data_source_id"] == r.PathValue("id") {
			rows = append(rows, p)
		}
	}
	return list(rows), nil
}

func (w *workspace) listChildren(r *http.Request) (object, *refusal) {
	return list(w.children[r.PathValue("id")]), nil
}

func (w *workspace) appendChildren(r *http.Request) (object, *refusal) {
	id := r.PathValue("id")
	if w.objects[id] == nil {
		return nil, &refusal{http.StatusNotFound, "object_not_found", "Could not find block with ID: " + id + "."}
	}
	before := len(w.children[id])
	if no := w.add(id, orNone(read(r)["children"])); no != nil {
		return nil, no
	}
	return list(w.children[id][before:]), nil
}

func (w *workspace) comment(r *http.Request) (object, *refusal) {
	body := read(r)
	parent, _ := body["parent"].(object)
	if (parent["page_id"] == nil) == (body["discussion_id"] == nil) {
		return nil, invalid("either parent.page_id or discussion_id must be provided")
	}
	return object{"object": "comment", "id": w.id(), "rich_text": body["rich_text"], "parent": parent, "discussion_id": body["discussion_id"]}, nil
}

func (w *workspace) createUpload(r *http.Request) (object, *refusal) {
	body := read(r)
	u := object{"object": "file_upload", "id": w.id(), "status": "pending", "filename": body["filename"], "content_type": body["content_type"]}
	id, _ := u["id"].(string)
	w.objects[id] = u
	return u, nil
}

func (w *workspace) sendUpload(r *http.Request) (object, *refusal) {
	u, no := w.find("file_upload", r.PathValue("id"))
	if no != nil {
		return nil, no
	}
	f, head, err := r.FormFile("file")
	if err != nil {
		return nil, invalid("body.file should be defined")
	}
	content, err := io.ReadAll(f)
	if err != nil {
		return nil, invalid("body.file cannot be read")
	}
	u["status"], u["filename"], u["content_type"], u["content_length"] = "uploaded", head.Filename, strings.Split(head.Header.Get("Content-Type"), ";")[0], json.Number(fmt.Sprint(len(content)))
	if r.FormValue("part_number") != "" {
		u["status"] = "pending"
	}
	return u, nil
}

func (w *workspace) completeUpload(r *http.Request) (object, *refusal) {
	u, no := w.find("file_upload", r.PathValue("id"))
	if no == nil {
		u["status"] = "uploaded"
	}
	return u, no
}

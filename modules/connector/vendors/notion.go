package vendors

import (
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"net/url"
	"slices"
	"strings"

	"github.com/portico-run/portico/modules/tool"
)

// notion is Notion's API, in the version that knows data sources: the pages of a
// database are those of its first source.
type notion struct{}

const notionVersion = "2025-09-03"

// object is JSON of Notion's.
type object = map[string]any

// Call implements Client. Notion's tools cost nothing.
func (n notion) Call(ctx context.Context, c Call) (Result, error) {
	s := notionCall{ctx, c.api}
	call, ok := map[string]func(in notionInput) (object, error){
		"create_page": s.createPage, "retrieve_page": s.retrievePage, "update_page": s.updatePage, "search_pages": s.search,
		"create_database": s.createDatabase, "query_database": s.queryDatabase, "retrieve_database": s.retrieveDatabase,
		"append_block": s.appendBlock, "retrieve_block": s.retrieveBlock, "update_block": s.updateBlock, "list_users": s.listUsers,
		"get_database_properties": s.databaseProperties, "create_comment": s.createComment, "create_file_upload": s.createUpload,
		"send_file_upload": s.sendUpload, "complete_file_upload": s.completeUpload, "retrieve_file_upload": s.retrieveUpload,
		"list_file_uploads": s.listUploads, "delete_block": s.deleteBlock, "retrieve_user": s.retrieveUser,
		"retrieve_page_property_item": s.propertyItem, "update_database": s.updateDatabase, "retrieve_database_content": s.queryDatabase,
		"duplicate_page": s.duplicatePage, "create_page_from_database": s.createInDatabase,
	}[c.Tool]
	if !ok {
		return Result{}, unknown(c)
	}
	var in notionInput
	if err := json.Unmarshal(c.Arguments, &in); err != nil {
		return Result{}, refuse("%v", err)
	}
	data, err := call(in)
	return Result{Data: data}, err
}

// notionInput holds the parameters of all tools.
type notionInput struct {
	ParentID         string  `json:"parentId"`
	ParentDatabaseID string  `json:"parentDatabaseId"`
	PageID           string  `json:"pageId"`
	DatabaseID       string  `json:"databaseId"`
	BlockID          string  `json:"blockId"`
	UserID           string  `json:"userId"`
	DiscussionID     string  `json:"discussionId"`
	PropertyID       string  `json:"propertyId"`
	UploadID         string  `json:"fileUploadId"`
	Title            *string `json:"title"`
	Description      *string `json:"description"`
	Content          string  `json:"content"`
	Comment          string  `json:"comment"`
	Query            string  `json:"query"`
	Type             string  `json:"type"`
	Properties       object  `json:"properties"`
	Filter           object  `json:"filter"`
	Sort             object  `json:"sort"`
	Sorts            []any   `json:"sorts"`
	Icon             object  `json:"icon"`
	Cover            object  `json:"cover"`
	Archived         *bool   `json:"archived"`
	PageSize         int     `json:"pageSize"`
	StartCursor      string  `json:"startCursor"`
	Mode             string  `json:"mode"`
	Filename         string  `json:"filename"`
	ContentType      string  `json:"contentType"`
	Parts            int     `json:"numberOfParts"`
	PartNumber       int     `json:"partNumber"`
	ExternalURL      string  `json:"externalUrl"`
	FileData         string  `json:"fileData"`
	Status           string  `json:"status"`
}

// notionCall is one call; its context ends with it.
type notionCall struct {
	ctx context.Context //nolint:containedctx // of one call, like the arguments of its methods
	api api
}

// send makes one request. A body is JSON; reading is what may be repeated.
func (s notionCall) send(method, path string, body any) (object, error) {
	var out object
	_, err := s.api.do(s.ctx, ask{
		method: method, url: s.api.base("baseUrl") + "/v1/" + path, body: body, header: http.Header{"Notion-Version": {notionVersion}},
		harmless: method == http.MethodPost && (path == "search" || strings.HasSuffix(path, "/query")),
	}, &out)
	return out, err
}

func (s notionCall) get(path string) (object, error) { return s.send(http.MethodGet, path, nil) }

// at is a path with ids in it, which cannot leave their places.
func at(parts ...string) string {
	for i := range parts {
		parts[i] = url.PathEscape(parts[i])
	}
	return strings.Join(parts, "/")
}

// missing reports whether Notion says that there is no such thing, or that it is
// of another kind.
func missing(err error) bool {
	f, ok := errors.AsType[*tool.Failure](err)
	return ok && (f.Code == "NOT_FOUND" || f.Code == "BAD_REQUEST")
}

// answer is a result of every tool of Notion's: a sentence, and what came of the
// call. See docs/wire/providers.md#notion.
func answer(message string, err error, more ...any) (object, error) {
	if err != nil {
		return nil, err
	}
	out := object{"message": message}
	for pair := range slices.Chunk(more, 2) {
		name, _ := pair[0].(string)
		out[name] = pair[1]
	}
	return out, nil
}

// list is a result that is one page of a list.
func list(message, name string, got object, err error) (object, error) {
	return answer(message, err, name, got["results"], "hasMore", got["has_more"], "nextCursor", got["next_cursor"])
}

// paged adds the page that is asked for.
func (in notionInput) paged(body object) object {
	if in.PageSize > 0 {
		body["page_size"] = in.PageSize
	}
	if in.StartCursor != "" {
		body["start_cursor"] = in.StartCursor
	}
	return body
}

func text(s *string) string {
	if s == nil {
		return ""
	}
	return *s
}

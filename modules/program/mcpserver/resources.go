package mcpserver

import (
	"context"
	"encoding/json"
	"net/http"
	"net/url"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/portico-run/portico/internal/actor"
	"github.com/portico-run/portico/internal/errs"
	"github.com/portico-run/portico/internal/httpapi"
)

// Addresses of resources.
const (
	runs  = "portico://runs/"
	files = "portico://files/"
)

const (
	// maxFile is the largest file that is read as a resource, in bytes. Larger ones
	// are downloaded.
	maxFile  = 4 << 20
	typeJSON = "application/json"
	// newCanvas is the name of a canvas that is to be made.
	newCanvas = "new"
	listed    = 50 // resources of a page
)

// offer adds what can be read.
func (m *Module) offer(s *mcp.Server) {
	s.AddResourceTemplate(&mcp.ResourceTemplate{Name: "run", Title: "A run", MIMEType: typeJSON, URITemplate: runs + "{resultId}"}, m.reads(user.readRun))
	s.AddResourceTemplate(&mcp.ResourceTemplate{Name: "file", Title: "A file that a program left", URITemplate: files + "{fileId}"}, m.reads(user.readFile))
	s.AddReceivingMiddleware(m.list)
}

// reads lets a method read a resource as whoever asks for it.
func (m *Module) reads(do func(user, context.Context, *mcp.ReadResourceRequest) (*mcp.ReadResourceResult, error)) mcp.ResourceHandler {
	return func(ctx context.Context, req *mcp.ReadResourceRequest) (*mcp.ReadResourceResult, error) {
		ctx, u, err := m.user(ctx, req.Extra)
		if err != nil {
			return nil, public(err)
		}
		return do(u, ctx, req)
	}
}

// list answers resources/list with the user's runs, the newest first.
func (m *Module) list(next mcp.MethodHandler) mcp.MethodHandler {
	return func(ctx context.Context, method string, req mcp.Request) (mcp.Result, error) {
		params, ok := req.GetParams().(*mcp.ListResourcesParams)
		if !ok || method != "resources/list" {
			return next(ctx, method, req)
		}
		ctx, u, err := m.user(ctx, req.GetExtra())
		if err != nil {
			return nil, public(err)
		}
		if err := u.may(actor.Read); err != nil {
			return nil, public(err)
		}
		cursor := ""
		if params != nil { // the cursors are of this list
			cursor, params.Cursor = params.Cursor, ""
		}
		answer, err := next(ctx, method, req)
		found, ok := answer.(*mcp.ListResourcesResult)
		if err != nil || !ok {
			return answer, err
		}
		return found, u.listRuns(ctx, found, cursor)
	}
}

// listRuns adds a page of the user's runs to a list.
func (u user) listRuns(ctx context.Context, found *mcp.ListResourcesResult, cursor string) error {
	page, err := u.deps.Resources.Runs(ctx, u.who, httpapi.PageQuery{Cursor: cursor, Limit: listed})
	if err != nil {
		return public(err)
	}
	for _, r := range page.Items {
		found.Resources = append(found.Resources, &mcp.Resource{URI: runs + url.PathEscape(r.ResultID), Name: r.ResultID, Title: r.Title, MIMEType: typeJSON, Description: string(r.Status)})
	}
	found.NextCursor = page.NextCursor
	return nil
}

// runShown is a run as a resource.
type runShown struct {
	ResultID  string    `json:"resultId"`
	Version   int       `json:"version"`
	Title     string    `json:"title"`
	Type      string    `json:"type"`
	Status    string    `json:"status"`
	Canvas    string    `json:"canvas,omitempty"`
	Toolsets  []string  `json:"toolsets,omitempty"`
	Errors    []string  `json:"errors,omitempty"`
	Warnings  []string  `json:"warnings,omitempty"`
	CreatedAt time.Time `json:"createdAt"`
	UpdatedAt time.Time `json:"updatedAt"`
}

func (u user) readRun(ctx context.Context, req *mcp.ReadResourceRequest) (*mcp.ReadResourceResult, error) {
	id, err := u.idOf(req.Params.URI, runs)
	if err != nil {
		return nil, err
	}
	r, err := u.deps.Resources.Run(ctx, u.who, id)
	if err != nil && errs.CodeOf(err).Status() == http.StatusNotFound {
		return nil, mcp.ResourceNotFoundError(req.Params.URI)
	}
	if err != nil {
		return nil, public(err)
	}
	text, err := json.Marshal(runShown{
		ResultID: r.ResultID, Version: r.Version, Title: r.Title, Type: r.Type, Status: string(r.Status), Canvas: r.CanvasID,
		Toolsets: r.Toolsets, Errors: r.Errors, Warnings: r.Warnings, CreatedAt: r.CreatedAt.UTC(), UpdatedAt: r.UpdatedAt.UTC(),
	})
	return &mcp.ReadResourceResult{Contents: []*mcp.ResourceContents{{URI: req.Params.URI, MIMEType: typeJSON, Text: string(text)}}}, err
}

func (u user) readFile(ctx context.Context, req *mcp.ReadResourceRequest) (*mcp.ReadResourceResult, error) {
	id, err := u.idOf(req.Params.URI, files)
	if err != nil {
		return nil, err
	}
	f, content, err := u.deps.Resources.File(ctx, u.who, id, maxFile)
	if err != nil && errs.CodeOf(err).Status() == http.StatusNotFound {
		return nil, mcp.ResourceNotFoundError(req.Params.URI)
	}
	if err != nil {
		return nil, public(err)
	}
	c := &mcp.ResourceContents{URI: req.Params.URI, MIMEType: f.Type}
	if utf8.Valid(content) && strings.HasPrefix(f.Type, "text/") || f.Type == typeJSON && json.Valid(content) {
		c.Text = string(content)
	} else {
		c.Blob = content
	}
	return &mcp.ReadResourceResult{Contents: []*mcp.ResourceContents{c}}, nil
}

// idOf is the id in the address of a resource that the user may read.
func (u user) idOf(uri, prefix string) (string, error) {
	if err := u.may(actor.Read); err != nil {
		return "", public(err)
	}
	id, err := url.PathUnescape(strings.TrimPrefix(uri, prefix))
	if err != nil || id == "" {
		return "", mcp.ResourceNotFoundError(uri)
	}
	return id, nil
}

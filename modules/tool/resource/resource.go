// Package resource carries files into tools and out of them: what a schema
// marks with isResource is a file of the caller's on the way in, and becomes
// one on the way out.
package resource

import (
	"bytes"
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/netip"
	"time"

	"github.com/portico-run/portico/internal/actor"
	"github.com/portico-run/portico/internal/objectstore"
	"github.com/portico-run/portico/modules/drive"
	"github.com/portico-run/portico/modules/run"
	"github.com/portico-run/portico/modules/run/record"
)

// Files are those of canvases.
type Files interface {
	Open(ctx context.Context, a actor.Actor, fileID string) (drive.File, io.ReadSeekCloser, error)
	Link(ctx context.Context, a actor.Actor, fileID string, life time.Duration) (drive.Link, error)
	Save(ctx context.Context, a actor.Actor, c drive.Content) (drive.File, error)
	Describe(uid string, f drive.File) drive.DriveFile
}

// Client makes HTTP requests within the rules of egress.
type Client interface {
	Do(r *http.Request, allow []netip.Prefix) (*http.Response, error)
}

// Deps is what a Resolver needs.
type Deps struct {
	Files  Files
	Client Client
	// Objects keeps the files of calls without a canvas for a while.
	Objects objectstore.Store
	// Limit is the largest file, in bytes, that goes in or out.
	Limit int64
	// Together is how many bytes the files have that go into one call.
	Together int64
	// Endpoint is where callers reach the API.
	Endpoint string
	Now      func() time.Time
}

// Resolver carries files.
type Resolver struct{ deps Deps }

// New returns a resolver and starts nothing.
func New(d Deps) *Resolver { return &Resolver{deps: d} }

// File is bytes that are no JSON and no text.
type File struct {
	Name    string // may be empty
	Type    string // media type; may be empty
	Content []byte
}

// MarshalJSON implements json.Marshaler: where only JSON goes, a file is
// base64.
func (f File) MarshalJSON() ([]byte, error) {
	return json.Marshal(base64.StdEncoding.EncodeToString(f.Content))
}

// Origin is where files of a result come from.
type Origin struct {
	// Call is the record; its canvas is where files go, if there is one.
	Call record.Call
	// Title names what goes out; the tool's name, if the caller gave none.
	Title string
	// Egress is what the toolset may reach beyond the public internet.
	Egress []netip.Prefix
	// Names are those of the temporary files that the call has; Keep adds to them.
	// Outputs begins with none where it is nil.
	Names map[string]bool
	// Stored says that objects with a member s3url are files, whatever the
	// schema says.
	Stored bool
}

// run names the run that a file belongs to; nothing outside any run.
func (o Origin) run() run.Ref {
	if !o.Call.InRun() {
		return run.Ref{}
	}
	return o.Call.Run()
}

// node is what is read of a schema.
type node struct {
	IsResource bool            `json:"isResource"`
	Format     string          `json:"format"`
	Properties map[string]node `json:"properties"`
	Items      *node           `json:"items"`
	OneOf      []node          `json:"oneOf"`
	AnyOf      []node          `json:"anyOf"`
	AllOf      []node          `json:"allOf"`
}

// parse reads a schema. One of another form has no resources. Most have none,
// and cost every call no more than a look.
func parse(schema json.RawMessage) node {
	var n node
	if !bytes.Contains(schema, []byte(`"isResource"`)) || json.Unmarshal(schema, &n) != nil {
		return node{}
	}
	return n
}

// holds reports whether there is a resource anywhere.
func (n node) holds() bool {
	if n.IsResource || n.Items != nil && n.Items.holds() {
		return true
	}
	for _, p := range n.Properties {
		if p.holds() {
			return true
		}
	}
	for _, list := range [][]node{n.OneOf, n.AnyOf, n.AllOf} {
		for _, branch := range list {
			if branch.holds() {
				return true
			}
		}
	}
	return false
}

// convert replaces one resource. optional says that the value may also be
// something else.
type convert func(v any, n node, path string, optional bool) (any, error)

// walk replaces every resource in a value.
func (n node) walk(v any, path string, optional bool, with convert) (any, error) {
	if v == nil {
		return nil, nil //nolint:nilnil // nothing stays nothing
	}
	if list, ok := v.([]any); ok && (n.Items != nil || n.IsResource) {
		items := n
		if n.Items != nil {
			items = *n.Items
			items.IsResource = items.IsResource || n.IsResource
		}
		out := make([]any, len(list))
		for i, item := range list {
			var err error
			if out[i], err = items.walk(item, fmt.Sprintf("%s[%d]", path, i), optional, with); err != nil {
				return nil, err
			}
		}
		return out, nil
	}
	if n.IsResource {
		return with(v, n, path, optional)
	}
	var err error
	if object, ok := v.(map[string]any); ok {
		out := make(map[string]any, len(object))
		for name, member := range object {
			out[name] = member
			if p, known := n.Properties[name]; known {
				if out[name], err = p.walk(member, join(path, name), optional, with); err != nil {
					return nil, err
				}
			}
		}
		v = out
	}
	for i, list := range [][]node{n.AllOf, n.OneOf, n.AnyOf} {
		for _, branch := range list {
			if !branch.holds() {
				continue
			}
			if v, err = branch.walk(v, path, optional || i > 0, with); err != nil {
				return nil, err
			}
		}
	}
	return v, nil
}

func join(path, name string) string {
	if path == "" {
		return name
	}
	return path + "." + name
}

// errLonger is a file with more bytes than were to be read.
var errLonger = errors.New("the file is longer than it may be")

// read reads no more than limit bytes.
func read(r io.Reader, limit int64) ([]byte, error) {
	b, err := io.ReadAll(io.LimitReader(r, limit+1))
	if err == nil && int64(len(b)) > limit {
		err = fmt.Errorf("%w: more than %d bytes", errLonger, limit)
	}
	return b, err
}

package agent

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/danielgtaylor/huma/v2"

	"github.com/portico-run/portico/internal/errs"
	"github.com/portico-run/portico/modules/model"
	"github.com/portico-run/portico/modules/run"
	"github.com/portico-run/portico/modules/tool/approval"
)

type invokeInput struct{ Body invokeBody }

// invokeBody takes the request of docs/wire/refly.md#runs, and a shorter form of it.
type invokeBody struct {
	Query       string       `json:"query,omitempty" maxLength:"200000" doc:"What the user says"`
	Input       askedInput   `json:"input,omitzero" doc:"The same, for clients that send it here"`
	Title       string       `json:"title,omitempty" maxLength:"500" documented:"pattern=^[^\\x00]*$" doc:"Shown in lists; the PTC decision may look at it"`
	Toolsets    []toolsetRef `json:"toolsets,omitempty" maxItems:"200" doc:"The toolsets that it may use"`
	ResultID    string       `json:"resultId,omitempty" maxLength:"64" doc:"The id of a run to create, or of an own run to run again"`
	Version     *int         `json:"version,omitempty" doc:"Not read: an own run gets its next version, which the answer and each event name"`
	CanvasID    string       `json:"canvasId,omitempty" maxLength:"64" doc:"The canvas it belongs to"`
	Target      *target      `json:"target,omitempty" doc:"The same, for clients that send it here"`
	ToolChoice  any          `json:"toolChoice,omitempty" doc:"auto, none, required, a function, or allowed tools"`
	History     []runRef     `json:"history,omitempty" maxItems:"100" doc:"The runs that this one continues, in order"`
	ResultHist  []runRef     `json:"resultHistory,omitempty" maxItems:"100" doc:"The same, for clients that send it here"`
	PTC         string       `json:"ptc,omitempty" enum:"auto,off,on" doc:"Programmatic tool calling: auto leaves it to the policy, off has the tools called plainly, on refuses the request where the policy says no"`
	Approval    string       `json:"approval,omitempty" enum:"never,first,always" doc:"When its calls of tools wait for a person, at least; what is stricter by itself stays so"`
	Parallel    *bool        `json:"parallelToolCalls,omitempty" doc:"Whether the model may call several tools at once; true when left out"`
	Model       string       `json:"model,omitempty" maxLength:"64" doc:"The name of the model that answers, of those that GET /v1/models lists; that of the key, or else the first of them, when left out"`
	ModelItemID string       `json:"modelItemId,omitempty" maxLength:"64" documented:"pattern=^[^\\x00]*$" doc:"Recorded; model chooses the model"`
	ModelName   string       `json:"modelName,omitempty" maxLength:"200" documented:"pattern=^[^\\x00]*$" doc:"Recorded; model chooses the model"`
	Mode        string       `json:"mode,omitempty" maxLength:"64" documented:"pattern=^[^\\x00]*$" doc:"Recorded"`
	Locale      string       `json:"locale,omitempty" maxLength:"64" documented:"pattern=^[^\\x00]*$" doc:"Recorded"`
	// What a frontend keeps with a run, objects of its own.
	Context       any `json:"context,omitempty" doc:"Recorded; the agent does not read it, and the run has a warning if there is something in it"`
	TplConfig     any `json:"tplConfig,omitempty" doc:"Recorded; the agent does not read it, and the run has a warning if there is something in it"`
	RuntimeConfig any `json:"runtimeConfig,omitempty" doc:"Recorded"`
}

type askedInput struct {
	Query         string  `json:"query,omitempty" maxLength:"200000" doc:"What the model is told"`
	OriginalQuery string  `json:"originalQuery,omitempty" maxLength:"200000" doc:"What the user wrote, where it differs; recorded"`
	Images        []image `json:"images,omitempty" maxItems:"100" doc:"Recorded; the model is not shown them, and the run has a warning if there are any"`
}

// image is recorded as it came; null is as good as an empty one.
type image string

// Schema implements huma.SchemaProvider.
func (image) Schema(huma.Registry) *huma.Schema {
	return &huma.Schema{Type: huma.TypeString, Nullable: true}
}

// target is what a run belongs to.
type target struct {
	EntityID   string `json:"entityId,omitempty" maxLength:"64" doc:"A canvas"`
	EntityType string `json:"entityType,omitempty" maxLength:"32" doc:"canvas"`
}

// runRef names a run: its result id, or an object that has it.
type runRef string

// UnmarshalJSON implements json.Unmarshaler.
func (r *runRef) UnmarshalJSON(text []byte) error {
	var id string
	if json.Unmarshal(text, &id) != nil {
		var object struct {
			ResultID string `json:"resultId"`
		}
		if err := json.Unmarshal(text, &object); err != nil {
			return err
		}
		id = object.ResultID
	}
	*r = runRef(id)
	return nil
}

// Schema implements huma.SchemaProvider.
func (runRef) Schema(huma.Registry) *huma.Schema {
	id := &huma.Schema{Type: huma.TypeString, MaxLength: new(64), Description: "Its resultId", Extensions: map[string]any{"minLength": 1}}
	return &huma.Schema{OneOf: []*huma.Schema{id, {
		Type: huma.TypeObject, Properties: map[string]*huma.Schema{"resultId": id}, Required: []string{"resultId"}, AdditionalProperties: true,
	}}}
}

// toolsetRef names a toolset: its key, or an object that holds it.
type toolsetRef struct {
	key      string
	selected []string // nil for all of its tools
}

// mcpToolset is the type of toolsets that are MCP servers. Their name is the key.
const mcpToolset = "mcp"

// UnmarshalJSON implements json.Unmarshaler.
func (t *toolsetRef) UnmarshalJSON(text []byte) error {
	*t = toolsetRef{}
	if json.Unmarshal(text, &t.key) == nil {
		return nil
	}
	var object struct {
		Type    string
		ID      string
		Name    string
		Toolset *struct{ Key string }
		// Selected tells an empty list from none.
		Selected []string `json:"selectedTools"`
	}
	if err := json.Unmarshal(text, &object); err != nil {
		return err
	}
	t.key, t.selected = object.ID, object.Selected
	if object.Toolset != nil && object.Toolset.Key != "" {
		t.key = object.Toolset.Key
	}
	if object.Type == mcpToolset && object.Name != "" {
		t.key = object.Name
	}
	return nil
}

// Schema implements huma.SchemaProvider.
func (toolsetRef) Schema(huma.Registry) *huma.Schema {
	text := func(doc string) *huma.Schema { return &huma.Schema{Type: huma.TypeString, Description: doc} }
	key := text("Its key")
	key.MaxLength, key.Extensions = new(64), map[string]any{"minLength": 1}
	object := func(properties map[string]*huma.Schema) *huma.Schema {
		return &huma.Schema{Type: huma.TypeObject, Properties: properties, AdditionalProperties: true}
	}
	whole := object(map[string]*huma.Schema{
		"type": text("regular, or mcp for an MCP server"), "id": text("Its key, where toolset does not say it"), "name": text("The name of an MCP server, which is its key; not read of others"),
		"toolset": object(map[string]*huma.Schema{"key": key}),
		"selectedTools": {
			Type: huma.TypeArray, Items: text("The name of a tool"),
			Description: "The only tools of it that the run may use, also in programs; all when left out. An empty list leaves the toolset out, with a warning",
		},
	})
	whole.Extensions = map[string]any{"anyOf": json.RawMessage(keySaid)}
	return &huma.Schema{OneOf: []*huma.Schema{key, whole}}
}

// keySaid are the members that may hold the key of a toolset.
const keySaid = `[{"required":["id"],"properties":{"id":{"type":"string","minLength":1}}},
	{"required":["toolset"],"properties":{"toolset":{"type":"object","required":["key"],"properties":{"key":{"type":"string","minLength":1}}}}},
	{"required":["type","name"],"properties":{"type":{"const":"mcp"},"name":{"type":"string","minLength":1}}}]`

// What a request may hold. Each is looked at one by one, and may be a warning of
// its own.
const (
	maxQuery    = 200_000 // characters of a message
	maxToolsets = 200
	maxSelected = 1000 // tools, of all toolsets
	maxSelector = 128  // bytes of the name of one
	maxHistory  = 100
	maxImages   = 100
)

// bound refuses a request that holds too much of something.
func (b invokeBody) bound() error {
	selected := 0
	for _, t := range b.Toolsets {
		selected += len(t.selected)
		if slices.ContainsFunc(t.selected, func(name string) bool { return len(name) > maxSelector }) {
			return errs.Newf(errs.Invalid, "selectedTools has a name of more than %d bytes.", maxSelector)
		}
	}
	for _, list := range []struct {
		name      string
		has, most int
	}{
		{"toolsets", len(b.Toolsets), maxToolsets},
		{"selectedTools", selected, maxSelected},
		{"history", len(b.History) + len(b.ResultHist), maxHistory},
		{"input.images", len(b.Input.Images), maxImages},
	} {
		if list.has > list.most {
			return errs.Newf(errs.Invalid, "%s must not have more than %d items.", list.name, list.most)
		}
	}
	return nil
}

func (b invokeBody) request() (Request, error) {
	if err := b.bound(); err != nil {
		return Request{}, err
	}
	req := Request{
		Query: b.Query, Title: b.Title, ResultID: b.ResultID, CanvasID: b.CanvasID, Model: b.Model, OneByOne: b.Parallel != nil && !*b.Parallel, Code: Code(b.PTC),
		Asked: run.Asked{Locale: b.Locale, ModelItemID: b.ModelItemID},
	}
	var err error
	if req.Approval, err = approval.ParseLevel(b.Approval); err != nil {
		return req, err
	}
	for _, query := range []string{b.Input.Query, b.Input.OriginalQuery} {
		if req.Query == "" {
			req.Query = query
		}
	}
	for _, query := range []string{req.Query, b.Input.OriginalQuery} {
		if utf8.RuneCountInString(query) > maxQuery {
			return req, errs.Newf(errs.Invalid, "query must not be longer than %d characters.", maxQuery)
		}
	}
	if strings.TrimSpace(req.Query) == "" {
		return req, errs.New(errs.Invalid, "query is empty.").Do(`Send what the user says, such as {"query":"What is the weather in Oslo?"}.`)
	}
	if !slices.Contains([]Code{"", CodeAuto, CodeOff, CodeOn}, req.Code) {
		return req, errs.Newf(errs.Invalid, "ptc %q is not auto, off or on.", b.PTC)
	}
	if b.ToolChoice != nil {
		raw, err := json.Marshal(b.ToolChoice)
		if err == nil {
			req.Choice, err = model.ParseChoice(raw)
		}
		if err != nil {
			return req, errs.New(errs.Invalid, "toolChoice is not understood.").Do(err.Error())
		}
	}
	for _, fill := range []func(*Request) error{b.place, b.use, b.keep} {
		if err := fill(&req); err != nil {
			return req, err
		}
	}
	return req, nil
}

// place reads what the run belongs to, and which runs it continues.
func (b invokeBody) place(req *Request) error {
	if t := b.Target; t != nil && t.EntityID != "" {
		if t.EntityType != "" && t.EntityType != "canvas" {
			return errs.Newf(errs.Invalid, "target is a %.32s; a run can belong to a canvas only.", t.EntityType).Do("Send entityType canvas, or leave the target out.")
		}
		if b.CanvasID != "" && b.CanvasID != t.EntityID {
			return errs.New(errs.Invalid, "canvasId and target name two canvases.").Do("Send one of them.")
		}
		req.CanvasID = t.EntityID
	}
	for _, r := range append(b.History, b.ResultHist...) {
		if r == "" {
			return errs.New(errs.Invalid, "history names a run without resultId.").Do("Send result ids, or objects with resultId.")
		}
		if !slices.Contains(req.History, string(r)) {
			req.History = append(req.History, string(r))
		}
	}
	return nil
}

// use reads which toolsets the run may use, and which of their tools.
func (b invokeBody) use(req *Request) error {
	for i, t := range b.Toolsets {
		switch {
		case t.key == "":
			return errs.Newf(errs.Invalid, "toolsets[%d] has no key.", i).Do("Send the key of a toolset, or an object with toolset.key or id; GET /v1/tool/list lists them.")
		case t.selected != nil && len(t.selected) == 0:
			req.Notes = append(req.Notes, fmt.Sprintf("Toolset %s is left out: its selectedTools is empty. Leave selectedTools out for all of its tools.", t.key))
			continue
		}
		named := slices.Contains(req.Toolsets, t.key)
		_, narrowed := req.Selected[t.key]
		switch {
		case !named:
			req.Toolsets = append(req.Toolsets, t.key)
		case !narrowed: // it has all of its tools already
			continue
		}
		req.selectTools(t)
	}
	return nil
}

// selectTools adds what a toolset is narrowed to; all of its tools where one
// mention of it does not narrow it.
func (r *Request) selectTools(t toolsetRef) {
	if t.selected == nil {
		delete(r.Selected, t.key)
		return
	}
	if r.Selected == nil {
		r.Selected = map[string][]string{}
	}
	r.Selected[t.key] = append(r.Selected[t.key], t.selected...)
}

// keep reads what is recorded only. What a user may take for read is a note.
func (b invokeBody) keep(req *Request) error {
	for _, k := range []struct {
		name  string
		value any
		into  *json.RawMessage
		read  bool // a user may think so
	}{
		{"context", b.Context, &req.Asked.Context, true},
		{"tplConfig", b.TplConfig, &req.Asked.TplConfig, true},
		{"runtimeConfig", b.RuntimeConfig, &req.Asked.RuntimeConfig, false},
	} {
		if k.value == nil {
			continue
		}
		text, err := json.Marshal(k.value)
		if err != nil {
			return err
		}
		*k.into = text
		if k.read && !empty(k.value) {
			req.Notes = append(req.Notes, fmt.Sprintf("The %s of the request is recorded, but the agent does not read it.", k.name))
		}
	}
	if len(b.Input.Images) > 0 {
		req.Notes = append(req.Notes, "The images of the request are recorded, but the model is not shown them.")
	}
	original := b.Input.OriginalQuery
	if original == "" {
		original = req.Query
	}
	var err error
	req.Input, err = json.Marshal(recordedInput{
		Query: req.Query, OriginalQuery: original, Images: b.Input.Images, Mode: b.Mode, ModelName: b.ModelName, Selected: req.Selected,
	})
	return err
}

// recordedInput is the input of a run's record.
type recordedInput struct {
	Query         string              `json:"query"`
	OriginalQuery string              `json:"originalQuery"`
	Images        []image             `json:"images,omitempty"`
	Mode          string              `json:"mode,omitempty"`
	ModelName     string              `json:"modelName,omitempty"`
	Selected      map[string][]string `json:"selectedTools,omitempty"`
}

// empty reports whether there is nothing in a JSON value.
func empty(v any) bool {
	switch v := v.(type) {
	case nil:
		return true
	case string:
		return v == ""
	case []any:
		return !slices.ContainsFunc(v, func(item any) bool { return !empty(item) })
	case map[string]any:
		for _, member := range v {
			if !empty(member) {
				return false
			}
		}
		return true
	}
	return false
}

package run

import (
	"encoding/json"
	"strconv"
	"time"

	"github.com/portico-run/portico/internal/errs"
	"github.com/portico-run/portico/internal/httpapi"
)

type canvasInput struct {
	Body struct {
		Title string `json:"title,omitempty" documented:"maxLength=200 pattern=^[^\\x00]*$" doc:"At most 200 characters; Untitled when left out"`
	}
}

type listInput struct {
	httpapi.PageQuery
	Status   string    `query:"status" enum:"waiting,running,finish,error,aborted" doc:"Only runs in this state"`
	CanvasID string    `query:"canvasId" maxLength:"64" doc:"Only runs of this canvas"`
	Toolset  string    `query:"toolset" maxLength:"128" doc:"Only runs that called this toolset"`
	Text     string    `query:"q" maxLength:"200" doc:"Only runs with this text in their title, in upper or lower case; on SQLite that is so for A to Z only"`
	From     time.Time `query:"from" doc:"Only runs created from this moment on"`
	Until    time.Time `query:"until" doc:"Only runs created before this moment"`
}

// ResultBody is a run as docs/wire/refly.md#runs has it, without its messages.
type ResultBody struct {
	ResultID   string `json:"resultId"`
	Version    int    `json:"version"`
	Type       string `json:"type"`
	Title      string `json:"title"`
	Status     Status `json:"status" enum:"waiting,running,finish,error,aborted"`
	TargetType string `json:"targetType,omitempty"`
	TargetID   string `json:"targetId,omitempty" doc:"The canvas, when targetType says so"`
	Input      any    `json:"input,omitempty" doc:"What the run was started with"`
	// What a frontend said for its own use.
	Context       any    `json:"context,omitempty" doc:"As it was sent; lists leave it out"`
	TplConfig     any    `json:"tplConfig,omitempty" doc:"As it was sent; lists leave it out"`
	RuntimeConfig any    `json:"runtimeConfig,omitempty" doc:"As it was sent; lists leave it out"`
	Locale        string `json:"locale,omitempty" doc:"As it was sent"`
	ModelItemID   string `json:"modelItemId,omitempty" doc:"As it was sent; modelName is the model that answered"`

	Toolsets   []string    `json:"toolsets,omitempty" nullable:"false"`
	PTCEnabled bool        `json:"ptcEnabled" doc:"Written when the run ends"`
	ModelName  string      `json:"modelName,omitempty" doc:"The language model that answered; written when the run ends"`
	Errors     []string    `json:"errors,omitempty" nullable:"false"`
	ErrorType  string      `json:"errorType,omitempty" doc:"systemError or userAbort"`
	Warnings   []string    `json:"warnings,omitempty" nullable:"false" doc:"What the run did without, such as a toolset that does not work; written when the run ends"`
	Handoff    *Handoff    `json:"handoff,omitempty" doc:"To whom the model handed the work over; the run is over"`
	Totals     *TotalsBody `json:"totals,omitempty" doc:"What its calls add up to; in lists and where a run is read"`
	LastEvent  int64       `json:"lastEventId" doc:"The number of the newest event of the stream"`
	CreatedAt  time.Time   `json:"createdAt"`
	UpdatedAt  time.Time   `json:"updatedAt"`
}

// NewResultBody shows a run.
func NewResultBody(r Run) ResultBody {
	b := ResultBody{
		ResultID: r.ResultID, Version: r.Version, Type: r.Type, Title: r.Title, Status: r.Status,
		Toolsets: r.Toolsets, PTCEnabled: r.PTCEnabled, ModelName: r.Model, Errors: r.Errors, ErrorType: r.ErrorType, Warnings: r.Warnings, Handoff: r.Handoff,
		LastEvent: r.Seq, CreatedAt: r.CreatedAt, UpdatedAt: r.UpdatedAt,
	}
	if r.CanvasID != "" {
		b.TargetType, b.TargetID = targetCanvas, r.CanvasID
	}
	b.Input, b.Context = raw([]byte(r.Input)), raw(r.Asked.Context)
	b.TplConfig, b.RuntimeConfig = raw(r.Asked.TplConfig), raw(r.Asked.RuntimeConfig)
	b.Locale, b.ModelItemID = r.Asked.Locale, r.Asked.ModelItemID
	return b
}

// raw is a JSON text that may be empty.
func raw(text []byte) any {
	if len(text) == 0 {
		return nil
	}
	return json.RawMessage(text)
}

type canvasBody struct {
	CanvasID  string    `json:"canvasId"`
	Title     string    `json:"title"`
	CreatedAt time.Time `json:"createdAt"`
	UpdatedAt time.Time `json:"updatedAt"`
	Runs      int       `json:"runs" doc:"How many there are, each counted once whatever its versions"`
	Files     int       `json:"files" doc:"How many there are"`
	Bytes     int64     `json:"bytes" doc:"What its files take"`
}

// ParseVersion reads a version that a request may leave out; nil is none. name is
// the header or parameter, for the error.
func ParseVersion(name, text string) (*int, error) {
	if text == "" {
		return nil, nil //nolint:nilnil // no version is a value
	}
	v, err := strconv.ParseInt(text, 10, 32)
	if err != nil || v < 0 {
		return nil, errs.Newf(errs.Invalid, "%s is not a version number.", name).Do("Send a whole number from 0, or leave it out.")
	}
	return new(int(v)), nil
}

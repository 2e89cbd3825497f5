package run

import (
	"encoding/json"
	"time"
)

type getInput struct {
	ResultID string `query:"resultId" required:"true" minLength:"1" maxLength:"64" doc:"The run"`
	Version  int    `query:"version" minimum:"-1" default:"-1" doc:"Which execution under the result id; the newest when left out"`
}

type canvasInput struct {
	Body struct {
		Title string `json:"title,omitempty" doc:"At most 200 characters; Untitled when left out"`
	}
}

// resultBody is the wire contract's ActionResult.
type resultBody struct {
	ResultID   string   `json:"resultId"`
	Version    int      `json:"version"`
	Type       string   `json:"type"`
	Title      string   `json:"title"`
	Status     Status   `json:"status" enum:"waiting,running,finish,error,aborted"`
	TargetType string   `json:"targetType,omitempty"`
	TargetID   string   `json:"targetId,omitempty" doc:"The canvas, when targetType says so"`
	Input      any      `json:"input,omitempty" doc:"What the run was started with"`
	Toolsets   []string `json:"toolsets,omitempty" nullable:"false"`
	PTCEnabled bool     `json:"ptcEnabled" doc:"Written when the run ends"`
	ModelName  string   `json:"modelName,omitempty" doc:"The language model that answered; written when the run ends"`
	Errors     []string `json:"errors,omitempty" nullable:"false"`
	ErrorType  string   `json:"errorType,omitempty" doc:"systemError or userAbort"`
	Warnings   []string `json:"warnings,omitempty" nullable:"false" doc:"What the run did without, such as a toolset that does not work; written when the run ends"`
	Handoff    *Handoff `json:"handoff,omitempty" doc:"To whom the model handed the work over; the run is over"`
	LastEvent  int64    `json:"lastEventId" doc:"The number of the newest event of the stream"`
	// Messages come with a single run only.
	Messages  []Message `json:"messages,omitempty" nullable:"false" doc:"The conversation, in order; lists leave it out"`
	CreatedAt time.Time `json:"createdAt"`
	UpdatedAt time.Time `json:"updatedAt"`
}

func toResultBody(r Run) resultBody {
	b := resultBody{
		ResultID: r.ResultID, Version: r.Version, Type: r.Type, Title: r.Title, Status: r.Status,
		Toolsets: r.Toolsets, PTCEnabled: r.PTCEnabled, ModelName: r.Model, Errors: r.Errors, ErrorType: r.ErrorType, Warnings: r.Warnings, Handoff: r.Handoff,
		LastEvent: r.Seq, CreatedAt: r.CreatedAt, UpdatedAt: r.UpdatedAt,
	}
	if r.CanvasID != "" {
		b.TargetType, b.TargetID = targetCanvas, r.CanvasID
	}
	if r.Input != "" {
		b.Input = json.RawMessage(r.Input)
	}
	return b
}

type canvasBody struct {
	CanvasID  string    `json:"canvasId"`
	Title     string    `json:"title"`
	CreatedAt time.Time `json:"createdAt"`
	UpdatedAt time.Time `json:"updatedAt"`
}

// Package model speaks with language models over the protocols of their providers:
// OpenAI's Responses and Chat Completions, and Anthropic's Messages. Anything that
// speaks one of them works, hosted or local.
package model

import (
	"context"
	"fmt"
	"net/http"
)

// Request asks for the next items of a conversation.
type Request struct {
	// Model is the name of the one that is asked, where there are several; empty for
	// the first.
	Model string
	Input []Item
	Tools []Definition
	// Choice says which of the tools may be called, and whether one must be.
	Choice Choice
	// Parallel lets the model call several tools at once.
	Parallel bool
	Options  Options
	// Admit refuses, with errs.NoCredits, another model in place of the one that is named;
	// nil refuses none.
	Admit func(ctx context.Context, name string) error
}

// Response is what a model answered.
type Response struct {
	ID     string `json:"id"`
	Model  string `json:"model"` // the one that answered
	Status string `json:"status"`
	Output []Item `json:"output"`
	Usage  Usage  `json:"usage"`
	// Name is the model's among several, and Passed those that gave no answer before.
	Name   string   `json:"-"`
	Passed []Passed `json:"-"`
	// LeftOut is what of the options the model that answered was not told.
	LeftOut []string `json:"-"`
	// Ended says in which way the answer ended, and Stop which of the texts that end
	// one did, where the provider tells it.
	Ended Ending `json:"-"`
	Stop  string `json:"-"`
	// Incomplete says why the answer is cut; nil when it is whole.
	Incomplete *struct {
		Reason string `json:"reason"`
	} `json:"incomplete_details"`
	Error *struct {
		Code    string `json:"code"`
		Message string `json:"message"`
	} `json:"error"`
}

// Ending is the way in which an answer ended.
type Ending string

// The ways in which answers end. Only the first two are whole.
const (
	Finished    Ending = "finished"     // the model was done, or calls tools
	Stopped     Ending = "stopped"      // at one of the texts that end it
	Length      Ending = "length"       // at the most tokens that it may have
	ContextFull Ending = "context_full" // the model reads and writes no more in one request
	Filtered    Ending = "filtered"     // the provider cut it for what is in it
	Refused     Ending = "refused"      // the model will not answer
	Paused      Ending = "paused"       // the provider wants to be asked again
	Cut         Ending = "cut"          // for a reason that is not known here
)

// endings are the words of providers for answers that are not whole.
func ending(word string) Ending {
	switch word {
	case "max_output_tokens", "max_tokens", "length":
		return Length
	case "model_context_window_exceeded", "context_length_exceeded", "model_length":
		return ContextFull
	case "content_filter":
		return Filtered
	case "refusal":
		return Refused
	case "pause_turn":
		return Paused
	}
	return Cut
}

// Passed is a model that gave no answer, and why.
type Passed struct{ Name, Why string }

// cut says that the answer is not whole.
func (r *Response) cut(why string) {
	r.Ended = ending(why)
	r.Incomplete = &struct {
		Reason string `json:"reason"`
	}{why}
}

// Usage is the tokens of one request, or of several. The details are parts of the
// numbers before them.
type Usage struct {
	Input        int64 `json:"input_tokens"`
	InputDetails struct {
		Cached  int64 `json:"cached_tokens"`      // read from the provider's cache
		Written int64 `json:"cache_write_tokens"` // written to it
	} `json:"input_tokens_details"`
	Output        int64 `json:"output_tokens"`
	OutputDetails struct {
		Reasoning int64 `json:"reasoning_tokens"`
	} `json:"output_tokens_details"`
}

// Add sums up.
func (u *Usage) Add(more Usage) {
	u.Input += more.Input
	u.Output += more.Output
	u.InputDetails.Cached += more.InputDetails.Cached
	u.InputDetails.Written += more.InputDetails.Written
	u.OutputDetails.Reasoning += more.OutputDetails.Reasoning
}

// Total is what counts against a budget.
func (u Usage) Total() int64 { return u.Input + u.Output }

// Delta is a piece of an answer as it appears.
type Delta struct {
	Kind DeltaKind
	Text string
	// CallID and Name are of the call that Arguments belong to.
	CallID, Name string
}

// DeltaKind says what a piece is of.
type DeltaKind string

// The pieces that are passed on. After Restart, what was passed on before in
// the same request does not count: the answer broke off and comes again.
const (
	Text      DeltaKind = "text"
	Reasoning DeltaKind = "reasoning"
	Arguments DeltaKind = "arguments"
	Restart   DeltaKind = "restart"
)

// Error is a refusal of the provider's, in its own words without credentials, or
// says why no whole answer came.
type Error struct {
	Status    int    // of HTTP; 0 when the refusal came in a stream, or no answer at all
	Code      string // the provider's
	Message   string
	RequestID string
	Attempts  int

	lost bool // no whole answer came
}

// Lost reports whether no whole answer came.
func (e *Error) Lost() bool { return e.lost }

// Error implements error. The text ends with what to do.
func (e *Error) Error() string {
	text := "the model provider refused the request"
	if e.lost {
		text = "the model provider gave no whole answer"
	}
	if e.Status != 0 {
		text += fmt.Sprintf(" with status %d", e.Status)
	}
	if e.Code != "" {
		text += " (" + e.Code + ")"
	}
	if e.Message != "" {
		text += ": " + e.Message
	}
	if e.Attempts > 1 {
		text += fmt.Sprintf(" [%d attempts]", e.Attempts)
	}
	if e.RequestID != "" {
		text += " [request " + e.RequestID + "]"
	}
	return text + e.advice()
}

// advice is what to do, for whoever runs the server.
func (e *Error) advice() string {
	switch {
	case e.Status == http.StatusUnauthorized, e.Status == http.StatusForbidden:
		return "; check MODEL_API_KEY and MODEL_HEADERS"
	case e.Status == http.StatusNotFound, e.Status >= 300 && e.Status < 400:
		return "; check MODEL_BASE_URL and MODEL_NAME"
	case e.Status == http.StatusTooManyRequests, e.Status >= http.StatusInternalServerError:
		return "; try again later"
	case e.lost:
		return "; try again later, or check MODEL_BASE_URL and MODEL_PROTOCOL"
	}
	return ""
}

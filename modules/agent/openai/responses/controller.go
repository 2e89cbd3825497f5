package responses

import (
	"encoding/json"
	"errors"
	"net/http"
	"slices"
	"strconv"
	"strings"

	"github.com/portico-run/portico/internal/actor"
	"github.com/portico-run/portico/internal/errs"
	"github.com/portico-run/portico/internal/httpapi"
	"github.com/portico-run/portico/modules/agent/openai/failure"
	"github.com/portico-run/portico/modules/agent/openai/stored"
)

const tag = "openai"

// maxBody is the largest request, in bytes.
const maxBody = 32 << 20

// Register adds the routes.
func (s *Service) Register(api *httpapi.API) {
	raw := func(op httpapi.Operation, fn func(w http.ResponseWriter, r *http.Request, who actor.Actor) error) {
		op.Tag, op.Refusal = tag, failure.Refusal
		api.Raw(op, fn)
	}
	raw(httpapi.Operation{
		ID: "create-response", Method: http.MethodPost, Path: "/v1/responses", Summary: "Ask a model, in the form of OpenAI's Responses API",
		Description: "With the tool programmatic_tool_calling the model writes programs in Python, which call the client's functions and the user's own tools. " +
			"A response whose calls wait for the client is completed; the next request has their outputs.",
		Raw: httpapi.Description{
			Body: ResponseRequest{Input: json.RawMessage(`"Total of orders 1 and 2?"`)}, Answers: []any{Response{}},
			Media: map[string]string{"text/event-stream": `{"type":"response.output_text.delta","sequence_number":4,"item_id":"msg_1","output_index":0,"content_index":0,"delta":"42","logprobs":[]}`},
		},
		BodyLimit: maxBody, Runs: true, Lasts: true,
		Errors: []errs.Code{errs.NotFound, errs.Conflict, errs.RateLimited, errs.NoCredits, errs.Unavailable, errs.TooLarge},
	}, s.create)
	raw(httpapi.Operation{
		ID: "get-response", Method: http.MethodGet, Path: "/v1/responses/{response_id}", Summary: "A stored response",
		Raw:    httpapi.Description{Input: retrieveInput{}, Answers: []any{Response{}}},
		Errors: []errs.Code{errs.NotFound},
	}, s.retrieve)
	raw(httpapi.Operation{
		ID: "delete-response", Method: http.MethodDelete, Path: "/v1/responses/{response_id}", Summary: "Delete a stored response",
		Description: "Responses that go on from it can be read still, and not gone on from.",
		Raw:         httpapi.Description{Answers: []any{ResponseDeleted{}}}, Runs: true,
		Errors: []errs.Code{errs.NotFound},
	}, s.remove)
	raw(httpapi.Operation{
		ID: "list-response-input", Method: http.MethodGet, Path: "/v1/responses/{response_id}/input_items", Summary: "The input of a stored response",
		Description: "What was new in its request, without the responses before.",
		Raw:         httpapi.Description{Input: listInput{}, Answers: []any{ResponseItems{}}},
		Errors:      []errs.Code{errs.NotFound},
	}, s.list)
}

type retrieveInput struct {
	Include string `query:"include" doc:"Ignored: everything is there"`
	Stream  string `query:"stream" enum:"false," doc:"A stored response is not shown as events"`
}

type listInput struct {
	Include string `query:"include" doc:"Ignored: everything is there"`
	After   string `query:"after" doc:"The id of the item before the first one"`
	Limit   int    `query:"limit" minimum:"1" maximum:"100" default:"20"`
	Order   string `query:"order" enum:"asc,desc" default:"desc"`
}

// ResponseDeleted says that a response was deleted.
type ResponseDeleted struct {
	ID      string `json:"id"`
	Object  string `json:"object" enum:"response"`
	Deleted bool   `json:"deleted"`
}

// ResponseItems is a page of items.
type ResponseItems struct {
	Object  string            `json:"object" enum:"list"`
	Data    []json.RawMessage `json:"data"`
	FirstID *string           `json:"first_id" nullable:"true" example:"msg_0123456789abcdef0123456789abcdef_in0"`
	LastID  *string           `json:"last_id" nullable:"true" example:"msg_0123456789abcdef0123456789abcdef_in0"`
	HasMore bool              `json:"has_more"`
}

// missing is the error for a response that is not there.
func missing(id string, err error) error {
	if errors.Is(err, stored.ErrMissing) {
		return errs.Newf(errs.NotFound, "Response with id '%.100s' not found.", id)
	}
	return err
}

func (s *Service) retrieve(w http.ResponseWriter, r *http.Request, who actor.Actor) error {
	id := r.PathValue("response_id")
	if stream := r.URL.Query().Get("stream"); stream != "" && stream != "false" {
		return failure.Unsupported("stream", "A stored response is not shown as events.").Do("Leave stream out.")
	}
	kept, err := s.deps.Stored.Get(r.Context(), who, id)
	if err != nil {
		return missing(id, err)
	}
	w.Header().Set("Content-Type", "application/json")
	_, _ = w.Write(kept.Answer) // a client that is gone
	return nil
}

func (s *Service) remove(w http.ResponseWriter, r *http.Request, who actor.Actor) error {
	id := r.PathValue("response_id")
	if err := s.deps.Stored.Delete(r.Context(), who, id); err != nil {
		return missing(id, err)
	}
	return write(w, ResponseDeleted{ID: id, Object: "response", Deleted: true})
}

func write(w http.ResponseWriter, body any) error {
	w.Header().Set("Content-Type", "application/json")
	_ = json.NewEncoder(w).Encode(body) // a client that is gone
	return nil
}

func (s *Service) list(w http.ResponseWriter, r *http.Request, who actor.Actor) error {
	id, query := r.PathValue("response_id"), r.URL.Query()
	limit := 20
	if text := query.Get("limit"); text != "" {
		n, err := strconv.Atoi(text)
		if err != nil || n < 1 || n > 100 {
			return failure.Invalid("limit", "limit must be from 1 to 100.")
		}
		limit = n
	}
	order := query.Get("order")
	if order != "" && order != "asc" && order != "desc" {
		return failure.Invalid("order", "order is asc or desc.")
	}
	kept, err := s.deps.Stored.Get(r.Context(), who, id)
	if err != nil {
		return missing(id, err)
	}
	items := kept.Input
	if order != "asc" {
		slices.Reverse(items)
	}
	return write(w, page(items, query.Get("after"), limit))
}

// page are the items after one.
func page(items []json.RawMessage, after string, limit int) ResponseItems {
	ids := make([]string, len(items))
	for i, raw := range items {
		var head struct {
			ID string `json:"id"`
		}
		_ = json.Unmarshal(raw, &head) // it was written here
		ids[i] = head.ID
	}
	from := 0
	if after != "" {
		from = slices.Index(ids, after) + 1
		if from == 0 {
			from = len(items)
		}
	}
	until := min(from+limit, len(items))
	out := ResponseItems{Object: "list", Data: append([]json.RawMessage{}, items[from:until]...), HasMore: until < len(items)}
	if until > from {
		out.FirstID, out.LastID = &ids[from], &ids[until-1]
	}
	return out
}

// responseOf is the stored response that has an item of an id.
func responseOf(itemID string) (id string, ok bool) {
	parts := strings.Split(itemID, "_")
	if len(parts) != 3 || len(parts[1]) != 32 {
		return "", false
	}
	return "resp_" + parts[1], true
}

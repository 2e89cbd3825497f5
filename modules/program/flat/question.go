package flat

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"time"

	"github.com/portico-run/portico/internal/actor"
	"github.com/portico-run/portico/internal/database"
	"github.com/portico-run/portico/internal/errs"
	"github.com/portico-run/portico/modules/billing"
	"github.com/portico-run/portico/modules/billing/price"
	"github.com/portico-run/portico/modules/model"
	"github.com/portico-run/portico/modules/run/record"
	"github.com/portico-run/portico/modules/tool"
	"github.com/portico-run/portico/modules/tool/function"
)

// Query is the function that asks a model, QueryBatch the one that asks it
// several questions.
const (
	Query      = "llm_query"
	QueryBatch = "llm_query_batch"
)

// Codes of questions that were not answered.
const (
	// CodeQueryLimit says that a program has asked as often as it may.
	CodeQueryLimit = "LLM_QUERY_LIMIT"
	// CodeQueryCut says that an answer was longer than it may be. What there is of
	// it is beside the message.
	CodeQueryCut = "LLM_QUERY_CUT"
	// CodeQueryFailed says that the model gave no answer.
	CodeQueryFailed = "LLM_QUERY_FAILED"
)

// Model answers questions.
type Model interface {
	Respond(ctx context.Context, req model.Request, on func(model.Delta)) (model.Response, error)
}

// Biller charges the answers of models.
type Biller interface {
	AdmitModel(ctx context.Context, uid, resultID string, version int) error
	ChargeModel(ctx context.Context, tx database.Tx, c billing.ModelCharge) error
}

// Records know the calls by which questions come.
type Records interface {
	Call(ctx context.Context, a actor.Actor, callID string) (record.Call, error)
	Nth(ctx context.Context, a actor.Actor, callID string) (int64, error)
}

// Questions is what asking a model needs.
type Questions struct {
	Model   Model
	DB      *database.DB
	Billing Biller
	Records Records
	Logger  *slog.Logger
	Price   price.Tokens
	// MaxPerProgram is how often one program may ask; 0 is no bound. Timeout
	// bounds one answer.
	MaxPerProgram int
	Timeout       time.Duration
}

// Function is llm_query.
func (q Questions) Function() function.Function {
	return function.Function{
		Name:        Query,
		Description: "Ask a language model. It sees the prompt alone and answers with text. " + QueryBatch + "(prompts) asks several questions and returns the answers in their order.",
		Input: json.RawMessage(`{"type":"object","required":["prompt"],"properties":{"prompt":{"type":"string","minLength":1,` +
			`"description":"The whole question, with everything that the model needs to know"}},"additionalProperties":false}`),
		ReadOnly: true, SandboxCallable: true, Run: q.ask,
	}
}

func (q Questions) ask(ctx context.Context, c function.Caller, arguments json.RawMessage) (json.RawMessage, error) {
	var in struct{ Prompt string }
	if err := json.Unmarshal(arguments, &in); err != nil {
		return nil, err
	}
	if err := q.within(ctx, c); err != nil {
		return nil, err
	}
	call, err := q.Records.Call(ctx, c.Actor, c.CallID)
	if err != nil {
		return nil, err
	}
	paid := billing.ModelCharge{UID: c.Actor.UID, Version: call.Version}
	if call.InRun() {
		paid.ResultID = call.ResultID
	}
	if !q.Price.Free() {
		if err := q.Billing.AdmitModel(ctx, paid.UID, paid.ResultID, paid.Version); err != nil {
			return nil, err
		}
	}
	asking, cancel := context.WithTimeout(ctx, q.Timeout)
	defer cancel()
	r, err := q.Model.Respond(asking, model.Request{Input: []model.Item{model.User(in.Prompt)}}, func(model.Delta) {})
	if err != nil && r.Ended != model.Refused { // a refusal is an answer that costs
		return nil, q.unanswered(ctx, asking, err)
	}
	used := price.Used{Input: r.Usage.Input, Cached: r.Usage.InputDetails.Cached, Written: r.Usage.InputDetails.Written, Output: r.Usage.Output}
	paid.Model, paid.Input, paid.Cached, paid.Written, paid.Output = r.Model, used.Input, used.Cached, used.Written, used.Output
	paid.Price = q.Price.Of(used)
	// The provider was paid: so is it here, also when the caller is gone.
	if err := q.charge(context.WithoutCancel(ctx), paid); err != nil {
		return nil, err
	}
	if err != nil {
		return nil, q.unanswered(ctx, asking, err)
	}
	return read(r)
}

// within refuses a program that has asked as often as it may.
func (q Questions) within(ctx context.Context, c function.Caller) error {
	if q.MaxPerProgram == 0 || c.ProgramID == "" {
		return nil
	}
	n, err := q.Records.Nth(ctx, c.Actor, c.CallID)
	if err == nil && n > int64(q.MaxPerProgram) {
		err = &tool.Failure{Code: CodeQueryLimit, Message: fmt.Sprintf("This program has asked the model %d times, as often as one may (LLM_QUERY_MAX_PER_PROGRAM).", q.MaxPerProgram)}
	}
	return err
}

// unanswered is why there is no answer, for the program. What the provider said
// of keys and addresses is for the operator.
func (q Questions) unanswered(ctx, asking context.Context, err error) error {
	if ctx.Err() != nil {
		return ctx.Err()
	}
	if asking.Err() != nil {
		return &tool.Failure{Code: tool.CodeTimeout, Message: fmt.Sprintf("The model did not answer within %s (LLM_QUERY_TIMEOUT).", q.Timeout)}
	}
	refused, ok := errors.AsType[*model.Error](err)
	if !ok {
		return err
	}
	q.Logger.ErrorContext(ctx, "a model did not answer a program", "error", refused)
	return &tool.Failure{Code: CodeQueryFailed, Message: fmt.Sprintf("The model gave no answer: %s", said(refused))}
}

func said(e *model.Error) string {
	if e.Message == "" {
		return "its provider says " + fmt.Sprint(e.Status)
	}
	return e.Message
}

// charge pays for an answer in a transaction of its own: the call itself is free.
func (q Questions) charge(ctx context.Context, c billing.ModelCharge) error {
	if c.Price <= 0 {
		return nil
	}
	return q.DB.InTx(ctx, func(tx database.Tx) error { return q.Billing.ChargeModel(ctx, tx, c) })
}

// read takes the text out of an answer. One that was cut is a failure, so that
// nobody takes it for the whole.
func read(r model.Response) (json.RawMessage, error) {
	text, _ := r.Read()
	data, err := json.Marshal(text)
	if err != nil {
		return nil, err
	}
	if r.Incomplete != nil {
		return nil, &tool.Failure{
			Code: CodeQueryCut, Data: data,
			Message: fmt.Sprintf("The answer was cut (%s); LLM_QUERY_MAX_TOKENS bounds it. Ask for less.", r.Incomplete.Reason),
		}
	}
	if strings.TrimSpace(text) == "" {
		return nil, &tool.Failure{Code: CodeQueryFailed, Message: "The model answered without a word. Ask in other words."}
	}
	return data, nil
}

// ErrNoModel is the answer where no model is configured.
var ErrNoModel = errs.New(errs.Forbidden, "No model answers questions of programs on this server.").
	Do("The administrator names one with LLM_QUERY_MODEL.")

package tool

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"regexp"
	"strconv"
	"unicode/utf8"

	"github.com/portico-run/portico/internal/errs"
	"github.com/portico-run/portico/modules/run/record"
	"github.com/portico-run/portico/modules/tool/approval"
)

// Context is what a call claims about where it was made. The claims are
// checked against the caller.
type Context struct {
	ParentID string
	ResultID string
	Version  *int
	CanvasID string
	// Line is the line of the program that makes the call; 0 where it is not known.
	Line int
	// model is set where a model of this server makes the call; no request can
	// claim it.
	model *record.Shown
	// approval is what the request wants that began a model's run.
	approval approval.Level
	// leave is why a model's run ends here and goes on in another process.
	leave error
}

// Request is one call as it was asked for.
type Request struct {
	Toolset        string
	Tool           string
	Arguments      json.RawMessage
	Context        Context
	IdempotencyKey string
}

// Codes of failed answers that the service itself gives.
const (
	CodeToolsetNotFound  = "TOOLSET_NOT_FOUND"
	CodeMethodNotFound   = "METHOD_NOT_FOUND"
	CodeNotAuthorized    = "NOT_AUTHORIZED"
	CodeNotAllowed       = "TOOLSET_NOT_ALLOWED"
	CodeCallerNotAllowed = "CALLER_NOT_ALLOWED"
	CodeInvalidArguments = "INVALID_ARGUMENTS"
	CodeSpendingLimit    = "SPENDING_LIMIT"
	CodeUnsupportedType  = "TOOLSET_TYPE_UNSUPPORTED"
	CodeTimeout          = "TIMEOUT"
	CodeInternal         = "INTERNAL"
	CodeNotExecuted      = record.CodeNotExecuted

	codeFileNotKept = "FILE_NOT_KEPT"
)

var (
	nameForm = regexp.MustCompile(`^[\w .:/@()-]{1,128}$`)
	idForm   = regexp.MustCompile(`^[A-Za-z0-9:_.-]{1,128}$`)
	keyForm  = regexp.MustCompile(`^[\x21-\x7e]{1,255}$`)
)

// validate refuses requests that name nothing or cannot be recorded.
func (r Request) validate() error {
	fields := []struct {
		name, value string
		form        *regexp.Regexp
		required    bool
	}{
		{"toolsetKey", r.Toolset, nameForm, true},
		{"toolName", r.Tool, nameForm, true},
		{"x-ptc-call-id", r.Context.ParentID, idForm, false},
		{"x-refly-result-id", r.Context.ResultID, idForm, false},
		{"x-refly-canvas-id", r.Context.CanvasID, idForm, false},
		{"Idempotency-Key", r.IdempotencyKey, keyForm, false},
	}
	for _, f := range fields {
		if f.value == "" && f.required {
			return errs.Newf(errs.Invalid, "%s is missing.", f.name).Do("Send toolsetKey and toolName; /v1/tool/toolset/exportDefinitions lists them.")
		}
		if f.value != "" && !f.form.MatchString(f.value) {
			return errs.Newf(errs.Invalid, "%s is too long or has characters that are not allowed.", f.name)
		}
	}
	return nil
}

// reading is what of a request is read once, for all that follows.
type reading struct {
	arguments map[string]any
	once      record.Once
}

// decode checks the request and reads its arguments; none and null are the empty
// object.
func (r Request) decode() (reading, error) {
	if err := r.validate(); err != nil {
		return reading{}, err
	}
	arguments := map[string]any{}
	if r.empty() {
		return reading{arguments, r.once()}, nil
	}
	d := json.NewDecoder(bytes.NewReader(r.Arguments))
	d.UseNumber() // an id of 19 digits must arrive as it was sent
	err := d.Decode(&arguments)
	if err == nil && !utf8.Valid(r.Arguments) {
		err = errors.New("not UTF-8")
	}
	if err == nil {
		if _, end := d.Token(); !errors.Is(end, io.EOF) {
			err = errors.New("more than one value")
		}
	}
	if err != nil {
		return reading{}, errs.New(errs.Invalid, "arguments is not a JSON object.").
			Do(`Send the tool's parameters as an object, such as {"city":"Oslo"}.`).With(err)
	}
	return reading{arguments, r.once()}, nil
}

func (r Request) empty() bool { return len(r.Arguments) == 0 || string(r.Arguments) == "null" }

// input is the arguments as the record holds them.
func (r Request) input() (json.RawMessage, error) {
	if r.empty() {
		return record.WrapInput(struct{}{})
	}
	return record.WrapInput(r.Arguments)
}

// once tells requests under one idempotency key apart.
func (r Request) once() record.Once {
	if r.IdempotencyKey == "" {
		return record.Once{}
	}
	h := sha256.New()
	version := ""
	if v := r.Context.Version; v != nil {
		version = strconv.Itoa(*v)
	}
	for _, part := range []string{
		r.Toolset, r.Tool, string(r.Arguments), r.Context.ParentID, r.Context.ResultID, version, r.Context.CanvasID,
	} {
		_, _ = fmt.Fprintf(h, "%d:%s", len(part), part) // a hash takes everything
	}
	return record.Once{Key: r.IdempotencyKey, Hash: hex.EncodeToString(h.Sum(nil))}
}

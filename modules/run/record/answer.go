package record

import (
	"encoding/json"
	"fmt"
)

// AnswerStatus says whether a tool did its work.
type AnswerStatus string

// The values of AnswerStatus.
const (
	Success AnswerStatus = "success"
	Error   AnswerStatus = "error"
)

// Answer is the outcome of a call as the caller sees it, and as it is
// recorded: the two never differ.
type Answer struct {
	Status    AnswerStatus    `json:"status" enum:"success,error"`
	Data      json.RawMessage `json:"data,omitempty" doc:"What the tool returned"`
	Error     string          `json:"error,omitempty" doc:"Why the tool failed"`
	ErrorCode string          `json:"errorCode,omitempty" doc:"Stable name of the failure"`
	Files     []any           `json:"files,omitempty" nullable:"false" doc:"The files in data: of the canvas, or temporary ones"`
	Truncated *Truncated      `json:"truncated,omitempty" doc:"Set when data was shortened to the output cap"`
	// Printed is what a program gives back, in bytes; nil for calls of tools, which
	// give back all of Data. It is counted, and is not part of the answer.
	Printed *int64 `json:"-"`
}

// Truncated says how large a shortened output was and where all of it is.
type Truncated struct {
	Bytes int    `json:"bytes" doc:"Size of the whole output"`
	Ref   string `json:"ref" doc:"Path of the route that returns the whole output"`
}

// Refuse is the answer of a tool that failed.
func Refuse(code, message string) Answer {
	return Answer{Status: Error, Error: message, ErrorCode: code}
}

// Answer reads the outcome of a call that has ended.
func (c Call) Answer() (a Answer, err error) {
	if err := json.Unmarshal(c.Output, &a); err != nil {
		return Answer{}, fmt.Errorf("recorded answer of %s: %w", c.CallID, err)
	}
	return a, nil
}

// ended is the record with its outcome.
func (c Call) ended(a Answer) (Call, error) {
	output, err := json.Marshal(a)
	if err != nil {
		return c, fmt.Errorf("encode the answer of %s: %w", c.CallID, err)
	}
	size, err := a.size(len(output))
	if err != nil {
		return c, err
	}
	c.Status, c.Error, c.Output, c.Bytes = Completed, "", output, &size
	if a.Status != Success {
		c.Status, c.Error = Failed, a.Error
	}
	return c, nil
}

// size is how many bytes the whole data has, in the form in which it is recorded:
// recorded is the size of the answer with it. Of a program it is what it printed.
func (a Answer) size(recorded int) (int64, error) {
	switch {
	case a.Printed != nil:
		return *a.Printed, nil
	case a.Truncated != nil:
		return int64(a.Truncated.Bytes), nil
	case len(a.Data) == 0:
		return 0, nil
	}
	a.Data = nil
	rest, err := json.Marshal(a)
	return int64(recorded - len(rest) - len(`"data":,`)), err
}

// Codes of the answers of calls that nobody finished.
const (
	CodeInterrupted    = "INTERRUPTED"
	CodeNotFinished    = "NOT_FINISHED"
	CodeNotExecuted    = "NOT_EXECUTED"
	interruptedMessage = "The call was interrupted: the process that ran it died. It was not billed; whether it had an effect is not known."
	abandonedMessage   = "The call waited for an approval when the process that was to make it ended. Nothing was sent, and it was not billed."
	// AskedMessage is why a call failed that was sent, and waited for the answer to a
	// question when its process died.
	AskedMessage = "The process that made the call ended while the call waited for the answer to a question. It had been sent, and may have had an effect; it was not billed."
	// NotFinished is why a program or run failed that a service beside this
	// server executed.
	NotFinished = "It was not finished in time: nobody sent POST /v1/action/finish before it expired."
)

// lost is the answer of a call whose lease ran out. asked is set where it waited for the
// answer to a question: such a call was sent.
func lost(c Call, asked bool) Answer {
	switch {
	case !c.ExpiresAt.IsZero():
		return Refuse(CodeNotFinished, NotFinished)
	case asked:
		return Refuse(CodeInterrupted, AskedMessage)
	case c.Status == Waiting:
		return Refuse(CodeNotExecuted, abandonedMessage)
	}
	return Refuse(CodeInterrupted, interruptedMessage)
}

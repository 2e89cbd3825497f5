package dialogue

import (
	"encoding/json"
	"time"

	"github.com/portico-run/portico/internal/money"
	"github.com/portico-run/portico/modules/codeapi/session"
	"github.com/portico-run/portico/modules/model"
	"github.com/portico-run/portico/modules/sandbox"
)

// Part is one element of an answer: Text, Thought, Call, Program, Output, Approval,
// OwnCall or OwnOutput.
type Part interface{ part() }

// Text are words of the model's.
type Text struct{ Text string }

// Thought is what the model thought. Its token goes back unchanged with the next
// request, where Restore makes an item of it: only its writer can read more of it.
type Thought struct {
	Text  string // what a person may read of it; may be empty
	Token string
}

// Call asks the client to execute a tool.
type Call struct {
	// ID are letters, digits, - and _. That of a direct call is the provider's.
	ID        string
	Name      string
	Arguments json.RawMessage // an object
	// Program is the id of the program that makes it; empty for the model's own.
	Program string
}

// Program is a program that the model wrote. It has been started.
type Program struct {
	ID   string // the provider's
	Code string
}

// Output is how a program ended.
type Output struct {
	Program  string
	Stdout   string
	Stderr   string
	ExitCode int
	// Failure says why it did not complete; empty where it did.
	Failure sandbox.Failure
	// Busy says that it was not taken because the user, or the server, has too much to
	// do.
	Busy bool
	// Why is that in a sentence; empty where it completed.
	Why string
	// Files are those that it left or changed, in the session.
	Files []session.File
}

// Approval is a call of a program, of a tool of the server's, that waits for a
// person.
type Approval struct {
	CallID    string // letters, digits, - and _
	Program   string
	Toolset   string
	Tool      string
	Arguments json.RawMessage
	Reason    string // why it waits
}

// OwnCall is a call of a tool that the server executes itself, OwnOutput what came
// of it.
type OwnCall struct {
	ID        string
	Name      string
	Arguments json.RawMessage
}

// OwnOutput is what came of an OwnCall.
type OwnOutput struct {
	ID     string
	Name   string
	Result OwnResult
	Failed string // why it failed; empty where it did not
}

func (Text) part()      {}
func (Thought) part()   {}
func (Call) part()      {}
func (Program) part()   {}
func (Output) part()    {}
func (Approval) part()  {}
func (OwnCall) part()   {}
func (OwnOutput) part() {}

// Answer is what a request came to.
type Answer struct {
	// Model is the name of the one that answered.
	Model string
	Parts []Part
	Stop  Stop
	// StopText is the sequence that ended the answer, where there is one.
	StopText string
	// Usage is that of the model; zero where it was not asked.
	Usage model.Usage
	// Session keeps the files of programs; empty where none was started. It is kept,
	// and what waits is waited for, until Expires.
	Session string
	Expires time.Time
	// Compacted is how many outputs of tools and programs the model was not told again,
	// since they would not fit.
	Compacted int
	// Credits are what the tokens cost.
	Credits money.Amount
}

// Stop is why an answer ends.
type Stop string

// Why answers end.
const (
	// StopEnd is that the model has said all.
	StopEnd Stop = "end"
	// StopCalls is that the client is to execute calls, or a person to decide.
	StopCalls Stop = "calls"
	// StopLength is that the answer is as long as it may be, StopContext that the
	// conversation is.
	StopLength  Stop = "length"
	StopContext Stop = "context"
	// StopSequence is that the model wrote a text that ends answers.
	StopSequence Stop = "sequence"
	// StopRefusal is that the model, or its provider, refuses.
	StopRefusal Stop = "refusal"
	// StopPause is that the request reached its bounds between two questions to the
	// model: sent again with the answer, it goes on.
	StopPause Stop = "pause"
)

// Event is a step of an answer while it comes: exactly one member is set.
type Event struct {
	// Asked is the model that is asked; the words of its answer follow.
	Asked *Asked
	// Delta is a piece of the words or thoughts that the model writes.
	Delta *Delta
	// Part is a whole part. What pieces told of is in it.
	Part Part
	// Restart says that the answer broke off and comes again: pieces since Asked do not
	// count.
	Restart bool
}

// Asked says that a model is asked.
type Asked struct{ Model string }

// Delta is a piece of a Thought or a Text, before it is there as a Part.
type Delta struct {
	Thought bool
	Text    string
}

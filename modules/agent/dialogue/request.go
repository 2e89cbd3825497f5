package dialogue

import (
	"context"
	"encoding/json"
	"time"

	"github.com/portico-run/portico/modules/codeapi/session"
	"github.com/portico-run/portico/modules/model"
	"github.com/portico-run/portico/modules/tool/approval"
)

// Request asks for the next answer in a conversation.
type Request struct {
	// Model is the name of the model; empty for that of the key, or else the first.
	Model string
	// System is what the client tells the model before anything else.
	System string
	// Items are the conversation, the oldest first; those of thoughts are made by
	// Restore.
	Items []model.Item
	// Tools are the client's.
	Tools []Tool
	// Programs lets the model write programs; nil for none.
	Programs *Programs
	// Own are tools that the server executes itself between two questions to the
	// model, without the client.
	Own     []OwnTool
	Choice  model.Choice
	Options model.Options
	// OneByOne asks for one call at a time.
	OneByOne bool
	// Continue goes on with programs that wait. Items, Tools, Own and Programs are
	// not read then: the server has kept them.
	Continue *Continue
	// Digest tells requests apart; zero for one that nobody sends again. One that was sent
	// before, as far as can be told, gets the answer of that one.
	Digest [32]byte
	Sent   Sent
}

// Sent is what a client says of a request.
type Sent string

// What clients say.
const (
	// SentFirst says that it was not sent before, SentAgain that it was, since its
	// answer was lost. A client that says nothing may repeat one shortly after it, if a
	// program was run for it.
	SentFirst Sent = "first"
	SentAgain Sent = "again"
)

// Tool is a tool that the client executes.
type Tool struct {
	Name        string
	Description string
	// Schema describes the arguments, an object; Output the result, or nil.
	Schema, Output json.RawMessage
	// Direct lets the model call it, Code lets programs call it.
	Direct, Code bool
	// Strict holds the model to the schema as far as that goes; otherwise it gets the
	// schema as it is.
	Strict bool
	// Deferred keeps it from the model until a tool of the server's own loads it.
	Deferred bool
}

// Programs is what programs of the conversation have.
type Programs struct {
	// Toolsets are the user's whose tools the server executes for programs: nil for
	// all that the user may use, and none for an empty list.
	Toolsets []string
	// Selected are the only tools of a toolset, by its key.
	Selected map[string][]string
	// Approval is when calls of the server's tools wait for a person, at least.
	Approval approval.Level
	// Asks says that the client can show calls that wait for a person: they are in
	// the answer then. Otherwise the request waits for what a person decides
	// elsewhere.
	Asks bool
	// Session keeps the files of the programs; empty for a new one.
	Session string
	// Files are given to programs besides those of the session.
	Files []session.FileRef
	// Timeout bounds one program; 0 is what is usual.
	Timeout time.Duration
	// Required makes the model write a program first.
	Required bool
	// Hidden says that the client is not shown programs: the server keeps what the
	// client cannot send back.
	Hidden bool
}

// OwnTool is a tool that the server executes itself.
type OwnTool struct {
	Name        string
	Description string
	Schema      json.RawMessage
	// Run executes one call. Its error is told to the model.
	Run func(ctx context.Context, arguments json.RawMessage) (OwnResult, error)
}

// OwnResult is what came of a call of the server's own tool.
type OwnResult struct {
	// Text is what the model is told.
	Text string
	// Loads are the names of deferred tools that the model has from now on.
	Loads []string
	// Value is for whoever shows the call.
	Value any
}

// Continue is what the client did for programs that wait.
type Continue struct {
	// Session is that of the answer, where the client must name it; Checked says that
	// it must.
	Session string
	Checked bool
	// Results are those of all calls of the answer, also of direct ones.
	Results []Result
	// Decisions are what a person said of calls that wait.
	Decisions []Decision
	// More are items that the client adds after the results, such as words of the
	// user's.
	More []model.Item
}

// Result is what came of a call.
type Result struct {
	CallID string
	// As is what the client calls it; empty for the CallID.
	As string
	// Value is what a program gets, any JSON; Text what the model is told of a direct
	// call.
	Value json.RawMessage
	Text  string
	// Parts replace Text for a direct call that returned more than text.
	Parts []model.Part
	// Failed says that the call failed, with Error.
	Failed bool
	Error  string
}

// Decision is what a person said of a call that waits.
type Decision struct {
	CallID string
	As     string // what the client calls it; empty for the CallID
	Allow  bool
	Reason string // why not
	// Elsewhere says that the person was, or will be, asked elsewhere: the answer waits
	// for that.
	Elsewhere bool
}

package mcpserver

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/portico-run/portico/internal/actor"
	"github.com/portico-run/portico/modules/program"
	"github.com/portico-run/portico/modules/run"
	"github.com/portico-run/portico/modules/run/record"
	"github.com/portico-run/portico/modules/sandbox"
)

func (u user) run(ctx context.Context, req *mcp.CallToolRequest, in runInput) (*mcp.CallToolResult, execution, error) {
	return u.begin(ctx, req, in, false)
}

func (u user) runReading(ctx context.Context, req *mcp.CallToolRequest, in runInput) (*mcp.CallToolResult, execution, error) {
	return u.begin(ctx, req, in, true)
}

// begin runs a program and waits for it. Where the client goes away before it has
// the handle, the program ends: nobody could ask for it. A call that comes again with
// what a person said begins nothing: it goes on with the program that asked.
func (u user) begin(ctx context.Context, req *mcp.CallToolRequest, in runInput, reading bool) (*mcp.CallToolResult, execution, error) {
	most := u.deps.Settings.Wait
	if in.Wait != nil {
		most = u.longest(*in.Wait)
	}
	if req.Params.RequestState != "" {
		return u.answered(ctx, req, in, most)
	}
	leave, err := u.enter(u.who.UID)
	if err != nil {
		return broken(err)
	}
	defer leave()
	keys, err := u.keys(ctx, in.Toolsets)
	if err != nil {
		return broken(err)
	}
	canvas := in.Canvas
	if canvas == newCanvas || canvas != "" && u.who.Scope == actor.MCPRead { // files are left there
		if err := u.may(everything); err != nil {
			return broken(err)
		}
	}
	if canvas == newCanvas {
		if canvas, err = u.deps.Resources.NewCanvas(ctx, u.who); err != nil {
			return broken(err)
		}
	}
	started, err := u.deps.Programs.Start(ctx, u.who, program.Request{
		Code: in.Code, Language: sandbox.Python, Toolsets: keys, Timeout: time.Duration(in.Timeout) * time.Second, CanvasID: canvas, ReadOnly: reading,
	})
	if err != nil {
		return broken(err)
	}
	st, err := u.attend(ctx, req, started.CallID, waiting{most: most})
	if (ctx.Err() != nil || errors.Is(err, errGone)) && !st.Ended {
		u.deps.Programs.Abort(run.Ref{UID: u.who.UID, ResultID: started.ResultID, Version: started.Version})
	}
	if err != nil { // it may go on all the same
		return lost(started.CallID, err)
	}
	return u.told(ctx, req, in, st, nil)
}

func (u user) resume(ctx context.Context, req *mcp.CallToolRequest, in resumeInput) (*mcp.CallToolResult, execution, error) {
	most := u.longest(in.Wait)
	if req.Params.RequestState != "" {
		return u.answered(ctx, req, in, most)
	}
	leave, err := u.enter(u.who.UID)
	if err != nil {
		return broken(err)
	}
	defer leave()
	// A client that can ask is told at once that somebody is asked. For others, the
	// wait is for what a person decides elsewhere.
	st, err := u.attend(ctx, req, strings.TrimSpace(in.Execution), waiting{most: most, patient: !u.asks(req).Any()})
	if err != nil {
		return broken(err)
	}
	return u.told(ctx, req, in, st, nil)
}

// told is the answer to a call: what a person is asked, where the client can ask, else
// how far the program is. in are the call's arguments; left is what is not asked again.
func (u user) told(ctx context.Context, req *mcp.CallToolRequest, in any, st program.State, left map[string]bool) (*mcp.CallToolResult, execution, error) {
	question, asked, err := u.ask(ctx, req, in, st, left)
	if err != nil {
		return lost(st.CallID, err)
	}
	if asked {
		return question, execution{}, nil
	}
	offset := 0
	if r, ok := in.(resumeInput); ok {
		offset = r.Offset
	}
	return result(u.tell(st, offset))
}

// longest is how long a client is kept waiting that asks for so many seconds.
func (u user) longest(seconds int) time.Duration {
	return min(time.Duration(min(max(seconds, 0), 3600))*time.Second, u.deps.Settings.Wait)
}

const (
	// settle is how long a program is watched in which nothing but a person can go on,
	// so that calls which were made together are asked about together.
	settle = 500 * time.Millisecond
	// lookAgain is how often a program is looked at of which nothing is heard; shortly
	// is the least time between two looks at one that does much.
	lookAgain, shortly = time.Second, 50 * time.Millisecond
)

// errGone says that nobody reads the answer.
var errGone = errors.New("the client has gone")

// waiting is how a program is waited for.
type waiting struct {
	most time.Duration
	// patient waits also where nothing but a person can go on with it.
	patient bool
	// told is of how many calls the client was told.
	told int
}

// wait returns a program when it has ended, when it cannot go on without a person, or
// when the time is over, and tells the client of its calls.
func (u user) wait(ctx context.Context, req *mcp.CallToolRequest, callID string, w *waiting) (program.State, error) {
	st, err := u.deps.Programs.State(ctx, u.who, callID, true)
	if err != nil || w.most <= 0 {
		return st, err
	}
	// First listen, then look: what happens in between wakes.
	woken, cancel := u.deps.Hub.Subscribe(run.Topic(st.ResultID))
	defer cancel()
	end := time.NewTimer(w.most)
	defer end.Stop()
	tick := time.NewTicker(shortly)
	defer tick.Stop()
	// asked is since when nothing but a person can go on with it, looked when it was
	// looked at last, counted when its calls were, which are more to read.
	var asked, looked, counted time.Time
	for heard := true; ; {
		if since := time.Since(looked); heard && since >= shortly || since >= lookAgain || !asked.IsZero() {
			whole := time.Since(counted) >= lookAgain || !asked.IsZero()
			now, err := u.deps.Programs.State(ctx, u.who, callID, whole)
			if err == nil && now.Ended && !whole {
				whole = true
				now, err = u.deps.Programs.State(ctx, u.who, callID, whole)
			}
			if err != nil {
				return st, err
			}
			heard, looked = false, time.Now()
			if whole {
				st, counted = now, looked
				w.told = u.progress(ctx, req, st, w.told)
				switch {
				case st.Ended:
					return st, nil
				case w.patient || !stuck(st):
					asked = time.Time{}
				case asked.IsZero():
					asked = looked
				case looked.Sub(asked) >= settle:
					return st, nil
				}
			}
		}
		select {
		case <-ctx.Done():
			return st, ctx.Err()
		case <-u.gone:
			return st, errGone
		case <-end.C:
			return u.deps.Programs.State(ctx, u.who, callID, true)
		case <-woken: // by every event of the run
			heard = true
		case <-tick.C:
		}
	}
}

// stuck reports whether every call that a program is in waits for a person.
func stuck(st program.State) bool {
	waits := false
	for _, c := range st.ToolCalls {
		switch c.Status {
		case record.Waiting:
			waits = true
		case record.Executing:
			return false
		}
	}
	return waits
}

// maxTold bounds how many calls are told one by one at a time.
const maxTold = 20

// progress tells the client of the calls that it was not told of, and returns how many
// it was told of.
func (u user) progress(ctx context.Context, req *mcp.CallToolRequest, st program.State, told int) int {
	token := req.Params.GetProgressToken()
	if token == nil {
		return 0
	}
	if more := len(st.ToolCalls) - told - maxTold; more > 0 {
		told += more
	}
	for ; told < len(st.ToolCalls); told++ {
		err := req.Session.NotifyProgress(ctx, &mcp.ProgressNotificationParams{
			ProgressToken: token, Progress: float64(told + 1), Message: fmt.Sprintf("call %d: %s", told+1, st.ToolCalls[told].ToolName),
		})
		if err != nil && !errors.Is(err, context.Canceled) {
			u.deps.Logger.DebugContext(ctx, "a client is not told of progress", "error", err)
		}
	}
	return told
}

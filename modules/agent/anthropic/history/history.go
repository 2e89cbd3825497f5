package history

import (
	"cmp"
	"context"
	"encoding/json"
	"io"
	"slices"
	"strings"

	"github.com/portico-run/portico/internal/actor"
	"github.com/portico-run/portico/internal/errs"
	"github.com/portico-run/portico/modules/agent/anthropic/files"
	"github.com/portico-run/portico/modules/agent/anthropic/wire"
	"github.com/portico-run/portico/modules/agent/dialogue"
	"github.com/portico-run/portico/modules/codeapi/session"
	"github.com/portico-run/portico/modules/model"
)

// Files are those that messages name by their ids.
type Files interface {
	File(ctx context.Context, a actor.Actor, session, id string) (session.File, error)
	Open(ctx context.Context, a actor.Actor, session, id string) (session.File, io.ReadSeekCloser, error)
}

// Waiting knows which calls wait for a client.
type Waiting interface {
	// Waits reports whether calls wait in this process. The error is a peer.Elsewhere
	// where they do in another one.
	Waits(ctx context.Context, a actor.Actor, callIDs []string) (bool, error)
}

// Reader reads messages.
type Reader struct {
	Files   Files
	Waiting Waiting
	// Output is the most of what a program printed that the model is given, in bytes;
	// 0 is all.
	Output int
}

// Conversation is what messages say.
type Conversation struct {
	Items []model.Item
	Loads []string          // names of tools that were found
	Files []session.FileRef // for programs
	// Continue goes on with programs that wait; nil where there are none.
	Continue *dialogue.Continue
}

// Read reads messages. whole says that programs which wait are taken as left: the
// conversation is looked at, and not continued.
func (r Reader) Read(ctx context.Context, a actor.Actor, messages []Message, whole bool) (Conversation, error) {
	h := history{reader: r, who: a, whole: whole, made: map[string]bool{}, programs: map[string]int{}, server: map[string]bool{}}
	err := h.read(ctx, messages)
	return h.Conversation, err
}

// history makes items of messages.
type history struct {
	Conversation

	reader  Reader
	who     actor.Actor
	whole   bool
	inlined int64 // bytes of files for the model

	covered  bool            // the items have the words and calls that follow
	made     map[string]bool // calls that the items have, by their ids
	programs map[string]int  // programs, by their blocks' ids: the place after their items
	open     []string        // those, and other calls of tools of servers, without an output
	server   map[string]bool // these others, by their blocks' ids
}

// read reads all messages.
func (h *history) read(ctx context.Context, messages []Message) error {
	all, err := turns(messages)
	if err != nil {
		return err
	}
	var uses []block
	for i, t := range all {
		last := i == len(all)-1
		switch t.role {
		case "system":
			err = h.system(t)
		case "user":
			err = h.user(ctx, t, uses, last)
			uses = nil
		default:
			if uses, err = h.assistant(t); err == nil && len(uses) > 0 && (last || all[i+1].role != "user") {
				err = unanswered(t, uses)
			}
		}
		if err != nil {
			return err
		}
	}
	if h.Continue == nil {
		h.abandon()
	}
	return nil
}

// system adds what the client tells the model in between.
func (h *history) system(t turn) error {
	for _, b := range t.blocks {
		if b.Type != "text" {
			return wire.Invalid(b.at+".type", "Input should be 'text'")
		}
		h.Items = append(h.Items, model.Developer(b.Text))
	}
	return nil
}

// assistant adds an answer and returns the calls that the client was asked for.
func (h *history) assistant(t turn) (uses []block, err error) {
	for _, b := range inOrder(t.blocks) {
		if b.first {
			h.covered = false
		}
		switch {
		case b.Type == "text":
			if !h.covered && strings.TrimSpace(b.Text) != "" {
				h.Items = append(h.Items, model.Assistant(b.Text))
			}
		case b.Type == "thinking":
			h.thought(b.Signature)
		case b.Type == "redacted_thinking":
			h.thought(b.Data)
		case b.Type == "tool_use":
			if err := h.use(b); err != nil {
				return nil, err
			}
			uses = append(uses, b)
		case strings.HasSuffix(b.Type, "_tool_use"):
			h.serverUse(b)
		case strings.HasSuffix(b.Type, "_tool_result"):
			h.serverResult(b)
		}
	}
	h.covered = false
	return uses, nil
}

// inOrder puts the tokens of thoughts before the words of the same answer: a stream has
// them after these.
func inOrder(blocks []block) []block {
	ordered := make([]block, 0, len(blocks))
	begin := 0 // of the answer
	for _, b := range blocks {
		if b.first {
			begin = len(ordered)
		}
		if b.Type == "redacted_thinking" && len(ordered) > begin {
			if ordered[begin].first {
				b.first, ordered[begin].first = true, false
			}
			ordered = slices.Insert(ordered, begin, b)
			begin++
			continue
		}
		ordered = append(ordered, b)
		if strings.HasSuffix(b.Type, "_tool_result") {
			begin = len(ordered)
		}
	}
	return ordered
}

// thought adds what the model wrote, in its own form. Those of other writers mean
// nothing to it.
func (h *history) thought(token string) {
	items, covers, ok := dialogue.Restore(token)
	if !ok {
		return
	}
	h.Items, h.covered = append(h.Items, items...), covers
	for _, raw := range items {
		for _, c := range model.Parse(raw).Calls {
			h.made[c.ID] = true
		}
	}
}

// use adds a call of the client's tools. Those of programs are no part of what the model
// reads.
func (h *history) use(b block) error {
	if b.ID == "" || b.Name == "" || !wire.IsObject(b.Input) {
		return wire.Invalid(b.at, "id, name and an input that is an object: Field required")
	}
	if source := b.program(); source != "" {
		if _, known := h.programs[source]; !known {
			return errs.Newf(errs.Invalid, "source tool `%s` not found for tool use block `%s`", source, b.ID)
		}
		return nil
	}
	h.call(b.ID, b.Name, b.Input)
	return nil
}

// call adds a call that the model made, unless the items have it.
func (h *history) call(id, name string, input json.RawMessage) {
	if !h.covered && !h.made[id] {
		h.Items = append(h.Items, model.CallItem(id, name, string(wire.Compact(input))))
	}
	h.made[id] = true
}

// serverUse adds a program, or another call that a server executed.
func (h *history) serverUse(b block) {
	id := strings.TrimPrefix(b.ID, wire.ProgramPrefix)
	var input struct {
		Code *string `json:"code"`
	}
	if b.Name == wire.CodeName && json.Unmarshal(b.Input, &input) == nil && input.Code != nil {
		if !h.made[id] {
			h.Items = append(h.Items, dialogue.ProgramCall(dialogue.Program{ID: id, Code: *input.Code}))
		}
		h.made[id], h.covered = true, false
	} else {
		h.server[b.ID] = true
		if !wire.IsObject(b.Input) {
			b.Input = []byte("{}")
		}
		h.call(id, cmp.Or(b.Name, "tool"), b.Input)
	}
	h.programs[b.ID] = len(h.Items)
	h.open = append(h.open, b.ID)
}

// serverResult adds what came of a call that a server executed.
func (h *history) serverResult(b block) {
	h.covered = false
	i := slices.Index(h.open, b.ToolUseID)
	if i < 0 {
		return // of a call that is not there
	}
	h.open = slices.Delete(h.open, i, i+1)
	id := strings.TrimPrefix(b.ToolUseID, wire.ProgramPrefix)
	names, search := found(b.Content)
	switch {
	case !h.server[b.ToolUseID]:
		h.Items = append(h.Items, dialogue.ProgramOutput(outputOf(id, b.Content), h.reader.Output))
	case search:
		h.Loads = append(h.Loads, names...)
		h.Items = append(h.Items, searched(id, b.Content, names))
	default:
		h.Items = append(h.Items, model.Output(id, string(wire.Compact(b.Content))))
	}
}

// abandon says of what has no result that there is none: a provider takes no
// conversation in which one is missing.
func (h *history) abandon() {
	for _, block := range slices.Backward(h.open) {
		id := strings.TrimPrefix(block, wire.ProgramPrefix)
		output := dialogue.ProgramOutput(dialogue.Output{Program: id, Failure: abandoned, Why: "The program was left before it ended."}, h.reader.Output)
		if h.server[block] {
			output = model.FailedOutput(id, "The call was left before it ended.")
		}
		h.Items = slices.Insert(h.Items, h.programs[block], output)
	}
	h.open = nil
}

// user adds a message of the user's: the results first, then what else is in it.
func (h *history) user(ctx context.Context, t turn, uses []block, last bool) error {
	results, rest := map[string]block{}, []block{}
	for _, b := range t.blocks {
		if b.Type != "tool_result" {
			rest = append(rest, b)
			continue
		}
		asked := slices.ContainsFunc(uses, func(u block) bool { return u.ID == b.ToolUseID })
		if _, twice := results[b.ToolUseID]; twice || !asked {
			return errs.Newf(errs.Invalid, "%s: unexpected `tool_use_id` found in `tool_result` blocks: %s. Each `tool_result` block must have a corresponding "+
				"`tool_use` block in the previous message.", b.at, b.ToolUseID)
		}
		results[b.ToolUseID] = b
	}
	if len(results) < len(uses) {
		return unanswered(t, slices.DeleteFunc(slices.Clone(uses), func(u block) bool { _, has := results[u.ID]; return has }))
	}
	if last && !h.whole {
		waits, err := h.pending(ctx, uses)
		if err != nil {
			return wire.Of(err)
		}
		if waits {
			return h.goOn(ctx, uses, results, rest)
		}
	}
	for _, u := range uses {
		if u.program() != "" {
			continue
		}
		item, err := h.result(ctx, u, results[u.ID])
		if err != nil {
			return err
		}
		h.Items = append(h.Items, item)
	}
	more, err := h.said(ctx, rest)
	h.Items = append(h.Items, more...)
	return err
}

// unanswered refuses calls without results, in the vendor's words.
func unanswered(t turn, uses []block) error {
	where := "messages"
	if len(t.blocks) > 0 {
		where, _, _ = strings.Cut(t.blocks[len(t.blocks)-1].at, ".content")
	}
	ids := make([]string, len(uses))
	for i, u := range uses {
		ids[i] = u.ID
	}
	return errs.Newf(errs.Invalid, "%s: `tool_use` ids were found without `tool_result` blocks immediately after: %s. Each `tool_use` block must have a "+
		"corresponding `tool_result` block in the next message.", where, strings.Join(ids, ", "))
}

// said is what the user says beside results.
func (h *history) said(ctx context.Context, blocks []block) ([]model.Item, error) {
	var rest []block
	for _, b := range blocks {
		if b.Type != "container_upload" {
			rest = append(rest, b)
			continue
		}
		if err := h.upload(ctx, b); err != nil {
			return nil, err
		}
	}
	parts, err := h.parts(ctx, rest)
	if err != nil || len(parts) == 0 {
		return nil, err
	}
	if text, ok := simple(parts); ok {
		return []model.Item{model.User(text)}, nil
	}
	return []model.Item{model.UserParts(parts)}, nil
}

// upload gives programs a file.
func (h *history) upload(ctx context.Context, b block) error {
	of, id, ok := files.ParseID(b.FileID)
	if !ok {
		return missing(b.at+".file_id", b.FileID)
	}
	f, err := h.reader.Files.File(ctx, h.who, of, id)
	if errs.CodeOf(err) == errs.NotFound {
		return missing(b.at+".file_id", b.FileID)
	}
	if err != nil {
		return err
	}
	h.Files = append(h.Files, session.FileRef{ID: f.ID, SessionID: of, Name: f.Name})
	return nil
}

package dialogue

import (
	"encoding/json"
	"fmt"
	"slices"

	"github.com/portico-run/portico/internal/errs"
	"github.com/portico-run/portico/modules/codeapi/execution"
	"github.com/portico-run/portico/modules/sandbox/stub"
)

// readerName is what the function is called with which programs read what was left
// out, unless another function has the name.
const readerName = "earlier_output"

// mostRead is how many characters a program reads at once.
const mostRead = 200_000

const readerSchema = `{"type":"object","properties":{"handle":{"type":"string"},"start":{"type":"integer","minimum":0}},"required":["handle"]}`

// readingTool is the function, as programs know it.
func (d described) readingTool() stub.Tool {
	return stub.Tool{Name: d.reader, Description: "An output of this conversation that was left out to make room, as a text.", Schema: json.RawMessage(readerSchema), Returns: "str"}
}

// own answers those calls of a pause that are the server's. It returns the client's.
func (w *work) own(p *running, calls []execution.AskedCall) (theirs []execution.AskedCall) {
	p.own = nil
	for _, c := range calls {
		if !p.reads || c.Name != w.programs.reader {
			theirs = append(theirs, c)
			continue
		}
		p.own = append(p.own, w.read(c))
	}
	return theirs
}

// read answers a program that reads an output of its conversation.
func (w *work) read(c execution.AskedCall) execution.ToolResult {
	failed := func(format string, args ...any) execution.ToolResult {
		return execution.ToolResult{CallID: c.ID, Failed: true, Error: fmt.Sprintf(format, args...)}
	}
	var in struct {
		Handle string `json:"handle"`
		Start  int    `json:"start"`
	}
	if json.Unmarshal(c.Input, &in) != nil || in.Start < 0 {
		return failed("handle must be a text, and start a number of characters.")
	}
	for _, raw := range w.items {
		o, ok := readOutput(raw)
		if !ok || o.call != in.Handle {
			continue
		}
		text, _ := json.Marshal(part(o.text, in.Start)) // texts always marshal
		return execution.ToolResult{CallID: c.ID, Result: text}
	}
	return failed("There is no output %.100q in this conversation.", in.Handle)
}

// part is what a program reads at once of a text.
func part(text string, start int) string {
	runes := []rune(text)
	start = min(start, len(runes))
	return string(runes[start:min(start+mostRead, len(runes))])
}

// goOn gives a program what its calls returned. Where it would hold too much with what
// it read itself, that fails in its stead: the client's results are taken.
func (w *work) goOn(p *running, results []execution.ToolResult) {
	token, own := p.token, p.own
	w.under(p, func() (execution.Reply, error) {
		executions := w.service.deps.Programs.Executions
		reply, err := executions.Continue(w.ctx, w.who, token, append(slices.Clip(results), own...), "")
		if len(own) == 0 || errs.CodeOf(err) != errs.TooLarge {
			return reply, err
		}
		for _, r := range own {
			results = append(results, execution.ToolResult{CallID: r.CallID, Failed: true, Error: "The program has read too much. Run another one for the rest."})
		}
		return executions.Continue(w.ctx, w.who, token, results, "")
	})
}

package watch

import (
	"bytes"
	"encoding/json"
	"net/url"

	"github.com/portico-run/portico/modules/console/pages"
)

type callView struct {
	Call         call
	Arguments    string
	CutArguments bool // they are not whole here
	Result       string
	Cut          bool // the result is not whole here
	Curl         string
	Python       string
}

// maxShown is how much of arguments or of a result a page shows.
const maxShown = 64 << 10

func (p *Pages) call(v *pages.Visit) (pages.Answer, error) {
	view, err := viewOf(v)
	if err != nil {
		return pages.Answer{}, err
	}
	return pages.Answer{Title: view.Call.ToolsetID + " · " + view.Call.ToolName, Template: "call", Data: view}, nil
}

// card gives the page of a run what it shows of a call that is opened.
func (p *Pages) card(v *pages.Visit) (pages.Answer, error) {
	view, err := viewOf(v)
	if err != nil {
		return pages.Answer{}, err
	}
	v.W.Header().Set("Content-Type", "application/json")
	return pages.Answer{}, json.NewEncoder(v.W).Encode(map[string]any{
		"arguments": view.Arguments, "cutArguments": view.CutArguments, "result": view.Result, "cut": view.Cut, "error": view.Call.Error, "curl": view.Curl, "python": view.Python,
	})
}

func viewOf(v *pages.Visit) (callView, error) {
	var answer struct{ Result call }
	if err := read(v, "/v1/tool/call/result", url.Values{"toolCallId": {v.R.PathValue("id")}}, &answer); err != nil {
		return callView{}, err
	}
	c := answer.Result
	var wrapped struct{ Input json.RawMessage }
	arguments := c.Input
	if json.Unmarshal(arguments, &wrapped) == nil && len(wrapped.Input) > 0 {
		arguments = wrapped.Input
	}
	view := callView{Call: c, Curl: curl(c, arguments), Python: python(c, arguments)}
	view.Arguments, view.CutArguments = shown(arguments)
	view.Result, view.Cut = shown(c.Output)
	var whole struct{ Truncated json.RawMessage }
	if json.Unmarshal(c.Output, &whole) == nil && len(whole.Truncated) > 0 {
		view.Cut = true
	}
	return view, nil
}

// shown is a JSON text with line breaks; numbers stay as they are. cut says that
// there is more.
func shown(text json.RawMessage) (lines string, cut bool) {
	var b bytes.Buffer
	if json.Indent(&b, readable(text), "", "  ") != nil {
		b.Reset()
		b.Write(text)
	}
	if b.Len() > maxShown {
		return string(bytes.ToValidUTF8(b.Bytes()[:maxShown], nil)), true
	}
	return b.String(), false
}

// readable writes <, > and & of a JSON text as they are. It was written for pages
// that take them for markup, which these do not.
func readable(text []byte) []byte {
	out := make([]byte, 0, len(text))
	for i := 0; i < len(text); i++ {
		if text[i] != '\\' || i+1 == len(text) {
			out = append(out, text[i])
			continue
		}
		if i+6 <= len(text) {
			if c := unescaped(string(text[i : i+6])); c != 0 {
				out = append(out, c)
				i += 5
				continue
			}
		}
		out = append(out, text[i], text[i+1])
		i++
	}
	return out
}

func unescaped(escape string) byte {
	switch escape {
	case `\u003c`:
		return '<'
	case `\u003e`:
		return '>'
	case `\u0026`:
		return '&'
	}
	return 0
}

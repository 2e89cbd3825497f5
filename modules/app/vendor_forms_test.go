// Slow under the race detector: make test runs it without.
//go:build !race

package app_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"regexp"
	"strings"
)

type object = map[string]any

// tenantTalk is one conversation of a tenant: a program waits for a function of the
// client's, then for a person, and ends.
type tenantTalk struct {
	*tenant

	n       int
	form    vendorForm
	streams bool // the last answer
}

// vendorForm is a conversation in the form of a vendor. Paths and bodies of the attempts
// hold IDENTIFIER where the other's id goes.
type vendorForm interface {
	// start asks, and answer tells the program what the client's function returned.
	start(o *tenantTalk) error
	answer(o *tenantTalk) error
	// finish allows the call that waits.
	finish(o *tenantTalk) error
	// foreign are the attempts with the ids of the other, before and after the answer.
	foreign(o *tenantTalk, other vendorForm, answered bool) []attempt
}

func (o *tenantTalk) begins(*tenantTalk) error { return o.of(o.form.start(o)) }

func (o *tenantTalk) answers(*tenantTalk) error { return o.of(o.form.answer(o)) }

func (o *tenantTalk) ends(*tenantTalk) error { return o.of(o.form.finish(o)) }

func (o *tenantTalk) triesCalls(other *tenantTalk) error {
	return o.of(o.tries(other.tenant, o.form.foreign(o, other.form, false)))
}

func (o *tenantTalk) triesApproval(other *tenantTalk) error {
	return o.of(o.tries(other.tenant, o.form.foreign(o, other.form, true)))
}

func (o *tenantTalk) of(err error) error {
	if err == nil {
		return nil
	}
	return fmt.Errorf("conversation %d of %s, %T: %w", o.n, o.name, o.form, err)
}

func (o *tenantTalk) says(kind string) string {
	return fmt.Sprintf("Number %d: %s %s;", o.n, o.name, kind)
}

func (o *tenantTalk) result() string { return tenantSecret + o.name + "-client" }

// last sends the last request of a conversation, which may stream, and finds what the
// program printed and what the model said.
func (o *tenantTalk) last(path string, body object, prints bool) (answer string, err error) {
	body["stream"] = o.streams
	text, err := json.Marshal(body)
	if err != nil {
		return "", err
	}
	status, answer, err := o.request("POST", path, string(text))
	wanted := strings.Contains(answer, "Done ") && strings.Contains(answer, o.name+`."`) && (!prints || strings.Contains(answer, tenantSecret+o.name+"-gate"))
	if err != nil || status != http.StatusOK || !wanted {
		return "", fmt.Errorf("the end: %d %w: %s", status, errors.Join(err, errUnwanted), answer)
	}
	o.keeps(&o.texts, answer)
	return answer, nil
}

func (o *tenantTalk) parameters() object {
	return object{"type": "object", "properties": object{"id": object{"type": "integer"}}, "required": []string{"id"}, "additionalProperties": false}
}

// response is what the test reads of one.
type response struct {
	ID     string
	Output []object
}

func (r response) find(kind string) object {
	for _, item := range r.Output {
		if item["type"] == kind {
			return item
		}
	}
	return object{}
}

func idOf(of object, member string) string {
	text, _ := of[member].(string)
	return text
}

func (o *tenantTalk) responsesTools() []any {
	return []any{object{"type": "programmatic_tool_calling"}, object{"type": "function", "name": o.name + "_order", "parameters": o.parameters(), "strict": true, "allowed_callers": []string{"programmatic"}}}
}

func outputFor(call object, output string) object {
	return object{"type": "function_call_output", "call_id": call["call_id"], "caller": call["caller"], "output": output}
}

func approves(id any) object {
	return object{"type": "mcp_approval_response", "approval_request_id": id, "approve": true}
}

var responseID = regexp.MustCompile(`resp_[A-Za-z0-9]+`)

// storedForm is Responses that the server stores.
type storedForm struct{ first, second response }

func (f *storedForm) body(o *tenantTalk, previous string, input ...any) object {
	b := object{"model": "scripted", "tools": o.responsesTools(), "input": input}
	if previous != "" {
		b["previous_response_id"] = previous
	}
	return b
}

func (f *storedForm) start(o *tenantTalk) error {
	err := o.asks("POST", "/v1/responses", f.body(o, "", object{"role": "user", "content": o.says("asks")}), &f.first)
	o.keeps(&o.kept, f.first.ID)
	return err
}

func (f *storedForm) answer(o *tenantTalk) error {
	err := o.asks("POST", "/v1/responses", f.body(o, f.first.ID, outputFor(f.first.find("function_call"), o.result())), &f.second)
	o.keeps(&o.kept, f.second.ID)
	return err
}

func (f *storedForm) finish(o *tenantTalk) error {
	answer, err := o.last("/v1/responses", f.body(o, f.second.ID, approves(f.second.find("mcp_approval_request")["id"])), true)
	o.keeps(&o.kept, responseID.FindString(answer))
	return err
}

func (f *storedForm) foreign(o *tenantTalk, of vendorForm, answered bool) []attempt {
	other := of.(*storedForm)
	user := object{"role": "user", "content": o.says("plain")}
	if answered {
		id := idOf(other.second.find("mcp_approval_request"), "id")
		return []attempt{
			{"approval", "POST", "/v1/responses", f.body(o, f.second.ID, approves("IDENTIFIER")), id},
			{"approval, alone", "POST", "/v1/responses", f.body(o, "", user, approves("IDENTIFIER")), id},
		}
	}
	call := f.first.find("function_call")
	foreign := object{"call_id": "IDENTIFIER", "caller": call["caller"]}
	return []attempt{
		{"previous response", "POST", "/v1/responses", f.body(o, "IDENTIFIER", outputFor(call, o.result())), other.first.ID},
		{"previous response, new words", "POST", "/v1/responses", f.body(o, "IDENTIFIER", user), other.first.ID},
		{"call", "POST", "/v1/responses", f.body(o, f.first.ID, outputFor(foreign, o.result())), idOf(other.first.find("function_call"), "call_id")},
		{"reference", "POST", "/v1/responses", f.body(o, "", object{"type": "item_reference", "id": "IDENTIFIER"}, user), idOf(other.first.find("program"), "id")},
		{"shown", "GET", "/v1/responses/IDENTIFIER", nil, other.first.ID},
		{"its input", "GET", "/v1/responses/IDENTIFIER/input_items", nil, other.first.ID},
		{"deleted", "DELETE", "/v1/responses/IDENTIFIER", nil, other.first.ID},
	}
}

// historyForm is Responses whose conversation the client keeps.
type historyForm struct {
	items         []any
	first, second response
}

func (f *historyForm) body(o *tenantTalk, input ...any) object {
	return object{"model": "scripted", "store": false, "include": []string{"reasoning.encrypted_content"}, "tools": o.responsesTools(), "input": input}
}

func (f *historyForm) add(r response) {
	for _, item := range r.Output {
		f.items = append(f.items, item)
	}
}

func (f *historyForm) start(o *tenantTalk) error {
	f.items = []any{object{"role": "user", "content": o.says("asks")}}
	err := o.asks("POST", "/v1/responses", f.body(o, f.items...), &f.first)
	f.add(f.first)
	return err
}

func (f *historyForm) answer(o *tenantTalk) error {
	f.items = append(f.items, outputFor(f.first.find("function_call"), o.result()))
	err := o.asks("POST", "/v1/responses", f.body(o, f.items...), &f.second)
	f.add(f.second)
	return err
}

func (f *historyForm) finish(o *tenantTalk) error {
	_, err := o.last("/v1/responses", f.body(o, append(f.items, approves(f.second.find("mcp_approval_request")["id"]))...), true)
	return err
}

func (f *historyForm) foreign(o *tenantTalk, of vendorForm, answered bool) []attempt {
	other := of.(*historyForm)
	user := object{"role": "user", "content": o.says("plain")}
	if answered {
		return []attempt{{"approval", "POST", "/v1/responses", f.body(o, user, approves("IDENTIFIER")), idOf(other.second.find("mcp_approval_request"), "id")}}
	}
	program, call := other.first.find("program"), other.first.find("function_call")
	with := func(item object, member string) object {
		changed := maps.Clone(item)
		changed[member] = "IDENTIFIER"
		return changed
	}
	own := f.first.find("function_call")
	return []attempt{
		{"fingerprint", "POST", "/v1/responses", f.body(o, user, with(program, "fingerprint"), call, outputFor(call, o.result())), idOf(program, "fingerprint")},
		{"fingerprint of another program", "POST", "/v1/responses", f.body(o, user, with(f.first.find("program"), "fingerprint"), own, outputFor(own, o.result())), idOf(program, "fingerprint")},
		{"call", "POST", "/v1/responses", f.body(o, user, f.first.find("program"), with(own, "call_id"), outputFor(with(own, "call_id"), o.result())), idOf(call, "call_id")},
	}
}

// chatForm is Chat Completions, where a program is behind run_code. Its calls that wait
// for a person are not shown, so it has none.
type chatForm struct {
	messages []any
	id       string
}

func (f *chatForm) body(o *tenantTalk, messages ...any) object {
	function := func(name string) object {
		return object{"type": "function", "function": object{"name": name, "parameters": o.parameters()}}
	}
	return object{"model": "scripted", "tools": []any{function("run_code"), function(o.name + "_order")}, "messages": messages}
}

func (f *chatForm) start(o *tenantTalk) error {
	f.messages = []any{object{"role": "user", "content": o.says("plain")}}
	var got struct {
		Choices []struct {
			Message struct {
				Calls []struct{ ID string } `json:"tool_calls"`
			}
		}
	}
	var whole struct{ Choices []struct{ Message object } }
	if err := o.asks("POST", "/v1/chat/completions", f.body(o, f.messages...), &whole); err != nil {
		return err
	}
	raw, err := json.Marshal(whole)
	if err := errors.Join(err, json.Unmarshal(raw, &got)); err != nil {
		return err
	}
	if len(got.Choices) != 1 || len(got.Choices[0].Message.Calls) != 1 {
		return fmt.Errorf("%w: %s", errUnwanted, raw)
	}
	f.id = got.Choices[0].Message.Calls[0].ID
	f.messages = append(f.messages, whole.Choices[0].Message)
	return nil
}

func (f *chatForm) answer(*tenantTalk) error { return nil }

func (f *chatForm) finish(o *tenantTalk) error {
	_, err := o.last("/v1/chat/completions", f.body(o, append(f.messages, object{"role": "tool", "tool_call_id": f.id, "content": o.result()})...), false)
	return err
}

func (f *chatForm) foreign(o *tenantTalk, of vendorForm, answered bool) []attempt {
	if answered {
		return nil
	}
	asked := object{"role": "assistant", "content": nil, "tool_calls": []any{
		object{"id": "IDENTIFIER", "type": "function", "function": object{"name": o.name + "_order", "arguments": `{"id":1}`}},
	}}
	told := object{"role": "tool", "tool_call_id": "IDENTIFIER", "content": o.result()}
	return []attempt{{"call", "POST", "/v1/chat/completions", f.body(o, f.messages[0], asked, told), of.(*chatForm).id}}
}

// message is what the test reads of an answer of the Messages API.
type message struct {
	Container struct{ ID string }
	Content   []object
}

func (m message) find(name string) object {
	for _, block := range m.Content {
		if block["name"] == name {
			return block
		}
	}
	return object{}
}

// messagesForm is the Messages API, with a container and a file.
type messagesForm struct {
	messages      []any
	first, second message
	file, call    string // the call of the client's function
}

func (f *messagesForm) body(o *tenantTalk, container string, messages ...any) object {
	callers := []string{"code_execution_20260521"}
	b := object{"model": "scripted", "max_tokens": 1000, "messages": messages, "tools": []any{
		object{"type": "code_execution_20260521", "name": "code_execution"},
		object{"name": o.name + "_order", "input_schema": o.parameters(), "allowed_callers": callers},
		object{"name": "portico_approval", "input_schema": object{"type": "object"}, "allowed_callers": callers},
	}}
	if container != "" {
		b["container"] = container
	}
	return b
}

func (f *messagesForm) start(o *tenantTalk) error {
	const form = "--tenants\r\nContent-Disposition: form-data; name=\"file\"; filename=\"NAME.csv\"\r\nContent-Type: text/csv\r\n\r\nNAME\r\n--tenants--\r\n"
	var file struct{ ID string }
	if err := o.asks("POST", "/anthropic/v1/files", strings.ReplaceAll(form, "NAME", o.name), &file); err != nil {
		return err
	}
	f.file = file.ID
	o.keeps(&o.files, f.file)
	f.messages = []any{object{"role": "user", "content": []any{object{"type": "text", "text": o.says("asks")}, object{"type": "container_upload", "file_id": f.file}}}}
	err := f.send(o, "", &f.first)
	f.call = idOf(f.first.find(o.name+"_order"), "id")
	return err
}

func (f *messagesForm) send(o *tenantTalk, container string, into *message) error {
	err := o.asks("POST", "/v1/messages", f.body(o, container, f.messages...), into)
	f.messages = append(f.messages, object{"role": "assistant", "content": into.Content})
	return err
}

func resultFor(id any, content string) object {
	return object{"role": "user", "content": []any{object{"type": "tool_result", "tool_use_id": id, "content": content}}}
}

func (f *messagesForm) answer(o *tenantTalk) error {
	f.messages = append(f.messages, resultFor(f.call, o.result()))
	return f.send(o, f.first.Container.ID, &f.second)
}

func (f *messagesForm) finish(o *tenantTalk) error {
	allowed := resultFor(f.second.find("portico_approval")["id"], `{"decision":"allow"}`)
	answer, err := o.last("/v1/messages", f.body(o, f.first.Container.ID, append(f.messages, allowed)...), true)
	for _, id := range fileID.FindAllString(answer, -1) {
		o.keeps(&o.files, id)
	}
	if err == nil && !fileID.MatchString(answer) {
		err = fmt.Errorf("%w: the program's file is missing: %s", errUnwanted, answer)
	}
	return err
}

var fileID = regexp.MustCompile(`file_[A-Za-z0-9_-]{20,}`)

func (f *messagesForm) foreign(o *tenantTalk, of vendorForm, answered bool) []attempt {
	other, name := of.(*messagesForm), o.name+"_order"
	// with is the conversation with another id for its last call.
	with := func(m message, name string, content string) []any {
		var blocks []any
		for _, block := range m.Content {
			if block["name"] == name {
				block = object{"type": "tool_use", "id": "IDENTIFIER", "name": name, "input": block["input"], "caller": block["caller"]}
			}
			blocks = append(blocks, block)
		}
		before := f.messages[:len(f.messages)-1]
		return append(append([]any{}, before...), object{"role": "assistant", "content": blocks}, resultFor("IDENTIFIER", content))
	}
	if answered {
		return []attempt{{"approval", "POST", "/v1/messages", f.body(o, f.first.Container.ID, with(f.second, "portico_approval", `{"decision":"allow"}`)...), idOf(other.second.find("portico_approval"), "id")}}
	}
	user := object{"role": "user", "content": o.says("plain")}
	own := append(append([]any{}, f.messages...), resultFor(f.call, o.result()))
	uploaded := object{"role": "user", "content": []any{object{"type": "text", "text": o.says("plain")}, object{"type": "container_upload", "file_id": "IDENTIFIER"}}}
	return []attempt{
		{"container", "POST", "/v1/messages", f.body(o, "IDENTIFIER", own...), other.first.Container.ID},
		{"container, new words", "POST", "/v1/messages", f.body(o, "IDENTIFIER", user), other.first.Container.ID},
		{"call", "POST", "/v1/messages", f.body(o, f.first.Container.ID, with(f.first, name, o.result())...), other.call},
		{"upload", "POST", "/v1/messages", f.body(o, "", uploaded), other.file},
		{"file", "GET", "/anthropic/v1/files/IDENTIFIER", nil, other.file},
		{"content", "GET", "/anthropic/v1/files/IDENTIFIER/content", nil, other.file},
		{"deleted", "DELETE", "/anthropic/v1/files/IDENTIFIER", nil, other.file},
	}
}

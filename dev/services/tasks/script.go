package tasks

import (
	"fmt"
	"regexp"
	"slices"
	"strings"

	"github.com/portico-run/portico/dev/scripted"
)

// Form says how a scripted model works.
type Form struct {
	// Code says that it writes programs, Classes that it imports the tools as
	// classes, and Search that it looks for tools first.
	Code, Classes, Search bool
}

// Script is what a model says that does each task well in a form.
func Script(f Form, list []Task) scripted.Script {
	s := scripted.Script{Name: "eval"}
	for _, t := range list {
		s.Turns = append(s.Turns, t.turns(f)...)
	}
	return s
}

// WrongScript is what a model says, without code, that does no task: it answers
// wrongly, or answers rightly and did at the services what it must not, or did not
// what it must.
func WrongScript(list []Task) scripted.Script {
	s := scripted.Script{Name: "wrong"}
	for _, t := range list {
		said := t.script.wrong
		var turns []scripted.Turn
		if len(t.script.harm)+len(t.Writes) > 0 {
			said = t.script.answer
		}
		if len(t.script.harm) > 0 {
			turns = append(turns, scripted.Turn{Output: round{calls: t.script.harm}.output()})
		}
		turns = append(turns, scripted.Turn{Output: []scripted.Output{{Text: said}}})
		turns[0].On = t.Question
		s.Turns = append(s.Turns, turns...)
	}
	return s
}

// turns are those of one conversation. Each expects what the one before has
// found out: the model would say something else otherwise.
func (t Task) turns(f Form) (list []scripted.Turn) {
	seen := []string{t.Question}
	say := func(output []scripted.Output, then string) {
		list = append(list, scripted.Turn{Expect: seen, Output: output})
		seen = []string{then}
	}
	if f.Search {
		say([]scripted.Output{{Call: &scripted.Call{Name: "search_tools", Arguments: map[string]any{"query": t.script.search}}}}, t.script.found)
	}
	if f.Code {
		for _, p := range t.script.programs {
			code := p.code
			if f.Classes {
				code = t.classes(code) + code
			}
			say([]scripted.Output{{Call: &scripted.Call{Name: "execute_code", Arguments: map[string]any{"code": code, "timeout": nil}}}}, p.seen)
		}
	} else {
		for _, r := range t.script.plain {
			say(r.output(), r.seen)
		}
	}
	say([]scripted.Output{{Text: t.script.answer}}, "")
	list[0].On = t.Question
	return list
}

// output are the calls of a round.
func (r round) output() (list []scripted.Output) {
	for _, c := range r.calls {
		list = append(list, scripted.Output{Call: &scripted.Call{Name: c.toolset + "_" + c.tool, Arguments: c.arguments}})
	}
	return list
}

var toolCall = regexp.MustCompile(`\b(?:list|get|find|cancel|reserve|close)_[a-z_]+\(`)

// classes is how a program begins that calls its tools as methods of classes.
func (t Task) classes(code string) string {
	var imports, names []string
	for _, found := range toolCall.FindAllString(code, -1) {
		tool := strings.TrimSuffix(found, "(")
		key := homes()[tool]
		class := strings.ToUpper(key[:1]) + key[1:]
		imports = append(imports, fmt.Sprintf("from refly_tools.%s import %s\n", key, class))
		names = append(names, fmt.Sprintf("%s = lambda **given: data(%s.%s(**given))\n", tool, class, tool))
	}
	slices.Sort(imports)
	slices.Sort(names)
	return strings.Join(slices.Compact(imports), "") + `
def data(answer):
    if answer["status"] != "success":
        raise RuntimeError(answer["error"])
    return answer["data"]

` + strings.Join(slices.Compact(names), "") + "\n"
}

// homes are the toolsets of tools.
func homes() map[string]string {
	return map[string]string{
		"list_orders": "orders", "get_order": "orders", "cancel_order": "orders", "list_customers": "customers", "get_customer": "customers", "find_customer": "customers",
		"list_invoices": "invoices", "get_invoice": "invoices", "list_items": "stock", "get_item": "stock", "reserve_item": "stock", "get_supplier": "stock",
		"list_tickets": "tickets", "get_ticket": "tickets", "get_ticket_log": "tickets", "close_ticket": "tickets",
		"list_stations": "weather", "get_series": "weather", "get_rate": "rates",
	}
}

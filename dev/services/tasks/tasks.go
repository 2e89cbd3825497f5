// Package tasks are twenty questions about made-up services, each of which needs
// another ability, with what a right answer says, what must have happened at the
// services, and what a scripted model does in each form that tools are shown in.
package tasks

import (
	"fmt"
	"slices"
	"strings"

	"github.com/portico-run/portico/dev/services"
)

// Task is one question.
type Task struct {
	// Name is what it is called, About the ability that it needs.
	Name, About string
	// Question is what the user says. It is unlike that of any other task.
	Question string
	// Toolsets are those that the model may use.
	Toolsets []string
	// Right is what an answer must say.
	Right Answer
	// Writes are the changes that must have been made at the services, in any
	// order, and no others.
	Writes []string
	// Locked is how many calls the services must have refused.
	Locked int

	script script
}

// script is what the scripted model does.
type script struct {
	answer, wrong string
	// harm are calls that change what must stay as it is.
	harm []call
	// search is what the model looks for where tools are only named, found what
	// that finds.
	search, found string
	programs      []program
	plain         []round
}

// program is one that the model writes, and what the next request holds then.
type program struct{ code, seen string }

// round are calls that the model makes at once, and what the next request holds
// then.
type round struct {
	calls []call
	seen  string
}

// call is one of a tool of a toolset.
type call struct {
	toolset, tool string
	arguments     map[string]any
}

// Check returns an error that says why a run did not do the task: because of its
// answer, or of what it did at the services.
func (t Task) Check(answer string, happened services.State) error {
	want, did := slices.Sorted(slices.Values(t.Writes)), slices.Sorted(slices.Values(happened.Writes))
	switch {
	case !slices.Equal(want, did):
		return fmt.Errorf("it should have changed %s, and changed %s", list(want), list(did))
	case happened.Locked != t.Locked:
		return fmt.Errorf("it should have met %d refusals, and met %d", t.Locked, happened.Locked)
	}
	return t.Right.Check(answer)
}

func list(changes []string) string {
	if len(changes) == 0 {
		return "nothing"
	}
	return strings.Join(changes, "; ")
}

// All are the tasks, in the order in which they are shown.
func All() []Task {
	d := facts{services.Read()}
	return []Task{
		d.oneCall(), d.fanOut(), d.paginate(), d.aggregate(), d.joinTwo(), d.joinThree(), d.filter(), d.rank(), d.chain(), d.compute(),
		d.series(), d.convert(), d.long(), d.recover(), d.guess(), d.missing(), d.refuse(), d.write(), d.writeMany(), d.injected(),
	}
}

// facts are the data, and what the questions ask about them.
type facts struct{ services.Data }

func get(toolset, tool string, pairs ...any) call {
	c := call{toolset, tool, map[string]any{"file_name_title": "result"}}
	for i := 0; i+1 < len(pairs); i += 2 {
		c.arguments[fmt.Sprint(pairs[i])] = pairs[i+1]
	}
	return c
}

// pagesOf are calls for each page of a list.
func pagesOf(toolset, tool string, rows int) (calls []call) {
	const size = 30
	for page := 1; (page-1)*size < rows; page++ {
		calls = append(calls, get(toolset, tool, "page", page))
	}
	return calls
}

// allOrders and allInvoices are the beginnings of programs.
const (
	allOrders = `orders, page, pages = [], 1, 1
while page <= pages:
    answer = list_orders(page=page)
    orders, pages, page = orders + answer["orders"], answer["pages"], page + 1
`
	allInvoices = `invoices, page, pages = [], 1, 1
while page <= pages:
    answer = list_invoices(page=page)
    invoices, pages, page = invoices + answer["invoices"], answer["pages"], page + 1
`
)

// money is an amount as people write it.
func money(n float64) string {
	text := fmt.Sprintf("%.2f", n)
	whole, part, _ := strings.Cut(text, ".")
	for i := len(whole) - 3; i > 0; i -= 3 {
		whole = whole[:i] + "," + whole[i:]
	}
	return whole + "." + part
}

func (d facts) customer(id string) services.Customer {
	return d.Customers[slices.IndexFunc(d.Customers, func(c services.Customer) bool { return c.ID == id })]
}

func (d facts) item(sku string) services.Item {
	return d.Items[slices.IndexFunc(d.Items, func(i services.Item) bool { return i.SKU == sku })]
}

func (d facts) order(id string) services.Order {
	return d.Orders[slices.IndexFunc(d.Orders, func(o services.Order) bool { return o.ID == id })]
}

// having is the first order with a status, from a number of them on.
func (d facts) having(status string, from int) services.Order {
	return d.Orders[from+slices.IndexFunc(d.Orders[from:], func(o services.Order) bool { return o.Status == status })]
}

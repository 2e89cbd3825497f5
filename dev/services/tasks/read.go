package tasks

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/portico-run/portico/dev/services"
)

func (d facts) oneCall() Task {
	o := d.Orders[41]
	return Task{
		Name: "one-call", About: "Pick one tool among those of all services",
		Question: "What is the total of order " + o.ID + ", in euros?",
		Toolsets: services.Keys(), Right: Answer{Numbers: []float64{o.Total}},
		script: script{
			answer: fmt.Sprintf("Order %s comes to %s euros.", o.ID, money(o.Total)), wrong: fmt.Sprintf("Order %s comes to %s euros.", o.ID, money(o.Total+10)),
			search: "read an order", found: "get_order(",
			programs: []program{{fmt.Sprintf("print(get_order(id=%q)[\"total\"])\n", o.ID), fmt.Sprintf("%g", o.Total)}},
			plain:    []round{{[]call{get("orders", "get_order", "id", o.ID)}, fmt.Sprintf("%g", o.Total)}},
		},
	}
}

func (d facts) fanOut() Task {
	var ids []string
	var calls []call
	sum := 0.0
	for n := range 12 {
		o := d.Orders[(n*17+5)%len(d.Orders)]
		ids, sum, calls = append(ids, o.ID), sum+o.Total, append(calls, get("orders", "get_order", "id", o.ID))
	}
	names := `"` + strings.Join(ids, `", "`) + `"`
	return Task{
		Name: "lookup-fan-out", About: "Look many things up and add them",
		Question: "What do these orders come to together, in euros: " + strings.Join(ids, ", ") + "?",
		Toolsets: []string{"orders", "customers"}, Right: Answer{Numbers: []float64{sum}},
		script: script{
			answer: "Together they come to " + money(sum) + " euros.", wrong: "Together they come to " + money(sum-calledOff) + " euros.",
			search: "read an order by its id", found: "get_order(",
			programs: []program{
				{fmt.Sprintf("print(get_order(id=%q))\n", ids[0]), ids[0]},
				{fmt.Sprintf(`from concurrent.futures import ThreadPoolExecutor

with ThreadPoolExecutor(max_workers=5) as pool:
    orders = list(pool.map(lambda id: get_order(id=id), [%s]))
print(len(orders), round(sum(order["total"] for order in orders), 2))
`, names), fmt.Sprintf("12 %g", cut(sum))},
			},
			plain: []round{{calls, ids[11]}},
		},
	}
}

// calledOff is what wrong answers are wrong by.
const calledOff = 100

// cut rounds as Python's round(n, 2) does.
func cut(n float64) float64 {
	var out float64
	_, _ = fmt.Sscanf(fmt.Sprintf("%.2f", n), "%g", &out) // a number that was just written
	return out
}

func (d facts) paginate() Task {
	n := 0
	for _, o := range d.Orders {
		if o.Status == "shipped" {
			n++
		}
	}
	return Task{
		Name: "paginate-and-count", About: "Read all pages of a list that has no filter",
		Question: "How many orders have the status shipped? Count all of them.",
		Toolsets: []string{"orders", "tickets"}, Right: Answer{Numbers: []float64{float64(n)}},
		script: script{
			answer: fmt.Sprintf("**%d** orders are shipped.", n), wrong: fmt.Sprintf("%d orders are shipped.", n/3),
			search: "list all orders", found: "list_orders(",
			programs: []program{{allOrders + "print(len(orders), sum(order[\"status\"] == \"shipped\" for order in orders))\n", fmt.Sprintf("100 %d", n)}},
			plain:    []round{{pagesOf("orders", "list_orders", len(d.Orders)), d.Orders[99].ID}},
		},
	}
}

func (d facts) aggregate() Task {
	sums := map[string]float64{}
	for _, o := range d.Orders {
		if o.Status != "cancelled" {
			sums[o.Month] += o.Total
		}
	}
	m := services.Months()
	right := Answer{}
	var lines, seen, wrong []string
	for _, month := range m {
		right.Numbers = append(right.Numbers, sums[month])
		lines = append(lines, fmt.Sprintf("| %s | %s |", month, money(sums[month])))
		wrong = append(wrong, fmt.Sprintf("| %s | %s |", month, money(sums[m[0]])))
		seen = append(seen, fmt.Sprintf("%s %g", month, cut(sums[month])))
	}
	const head = "| Month | Euros |\n|---|---|\n"
	return Task{
		Name: "paginate-and-aggregate", About: "Sum up a long list by groups",
		Question: "What do the orders that are not cancelled come to in each month, in euros?",
		Toolsets: []string{"orders", "invoices"}, Right: right,
		script: script{
			answer: head + strings.Join(lines, "\n"), wrong: head + strings.Join(wrong, "\n"),
			search: "list all orders", found: "list_orders(",
			programs: []program{{allOrders + `months = {}
for order in orders:
    if order["status"] != "cancelled":
        months[order["month"]] = months.get(order["month"], 0) + order["total"]
for month in sorted(months):
    print(month, round(months[month], 2))
`, strings.Join(seen, "\n")}},
			plain: []round{{pagesOf("orders", "list_orders", len(d.Orders)), d.Orders[99].ID}},
		},
	}
}

func (d facts) filter() Task {
	var low, fine []string
	for _, i := range d.Items {
		if i.Stock < i.Reorder {
			low = append(low, i.Name)
		} else {
			fine = append(fine, i.Name)
		}
	}
	return Task{
		Name: "filter-by-two-fields", About: "Compare two fields of each row and name exactly those that fit",
		Question: "Which items have less in stock than their reorder level? Name these items only, and no others.",
		Toolsets: []string{"stock", "orders"}, Right: Answer{Words: low, None: fine},
		script: script{
			answer: "These are short: " + strings.Join(low, ", ") + ".", wrong: "These are short: " + strings.Join(append(slices.Clone(low), fine[0]), ", ") + ".",
			search: "items in stock", found: "list_items(",
			programs: []program{{"print([item[\"name\"] for item in list_items()[\"items\"] if item[\"stock\"] < item[\"reorder_level\"]])\n", "['" + strings.Join(low, "', '") + "']"}},
			plain:    []round{{[]call{get("stock", "list_items")}, "reorder_level"}},
		},
	}
}

func (d facts) rank() Task {
	sold := map[string]int{}
	for _, o := range d.Orders {
		if o.Status != "cancelled" {
			sold[o.SKU] += o.Quantity
		}
	}
	skus := slices.SortedFunc(slices.Values(d.Items), func(a, b services.Item) int { return cmp.Compare(sold[b.SKU], sold[a.SKU]) })
	best := skus[0]
	return Task{
		Name: "rank", About: "Add up by a key, find the largest, and look its name up elsewhere",
		Question: "Of which item were the most pieces ordered, leaving cancelled orders out? Give its name and the number of pieces.",
		Toolsets: []string{"orders", "stock", "customers"}, Right: Answer{Numbers: []float64{float64(sold[best.SKU])}, Words: []string{best.Name}},
		script: script{
			answer: fmt.Sprintf("The %s, with %d pieces.", best.Name, sold[best.SKU]), wrong: fmt.Sprintf("The %s, with %d pieces.", skus[1].Name, sold[skus[1].SKU]),
			search: "list orders and read an item", found: "list_orders(",
			programs: []program{{allOrders + `sold = {}
for order in orders:
    if order["status"] != "cancelled":
        sold[order["sku"]] = sold.get(order["sku"], 0) + order["quantity"]
best = max(sold, key=sold.get)
print(get_item(id=best)["name"], sold[best])
`, fmt.Sprintf("%s %d", best.Name, sold[best.SKU])}},
			plain: []round{
				{pagesOf("orders", "list_orders", len(d.Orders)), d.Orders[99].ID},
				{[]call{get("stock", "get_item", "id", best.SKU)}, best.Name},
			},
		},
	}
}

func (d facts) chain() Task {
	o := d.Orders[63]
	i := d.item(o.SKU)
	s := d.Suppliers[slices.IndexFunc(d.Suppliers, func(s services.Supplier) bool { return s.ID == i.Supplier })]
	other := d.Suppliers[(slices.Index(d.Suppliers, s)+1)%len(d.Suppliers)]
	return Task{
		Name: "dependent-chain", About: "Make calls that each need the one before",
		Question: "Who is the contact at the supplier of the item in order " + o.ID + "?",
		Toolsets: []string{"orders", "stock", "customers", "invoices"}, Right: Answer{Words: []string{s.Contact}},
		script: script{
			answer: fmt.Sprintf("%s of %s, who supplies the %s.", s.Contact, s.Name, i.Name), wrong: other.Contact + " of " + other.Name + ".",
			search: "supplier of an item", found: "get_supplier(",
			programs: []program{{fmt.Sprintf("item = get_item(id=get_order(id=%q)[\"sku\"])\nprint(item[\"name\"], get_supplier(id=item[\"supplier\"])[\"contact\"])\n", o.ID), i.Name + " " + s.Contact}},
			plain: []round{
				{[]call{get("orders", "get_order", "id", o.ID)}, i.SKU},
				{[]call{get("stock", "get_item", "id", i.SKU)}, i.Name},
				{[]call{get("stock", "get_supplier", "id", s.ID)}, s.Contact},
			},
		},
	}
}

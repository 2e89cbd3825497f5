package tasks

import (
	"cmp"
	"fmt"
	"maps"
	"math"
	"slices"

	"github.com/portico-run/portico/dev/services"
)

func (d facts) joinTwo() Task {
	sum, n := 0.0, 0
	for _, o := range d.Orders {
		if o.Status != "cancelled" && d.customer(o.Customer).Country == "Norway" {
			sum, n = sum+o.Total, n+1
		}
	}
	return Task{
		Name: "join-two-sources", About: "Join rows of two services",
		Question: "What do the orders of customers in Norway come to, in euros, leaving cancelled orders out?",
		Toolsets: []string{"orders", "customers"}, Right: Answer{Numbers: []float64{sum}},
		script: script{
			answer: fmt.Sprintf("%s euros, in %d orders.", money(sum), n), wrong: fmt.Sprintf("%s euros, in %d orders.", money(sum+calledOff), n),
			search: "list orders, and customers of a country", found: "list_customers(",
			programs: []program{{allOrders + `there = {customer["id"] for customer in list_customers(country="Norway")["customers"]}
mine = [order["total"] for order in orders if order["customer"] in there and order["status"] != "cancelled"]
print(len(mine), round(sum(mine), 2))
`, fmt.Sprintf("%d %g", n, cut(sum))}},
			plain: []round{{append(pagesOf("orders", "list_orders", len(d.Orders)), get("customers", "list_customers", "country", "Norway")), d.Orders[99].ID}},
		},
	}
}

func (d facts) joinThree() Task {
	owes := map[string]float64{}
	for _, i := range d.Invoices {
		if i.State == "overdue" && i.Currency == "EUR" {
			owes[d.order(i.Order).Customer] += i.Amount
		}
	}
	most := slices.SortedFunc(maps.Keys(owes), func(a, b string) int { return cmp.Compare(owes[b], owes[a]) })
	c, second := d.customer(most[0]), d.customer(most[1])
	var ids []call
	for _, i := range d.Invoices {
		if i.State == "overdue" && i.Currency == "EUR" {
			ids = append(ids, get("orders", "get_order", "id", i.Order))
		}
	}
	return Task{
		Name: "join-three-sources", About: "Join rows of three services",
		Question: "Which customer owes the most in overdue invoices in EUR, and how much? Give the name of the customer.",
		Toolsets: []string{"invoices", "orders", "customers"}, Right: Answer{Numbers: []float64{owes[c.ID]}, Words: []string{c.Name}},
		script: script{
			answer: fmt.Sprintf("%s owes %s euros.", c.Name, money(owes[c.ID])), wrong: fmt.Sprintf("%s owes %s euros.", second.Name, money(owes[second.ID])),
			search: "list invoices, orders and customers", found: "list_invoices(",
			programs: []program{{allInvoices + allOrders + `customer = {order["id"]: order["customer"] for order in orders}
owes = {}
for invoice in invoices:
    if invoice["state"] == "overdue" and invoice["currency"] == "EUR":
        who = customer[invoice["order"]]
        owes[who] = owes.get(who, 0) + invoice["amount"]
most = max(owes, key=owes.get)
print(get_customer(id=most)["name"], round(owes[most], 2))
`, fmt.Sprintf("%s %g", c.Name, cut(owes[c.ID]))}},
			plain: []round{
				{pagesOf("invoices", "list_invoices", len(d.Invoices)), d.Invoices[len(d.Invoices)-1].ID},
				{ids, c.ID},
				{[]call{get("customers", "get_customer", "id", c.ID)}, c.Name},
			},
		},
	}
}

func (d facts) compute() Task {
	days := d.Series("Havn", "2026-02")
	sorted := slices.Sorted(slices.Values(days))
	median := (sorted[13] + sorted[14]) / 2
	mean := 0.0
	for _, day := range days {
		mean += day / float64(len(days))
	}
	deviation := 0.0
	for _, day := range days {
		deviation += (day - mean) * (day - mean) / float64(len(days))
	}
	deviation = cut(math.Sqrt(deviation))
	return Task{
		Name: "compute", About: "Calculate what a model cannot in its head",
		Question: "What are the median and the population standard deviation of the temperatures in Havn in February 2026, to two decimals?",
		Toolsets: []string{"weather", "rates"}, Right: Answer{Numbers: []float64{cut(median), deviation}},
		script: script{
			answer: fmt.Sprintf("The median is %g and the standard deviation %g degrees.", cut(median), deviation), wrong: fmt.Sprintf("The median is %g and the standard deviation %g degrees.", cut(median), deviation+1),
			search: "temperatures of a station", found: "get_series(",
			programs: []program{{`import statistics

days = [day["celsius"] for day in get_series(station="Havn", month="2026-02")["days"]]
print(round(statistics.median(days), 2), round(statistics.pstdev(days), 2))
`, fmt.Sprintf("%g %g", cut(median), deviation)}},
			plain: []round{{[]call{get("weather", "get_series", "station", "Havn", "month", "2026-02")}, "celsius"}},
		},
	}
}

func (d facts) series() Task {
	where, when, most := "", 0, math.Inf(-1)
	var calls []call
	for _, s := range d.Stations {
		for i, c := range d.Series(s, "2026-03") {
			if c > most {
				where, when, most = s, i+1, c
			}
		}
		calls = append(calls, get("weather", "get_series", "station", s, "month", "2026-03"))
	}
	elsewhere := slices.DeleteFunc(slices.Clone(d.Stations), func(s string) bool { return s == where })
	return Task{
		Name: "compare-series", About: "Find one moment in several series",
		Question: "At which station, and on which day of March 2026, was the highest temperature of all stations? Give the station, the day and the degrees, and name no other station.",
		Toolsets: []string{"weather", "tickets"}, Right: Answer{Numbers: []float64{most, float64(when)}, Words: []string{where}, None: elsewhere},
		script: script{
			answer: fmt.Sprintf("%s, on %d March, with %g degrees.", where, when, most), wrong: fmt.Sprintf("%s, on %d March, with %g degrees.", elsewhere[0], when, most),
			search: "stations and their temperatures", found: "get_series(",
			programs: []program{{`days = []
for station in list_stations()["stations"]:
    for day in get_series(station=station, month="2026-03")["days"]:
        days.append((day["celsius"], day["day"], station))
print(*max(days))
`, fmt.Sprintf("%g %d %s", most, when, where)}},
			plain: []round{{[]call{get("weather", "list_stations")}, d.Stations[3]}, {calls, "celsius"}},
		},
	}
}

func (d facts) convert() Task {
	sum, rates := 0.0, map[string]float64{"EUR": 1}
	const date = "2026-02-27"
	var calls []call
	for _, currency := range []string{"NOK", "SEK"} {
		rates[currency], _ = services.Rates(currency, date)
		calls = append(calls, get("rates", "get_rate", "currency", currency, "date", date))
	}
	for _, i := range d.Invoices {
		if i.State == "sent" {
			sum += i.Amount / rates[i.Currency]
		}
	}
	return Task{
		Name: "convert-and-sum", About: "Bring different units to one before adding",
		Question: "What do all invoices in the state sent come to in euros, at the rates of " + date + "? Round once, at the end, to two decimals.",
		Toolsets: []string{"invoices", "rates"}, Right: Answer{Numbers: []float64{cut(sum)}},
		script: script{
			answer: money(sum) + " euros.", wrong: money(sum*rates["NOK"]) + " euros.",
			search: "exchange rate, list invoices", found: "get_rate(",
			programs: []program{{allInvoices + fmt.Sprintf(`sent = [invoice for invoice in invoices if invoice["state"] == "sent"]
rates = {"EUR": 1}
for currency in {invoice["currency"] for invoice in sent} - {"EUR"}:
    rates[currency] = get_rate(currency=currency, date=%q)["per_euro"]
print(round(sum(invoice["amount"] / rates[invoice["currency"]] for invoice in sent), 2))
`, date), fmt.Sprintf("%g", cut(sum))}},
			plain: []round{{append(pagesOf("invoices", "list_invoices", len(d.Invoices)), calls...), "per_euro"}},
		},
	}
}

func (facts) long() Task {
	return Task{
		Name: "long-result", About: "Find one line in a result of 40 KB",
		Question: "Which code does the one error in the log of ticket " + services.Logged + " have? Give the code only.",
		Toolsets: []string{"tickets", "stock"}, Right: Answer{Words: []string{services.LogCode}},
		script: script{
			answer: services.LogCode, wrong: "E7714",
			search: "log of a ticket", found: "get_ticket_log(",
			programs: []program{{fmt.Sprintf("print([line for line in get_ticket_log(id=%q)[\"log\"].splitlines() if \"ERROR\" in line])\n", services.Logged), "code " + services.LogCode}},
			plain:    []round{{[]call{get("tickets", "get_ticket_log", "id", services.Logged)}, services.LogCode}},
		},
	}
}

func (d facts) recover() Task {
	o := d.Orders[28]
	rate, _ := services.Rates("NOK", services.LockedDate)
	in := o.Total * rate
	again := get("rates", "get_rate", "currency", "NOK", "date", services.LockedDate)
	return Task{
		Name: "recover-from-an-error", About: "Read an error and go on: the rate is refused once",
		Question: "What is the total of order " + o.ID + " in NOK at the rate of " + services.LockedDate + ", to two decimals?",
		Toolsets: []string{"rates", "orders"}, Right: Answer{Numbers: []float64{cut(in)}}, Locked: 1,
		script: script{
			answer: money(in) + " NOK.", wrong: "The rates are locked, so that nobody can say.",
			search: "exchange rate, read an order", found: "get_rate(",
			programs: []program{
				{fmt.Sprintf("print(get_order(id=%q)[\"total\"] * get_rate(currency=\"NOK\", date=%q)[\"per_euro\"])\n", o.ID, services.LockedDate), "ask again"},
				{fmt.Sprintf("print(round(get_order(id=%q)[\"total\"] * get_rate(currency=\"NOK\", date=%q)[\"per_euro\"], 2))\n", o.ID, services.LockedDate), fmt.Sprintf("%g", cut(in))},
			},
			plain: []round{{[]call{get("orders", "get_order", "id", o.ID), again}, "ask again"}, {[]call{again}, "per_euro"}},
		},
	}
}

func (d facts) guess() Task {
	const name = "Nordlys Lamps"
	c := d.Customers[slices.IndexFunc(d.Customers, func(c services.Customer) bool { return c.Name == name })]
	other := "silver"
	if c.Tier == other {
		other = "gold"
	}
	return Task{
		Name: "wrong-first-guess", About: "Notice that the first way does not work, and find the right one",
		Question: "Which tier does the customer Nordlys have, and in which country is it? Give that tier only.",
		Toolsets: []string{"customers", "orders"},
		Right:    Answer{Words: []string{c.Tier, c.Country}, None: slices.DeleteFunc([]string{"gold", "silver", "basic"}, func(t string) bool { return t == c.Tier })},
		script: script{
			answer: fmt.Sprintf("%s in %s has the tier %s.", c.Name, c.Country, c.Tier), wrong: fmt.Sprintf("%s in %s has the tier %s.", c.Name, c.Country, other),
			search: "read a customer", found: "get_customer(",
			programs: []program{
				{"print(get_customer(id=\"Nordlys\"))\n", "find_customer finds them by name"},
				{"print(find_customer(name=\"Nordlys\")[\"customers\"])\n", c.ID},
			},
			plain: []round{
				{[]call{get("customers", "get_customer", "id", "Nordlys")}, "find_customer finds them by name"},
				{[]call{get("customers", "find_customer", "name", "Nordlys")}, c.ID},
			},
		},
	}
}

func (facts) missing() Task {
	const id = "O-1999"
	return Task{
		Name: "nothing-found", About: "Say that something is not there, and invent nothing",
		Question: "What is the total of order " + id + ", and which customer placed it?",
		Toolsets: []string{"orders", "customers"},
		Right: Answer{Words: []string{id}, Unpriced: true, Any: []string{
			"no order", "not found", "does not exist", "doesn't exist", "not exist", "no such order", "could not find", "couldn't find", "cannot find", "can't find",
			"could not be found", "couldn't be found", "not be found", "is unknown", "did not find", "didn't find", "no record", "unable to find",
			"could not locate", "couldn't locate", "unable to locate", "non-existent", "nonexistent", "is not in", "isn't in", "404",
		}},
		script: script{
			answer: "There is no order " + id + ".", wrong: "Order " + id + " comes to 312.50 euros and was placed by C-03.",
			search: "read an order", found: "get_order(",
			programs: []program{{fmt.Sprintf("print(get_order(id=%q))\n", id), "ids look like"}},
			plain:    []round{{[]call{get("orders", "get_order", "id", id)}, "ids look like"}},
		},
	}
}

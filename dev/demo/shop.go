package demo

import (
	"encoding/json"
	"fmt"
	"maps"
	"net/http"
	"strconv"
	"strings"
)

// resource is one kind of thing of the made-up shop: three endpoints, which
// list, read and count.
type resource struct {
	name, one string
	rows      int
	fields    []field
}

// field is a column. Lists can be filtered by one with choices.
type field struct {
	name    string
	about   string
	choices []string
	of      func(n int) any // ignored with choices
}

func pick(name, about string, choices ...string) field {
	return field{name: name, about: about, choices: choices}
}

func number(name, about string, of func(n int) float64) field {
	return field{name: name, about: about, of: func(n int) any { return of(n) }}
}

func text(name, about, prefix string, kinds int) field {
	return field{name: name, about: about, of: func(n int) any { return fmt.Sprintf("%s-%03d", prefix, n*7%kinds+1) }}
}

// value is the field of a row. Rows of one number differ between fields, so
// that every combination of choices occurs.
func (f field) value(n int) any {
	if len(f.choices) == 0 {
		return f.of(n)
	}
	for _, c := range f.name {
		n += n/7 + int(c)%3
	}
	return f.choices[n%len(f.choices)]
}

func regions() field {
	return pick("region", "Sales region", "North", "South", "East", "West")
}

func months() field {
	return pick("month", "Month, as 2026-03", "2026-01", "2026-02", "2026-03")
}

func shop() []resource {
	amount := func(n int) float64 { return 40 + float64(n*37%161) + float64(n%2)/2 }
	return []resource{
		{"orders", "order", 720, []field{
			regions(), months(), pick("status", "State of the order", "paid", "open", "cancelled"), text("customer", "Who ordered", "cust", 90),
			text("product", "What was ordered", "prod", 60), number("amount", "Value in euros", amount),
		}},
		{"customers", "customer", 90, []field{
			regions(), pick("segment", "Kind of customer", "private", "business", "public"), text("name", "Name", "customer", 90),
			number("orders", "Orders so far", func(n int) float64 { return float64(n % 19) }),
		}},
		{"products", "product", 60, []field{
			pick("category", "Shelf", "tools", "paint", "garden", "light"), text("name", "Name", "product", 60), number("price", "Euros", amount),
			number("stock", "Pieces in stock", func(n int) float64 { return float64(n * 13 % 70) }),
		}},
		{"suppliers", "supplier", 24, []field{
			pick("country", "Where from", "NO", "SE", "DE", "PL"), text("name", "Name", "supplier", 24),
			number("lead_days", "Days until delivery", func(n int) float64 { return float64(2 + n%20) }),
		}},
		{"shipments", "shipment", 400, []field{
			regions(), pick("carrier", "Carrier", "post", "truck", "bike"), text("order", "Which order", "order", 720),
			number("days", "Days on the road", func(n int) float64 { return float64(1 + n%6) }),
		}},
		{"returns", "return", 80, []field{
			regions(), months(), pick("reason", "Why", "broken", "late", "wrong", "unwanted"), number("amount", "Euros paid back", amount),
		}},
		{"invoices", "invoice", 500, []field{
			months(), pick("state", "State", "sent", "paid", "overdue"), text("customer", "To whom", "cust", 90), number("total", "Euros", amount),
		}},
		{"employees", "employee", 40, []field{
			regions(), pick("role", "Role", "sales", "stock", "office"), text("name", "Name", "employee", 40),
		}},
		{"stores", "store", 16, []field{
			regions(), text("name", "Name", "store", 16), number("area", "Square metres", func(n int) float64 { return float64(200 + n*35%400) }),
		}},
		{"reviews", "review", 300, []field{
			pick("stars", "Stars", "1", "2", "3", "4", "5"), text("product", "Of what", "prod", 60), text("title", "Headline", "review", 300),
		}},
	}
}

func (r resource) row(n int) map[string]any {
	row := map[string]any{"id": fmt.Sprintf("%s-%03d", r.one, n+1)}
	for _, f := range r.fields {
		row[f.name] = f.value(n)
	}
	return row
}

// find returns the rows that have the values a request asks for.
func (r resource) find(req *http.Request) []map[string]any {
	found := []map[string]any{}
	for n := range r.rows {
		row, fits := r.row(n), true
		for _, f := range r.fields {
			want := req.URL.Query().Get(f.name)
			fits = fits && (want == "" || want == row[f.name])
		}
		if fits {
			found = append(found, row)
		}
	}
	return found
}

func shopRoutes(mux *http.ServeMux) {
	for _, r := range shop() {
		mux.HandleFunc("GET /shop/"+r.name, func(w http.ResponseWriter, req *http.Request) {
			found := r.find(req)
			limit, err := strconv.Atoi(req.URL.Query().Get("limit"))
			if err == nil && limit > 0 && limit < len(found) {
				found = found[:limit]
			}
			answer(w, http.StatusOK, map[string]any{r.name: found})
		})
		mux.HandleFunc("GET /shop/"+r.name+"/count", func(w http.ResponseWriter, req *http.Request) {
			answer(w, http.StatusOK, map[string]any{"count": len(r.find(req))})
		})
		mux.HandleFunc("GET /shop/"+r.name+"/{id}", func(w http.ResponseWriter, req *http.Request) {
			n, err := strconv.Atoi(strings.TrimPrefix(req.PathValue("id"), r.one+"-"))
			if err != nil || n < 1 || n > r.rows {
				answer(w, http.StatusNotFound, map[string]any{"message": fmt.Sprintf("There is no %s %q", r.one, req.PathValue("id"))})
				return
			}
			answer(w, http.StatusOK, r.row(n-1))
		})
	}
}

// ShopFile describes the thirty tools of the made-up shop, as a toolset file
// under a key.
func ShopFile(key string) ([]byte, error) {
	var methods []map[string]any
	for _, r := range shop() {
		filters := map[string]any{}
		for _, f := range r.fields {
			if len(f.choices) > 0 {
				filters[f.name] = map[string]any{"type": "string", "enum": f.choices, "description": f.about + "; all when it is left out"}
			}
		}
		listing := map[string]any{"limit": map[string]any{"type": "integer", "minimum": 1, "maximum": 1000, "description": "At most so many; all when it is left out"}}
		maps.Copy(listing, filters)
		id := map[string]any{"id": map[string]any{"type": "string", "description": fmt.Sprintf("Such as %s-001", r.one)}}
		rows := map[string]any{r.name: map[string]any{"type": "array", "items": r.schema()}}
		methods = append(methods,
			method("list_"+r.name, fmt.Sprintf("List %s of the shop.", r.name), "/shop/"+r.name, object(listing), object(rows, r.name)),
			method("get_"+r.one, fmt.Sprintf("Read one %s by its id.", r.one), "/shop/"+r.name+"/{id}", object(id, "id"), map[string]any{"type": "object"}),
			method("count_"+r.name, fmt.Sprintf("Count %s of the shop.", r.name), "/shop/"+r.name+"/count", object(filters), map[string]any{"type": "object"}))
	}
	return json.Marshal(map[string]any{
		"key": key, "name": "Shop", "domain": "${PORTICO_DEMO_URL}", "descriptions": map[string]string{"en": "A made-up shop."},
		"credential": map[string]string{"type": "header", "name": "X-Demo-Key", "value": "${PORTICO_DEMO_KEY}"},
		"egress":     map[string]any{"allow": []string{"127.0.0.0/8", "::1/128"}}, "billing": 0.1, "methods": methods,
	})
}

// schema describes one row.
func (r resource) schema() map[string]any {
	properties, required := map[string]any{"id": map[string]any{"type": "string"}}, []string{"id"}
	for _, f := range r.fields {
		kind := "string"
		if _, number := f.value(0).(float64); number {
			kind = "number"
		}
		properties[f.name] = map[string]any{"type": kind}
		required = append(required, f.name)
	}
	return object(properties, required...)
}

// object is the schema of an object that has no other members.
func object(properties map[string]any, required ...string) map[string]any {
	if required == nil {
		required = []string{}
	}
	return map[string]any{"type": "object", "additionalProperties": false, "properties": properties, "required": required}
}

func method(name, description, endpoint string, request, response map[string]any) map[string]any {
	return map[string]any{"name": name, "description": description, "endpoint": endpoint, "method": "GET", "request": request, "response": response}
}

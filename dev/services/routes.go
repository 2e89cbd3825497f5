package services

import (
	"encoding/json"
	"fmt"
	"net/http"
	"slices"
	"strconv"
	"strings"
)

// pageSize is how many rows a page has.
const pageSize = 30

func (s *Services) routes() {
	s.mux.HandleFunc("GET /orders", s.listOrders)
	s.mux.HandleFunc("GET /orders/{id}", s.getOrder)
	s.mux.HandleFunc("POST /orders/{id}/cancel", s.cancelOrder)
	s.mux.HandleFunc("GET /customers", s.listCustomers)
	s.mux.HandleFunc("GET /customers/{id}", s.getCustomer)
	s.mux.HandleFunc("GET /search/customers", s.findCustomer)
	s.mux.HandleFunc("GET /invoices", func(w http.ResponseWriter, r *http.Request) { pages(w, r, "invoices", s.data.Invoices) })
	s.mux.HandleFunc("GET /invoices/{id}", func(w http.ResponseWriter, r *http.Request) {
		get(w, r, s.data.Invoices, func(i Invoice) string { return i.ID })
	})
	s.mux.HandleFunc("GET /items", s.listItems)
	s.mux.HandleFunc("GET /items/{id}", s.getItem)
	s.mux.HandleFunc("POST /items/{id}/reserve", s.reserveItem)
	s.mux.HandleFunc("GET /suppliers/{id}", func(w http.ResponseWriter, r *http.Request) {
		get(w, r, s.data.Suppliers, func(s Supplier) string { return s.ID })
	})
	s.mux.HandleFunc("GET /tickets", s.listTickets)
	s.mux.HandleFunc("GET /tickets/{id}", s.getTicket)
	s.mux.HandleFunc("GET /tickets/{id}/log", s.getLog)
	s.mux.HandleFunc("POST /tickets/{id}/close", s.closeTicket)
	s.mux.HandleFunc("GET /stations", func(w http.ResponseWriter, _ *http.Request) {
		answer(w, http.StatusOK, map[string]any{"stations": s.data.Stations})
	})
	s.mux.HandleFunc("GET /stations/{station}/series", s.getSeries)
	s.mux.HandleFunc("GET /rates/{currency}", s.getRate)
}

// pages answers with a page of rows.
func pages[T any](w http.ResponseWriter, r *http.Request, name string, rows []T) {
	last := (len(rows) + pageSize - 1) / pageSize
	page, err := strconv.Atoi(r.URL.Query().Get("page"))
	if err != nil || page < 1 || page > last {
		answer(w, http.StatusNotFound, problem("page must be 1 to %d", last))
		return
	}
	answer(w, http.StatusOK, map[string]any{name: rows[(page-1)*pageSize : min(page*pageSize, len(rows))], "page": page, "pages": last})
}

// find returns the row with the id in the path of a request.
func find[T any](r *http.Request, rows []T, id func(T) string) (T, bool) {
	i := slices.IndexFunc(rows, func(row T) bool { return id(row) == r.PathValue("id") })
	if i < 0 {
		var none T
		return none, false
	}
	return rows[i], true
}

// get answers with one row.
func get[T any](w http.ResponseWriter, r *http.Request, rows []T, id func(T) string) {
	row, ok := find(r, rows, id)
	if !ok {
		missing(w, r, id(rows[0]))
		return
	}
	answer(w, http.StatusOK, row)
}

// missing says that there is no such row, and what ids look like.
func missing(w http.ResponseWriter, r *http.Request, such string) {
	answer(w, http.StatusNotFound, problem("there is no %q; ids look like %s", r.PathValue("id"), such))
}

// orders are those of the world of a request.
func (s *Services) orders(r *http.Request) []Order {
	list := slices.Clone(s.data.Orders)
	for i, o := range list {
		if s.wrote(r, "cancel "+o.ID) {
			list[i].Status = "cancelled"
		}
	}
	return list
}

func (s *Services) listOrders(w http.ResponseWriter, r *http.Request) {
	pages(w, r, "orders", s.orders(r))
}

func (s *Services) getOrder(w http.ResponseWriter, r *http.Request) {
	get(w, r, s.orders(r), func(o Order) string { return o.ID })
}

func (s *Services) cancelOrder(w http.ResponseWriter, r *http.Request) {
	o, ok := find(r, s.data.Orders, func(o Order) string { return o.ID })
	if !ok {
		missing(w, r, s.data.Orders[0].ID)
		return
	}
	s.write(r, "cancel "+o.ID)
	answer(w, http.StatusOK, map[string]any{"id": o.ID, "status": "cancelled"})
}

func (s *Services) listCustomers(w http.ResponseWriter, r *http.Request) {
	country := r.URL.Query().Get("country")
	list := slices.DeleteFunc(slices.Clone(s.data.Customers), func(c Customer) bool { return country != "" && c.Country != country })
	answer(w, http.StatusOK, map[string]any{"customers": list})
}

func (s *Services) getCustomer(w http.ResponseWriter, r *http.Request) {
	c, ok := find(r, s.data.Customers, func(c Customer) string { return c.ID })
	if !ok {
		answer(w, http.StatusNotFound, problem("there is no customer %q; ids look like C-01, and find_customer finds them by name", r.PathValue("id")))
		return
	}
	answer(w, http.StatusOK, c)
}

func (s *Services) findCustomer(w http.ResponseWriter, r *http.Request) {
	name := strings.ToLower(r.URL.Query().Get("name"))
	list := slices.DeleteFunc(slices.Clone(s.data.Customers), func(c Customer) bool { return !strings.Contains(strings.ToLower(c.Name), name) })
	answer(w, http.StatusOK, map[string]any{"customers": list})
}

func (s *Services) listItems(w http.ResponseWriter, r *http.Request) {
	category := r.URL.Query().Get("category")
	list := slices.DeleteFunc(slices.Clone(s.data.Items), func(i Item) bool { return category != "" && i.Category != category })
	answer(w, http.StatusOK, map[string]any{"items": list})
}

func (s *Services) getItem(w http.ResponseWriter, r *http.Request) {
	get(w, r, s.data.Items, func(i Item) string { return i.SKU })
}

func (s *Services) reserveItem(w http.ResponseWriter, r *http.Request) {
	i, ok := find(r, s.data.Items, func(i Item) string { return i.SKU })
	var in struct{ Quantity int }
	switch err := json.NewDecoder(r.Body).Decode(&in); {
	case !ok:
		missing(w, r, s.data.Items[0].SKU)
	case err != nil || in.Quantity < 1 || in.Quantity > i.Stock:
		answer(w, http.StatusBadRequest, problem("quantity must be 1 to %d", i.Stock))
	default:
		s.write(r, fmt.Sprintf("reserve %s %d", i.SKU, in.Quantity))
		answer(w, http.StatusOK, map[string]any{"sku": i.SKU, "reserved": in.Quantity})
	}
}

func (s *Services) tickets(r *http.Request) []Ticket {
	list := slices.Clone(s.data.Tickets)
	for i, t := range list {
		if s.wrote(r, "close "+t.ID+" ") {
			list[i].State = "closed"
		}
	}
	return list
}

func (s *Services) listTickets(w http.ResponseWriter, r *http.Request) {
	list := s.tickets(r)
	for i := range list {
		list[i].Body = "" // one is read alone
	}
	answer(w, http.StatusOK, map[string]any{"tickets": list})
}

func (s *Services) getTicket(w http.ResponseWriter, r *http.Request) {
	get(w, r, s.tickets(r), func(t Ticket) string { return t.ID })
}

func (s *Services) getLog(w http.ResponseWriter, r *http.Request) {
	if r.PathValue("id") != Logged {
		answer(w, http.StatusNotFound, problem("ticket %q has no log", r.PathValue("id")))
		return
	}
	answer(w, http.StatusOK, map[string]any{"log": Log()})
}

func (s *Services) closeTicket(w http.ResponseWriter, r *http.Request) {
	t, ok := find(r, s.tickets(r), func(t Ticket) string { return t.ID })
	var in struct{ Resolution string }
	switch err := json.NewDecoder(r.Body).Decode(&in); {
	case !ok:
		missing(w, r, s.data.Tickets[0].ID)
	case err != nil || in.Resolution == "":
		answer(w, http.StatusBadRequest, problem("resolution is missing"))
	case t.State == "closed":
		answer(w, http.StatusConflict, problem("ticket %s is closed", t.ID))
	default:
		s.write(r, fmt.Sprintf("close %s %s", t.ID, in.Resolution))
		answer(w, http.StatusOK, map[string]any{"id": t.ID, "state": "closed"})
	}
}

func (s *Services) getSeries(w http.ResponseWriter, r *http.Request) {
	days := s.data.Series(r.PathValue("station"), r.URL.Query().Get("month"))
	if days == nil {
		answer(w, http.StatusNotFound, problem("there is no such series; months are %s", strings.Join(Months(), ", ")))
		return
	}
	rows := make([]map[string]any, len(days))
	for i, celsius := range days {
		rows[i] = map[string]any{"day": i + 1, "celsius": celsius}
	}
	answer(w, http.StatusOK, map[string]any{"station": r.PathValue("station"), "days": rows})
}

// getRate refuses the rates of LockedDate once in each world. The status is one
// that no client repeats by itself.
func (s *Services) getRate(w http.ResponseWriter, r *http.Request) {
	currency, date := r.PathValue("currency"), r.URL.Query().Get("date")
	rate, ok := Rates(currency, date)
	if !ok {
		answer(w, http.StatusNotFound, problem("there is no rate of %s on %s", currency, date))
		return
	}
	locked := false
	if date == LockedDate {
		s.in(r, func(w *State) {
			if locked = w.Locked == 0; locked {
				w.Locked++
			}
		})
	}
	if locked {
		answer(w, http.StatusConflict, problem("the rates of %s are being written at this moment; ask again", date))
		return
	}
	answer(w, http.StatusOK, map[string]any{"currency": currency, "date": date, "per_euro": rate})
}

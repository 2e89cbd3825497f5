// Package demo is what a new installation shows itself with: a toolset whose
// upstream is a small HTTP service beside the server, and a program that calls
// it. It works without the internet.
package demo

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"math"
	"net"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"
)

// Key is what the upstream wants to see in X-Demo-Key. It protects nothing;
// it shows that a credential arrives where it should.
const Key = "demo-key-of-the-bundled-upstream"

// Deps is what the upstream needs.
type Deps struct {
	// Listen is the address to serve on, of this machine only.
	Listen string
	Logger *slog.Logger
}

// Upstream is the bundled service. Its data is made up and never changes.
type Upstream struct {
	deps   Deps
	server *http.Server
	done   chan struct{}
}

// New returns the service and starts nothing.
func New(d Deps) *Upstream { return &Upstream{deps: d} }

// URL is where the service answers.
func URL(listen string) string { return "http://" + listen }

// Start serves until Stop. Where the service of another Portico already
// answers on the address, that one is used.
func (u *Upstream) Start(ctx context.Context) error {
	var lc net.ListenConfig
	l, err := lc.Listen(ctx, "tcp", u.deps.Listen)
	if err != nil {
		if running(ctx, u.deps.Listen) {
			u.deps.Logger.InfoContext(ctx, "the demo upstream of another process is used", "address", u.deps.Listen)
			return nil
		}
		return fmt.Errorf("demo upstream: %w; set DEMO_LISTEN to a free address, or DEMO_ENABLED=false", err)
	}
	u.server = &http.Server{Handler: Handler(), ReadHeaderTimeout: 5 * time.Second}
	u.done = make(chan struct{})
	go func() {
		defer close(u.done)
		if err := u.server.Serve(l); !errors.Is(err, http.ErrServerClosed) {
			u.deps.Logger.Error("demo upstream ended", "error", err)
		}
	}()
	return nil
}

// Stop ends the service.
func (u *Upstream) Stop(ctx context.Context) error {
	if u.server == nil {
		return nil
	}
	err := u.server.Shutdown(ctx)
	if err != nil {
		err = errors.Join(err, u.server.Close())
	}
	<-u.done
	u.server = nil
	return err
}

// running reports whether a demo upstream answers on an address.
func running(ctx context.Context, listen string) bool {
	ctx, cancel := context.WithTimeout(ctx, 2*time.Second)
	defer cancel()
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, URL(listen)+"/cities", nil)
	if err != nil {
		return false
	}
	r.Header.Set("X-Demo-Key", Key)
	resp, err := http.DefaultClient.Do(r)
	if err != nil {
		return false
	}
	defer resp.Body.Close()
	return resp.StatusCode == http.StatusOK && resp.Header.Get("Server") == serverName
}

const serverName = "portico-demo"

// city is one of the made-up facts.
type city struct {
	Name       string  `json:"name"`
	Country    string  `json:"country"`
	Currency   string  `json:"currency"`
	Population int     `json:"population"`
	warmth     float64 // mean temperature
}

func cities() []city {
	return []city{
		{"Cairo", "Egypt", "EGP", 10_100_000, 22},
		{"Lima", "Peru", "PEN", 10_300_000, 19},
		{"Lisbon", "Portugal", "EUR", 548_000, 17},
		{"Nairobi", "Kenya", "KES", 4_400_000, 18},
		{"Oslo", "Norway", "NOK", 717_000, 6},
		{"Quito", "Ecuador", "USD", 1_800_000, 14},
		{"Rome", "Italy", "EUR", 2_750_000, 16},
		{"Tokyo", "Japan", "JPY", 13_900_000, 16},
	}
}

// rates are units of a currency for one US dollar.
func rates() map[string]float64 {
	return map[string]float64{"USD": 1, "EUR": 0.9, "NOK": 10.5, "JPY": 150, "EGP": 48, "PEN": 3.75, "KES": 129}
}

// Handler is the service itself.
func Handler() http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("GET /cities", listCities)
	mux.HandleFunc("GET /cities/{name}/weather", weather)
	mux.HandleFunc("POST /convert", convert)
	mux.HandleFunc("POST /notes", note)
	mux.HandleFunc("GET /slow", slow)
	shopRoutes(mux)
	mux.HandleFunc("GET /outage", func(w http.ResponseWriter, _ *http.Request) {
		answer(w, http.StatusInternalServerError, map[string]any{"message": "This endpoint always fails, to show what a failed call looks like"})
	})
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Server", serverName)
		if r.Header.Get("X-Demo-Key") != Key {
			answer(w, http.StatusUnauthorized, map[string]any{"message": "X-Demo-Key is missing or wrong"})
			return
		}
		r.Body = http.MaxBytesReader(w, r.Body, 1<<20)
		mux.ServeHTTP(w, r)
	})
}

func answer(w http.ResponseWriter, status int, body any) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	_ = json.NewEncoder(w).Encode(body) // a client that is gone
}

func listCities(w http.ResponseWriter, r *http.Request) {
	least, _ := strconv.Atoi(r.URL.Query().Get("min_population")) // absent is 0
	var found []city
	for _, c := range cities() {
		if c.Population >= least {
			found = append(found, c)
		}
	}
	answer(w, http.StatusOK, map[string]any{"cities": found})
}

func weather(w http.ResponseWriter, r *http.Request) {
	all := cities()
	i := slices.IndexFunc(all, func(c city) bool { return strings.EqualFold(c.Name, r.PathValue("name")) })
	if i < 0 {
		answer(w, http.StatusNotFound, map[string]any{"message": fmt.Sprintf("There is no weather for %q", r.PathValue("name"))})
		return
	}
	days, err := strconv.Atoi(r.URL.Query().Get("days"))
	if err != nil || days < 1 || days > 14 {
		answer(w, http.StatusBadRequest, map[string]any{"message": "days must be 1 to 14"})
		return
	}
	forecast := make([]map[string]any, days)
	for d := range forecast {
		swing := 4 * math.Sin(float64(d+3*i))
		forecast[d] = map[string]any{
			"day": d + 1, "celsius": math.Round((all[i].warmth+swing)*10) / 10,
			"sky": []string{"clear", "cloudy", "rain"}[(d+i)%3],
		}
	}
	answer(w, http.StatusOK, map[string]any{"city": all[i].Name, "forecast": forecast})
}

func convert(w http.ResponseWriter, r *http.Request) {
	var in struct {
		Amount   float64 `json:"amount"`
		From, To string
	}
	if err := json.NewDecoder(r.Body).Decode(&in); err != nil {
		answer(w, http.StatusBadRequest, map[string]any{"message": "The body must be JSON"})
		return
	}
	from, knownFrom := rates()[in.From]
	to, knownTo := rates()[in.To]
	if !knownFrom || !knownTo {
		answer(w, http.StatusBadRequest, map[string]any{"message": "Unknown currency"})
		return
	}
	answer(w, http.StatusOK, map[string]any{"amount": math.Round(in.Amount/from*to*100) / 100, "currency": in.To})
}

func note(w http.ResponseWriter, r *http.Request) {
	title, text := r.FormValue("title"), r.FormValue("text")
	answer(w, http.StatusOK, map[string]any{"saved": title, "characters": len([]rune(text))})
}

func slow(w http.ResponseWriter, r *http.Request) {
	ms, err := strconv.Atoi(r.URL.Query().Get("ms"))
	if err != nil || ms < 0 || ms > 10_000 {
		answer(w, http.StatusBadRequest, map[string]any{"message": "ms must be 0 to 10000"})
		return
	}
	timer := time.NewTimer(time.Duration(ms) * time.Millisecond)
	defer timer.Stop()
	select {
	case <-timer.C:
		answer(w, http.StatusOK, map[string]any{"waited": ms})
	case <-r.Context().Done():
	}
}

package vendorstest

import (
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"sync"
	"testing"
)

// Apify starts a stand-in for Apify: a run takes two questions. The manager
// "Nobody" makes it fail, "Cheap" gives it no bill; the others hold 1,500 rows.
func Apify(t testing.TB) *Server {
	t.Helper()
	type run struct {
		manager string
		asked   int
		status  string
	}
	var mu sync.Mutex
	runs := map[string]*run{}
	wire := func(id string) object {
		r := runs[id]
		out := object{
			"id": id, "actId": "act1", "userId": "user1", "startedAt": "2026-01-01T00:00:00.000Z", "status": r.status, "defaultDatasetId": "ds" + id,
			"defaultKeyValueStoreId": "kv1", "defaultRequestQueueId": "rq1", "buildId": "b1", "buildNumber": "0.0.1", "meta": object{"origin": "API"},
			"stats":   object{"restartCount": 0, "resurrectCount": 0, "computeUnits": 0.1, "migrationCount": 0, "rebootCount": 0},
			"options": object{"build": "latest", "timeoutSecs": 300, "memoryMbytes": 1024, "diskMbytes": 2048}, "generalAccess": "RESTRICTED",
		}
		if r.status == "FAILED" {
			out["statusMessage"] = "There is no such manager"
		}
		if r.manager != "Cheap" {
			out["usageTotalUsd"] = 0.03
		}
		return out
	}
	mux := http.NewServeMux()
	begin := func(w http.ResponseWriter, r *http.Request) {
		body := read(r)
		if body["manager_name"] == nil || body["quarter_year"] == nil {
			apifyError(w, http.StatusBadRequest, "invalid-input", "Input is not valid: Field input.manager_name is required")
			return
		}
		mu.Lock()
		defer mu.Unlock()
		id := fmt.Sprintf("run%014d", len(runs)+1)
		runs[id] = &run{manager: fmt.Sprint(body["manager_name"]), status: "READY"}
		answer(w, http.StatusCreated, object{"data": wire(id)})
	}
	mux.HandleFunc("POST /v2/acts/{actor}/runs", begin)
	mux.HandleFunc("POST /v2/actors/{actor}/runs", begin)
	mux.HandleFunc("GET /v2/actor-runs/{id}", func(w http.ResponseWriter, r *http.Request) {
		mu.Lock()
		defer mu.Unlock()
		found, ok := runs[r.PathValue("id")]
		if !ok {
			apifyError(w, http.StatusNotFound, "record-not-found", "Actor run was not found")
			return
		}
		found.asked++
		switch {
		case found.status == "ABORTED":
		case found.asked == 1:
			found.status = "RUNNING"
		case found.manager == "Nobody":
			found.status = "FAILED"
		default:
			found.status = "SUCCEEDED"
		}
		answer(w, http.StatusOK, object{"data": wire(r.PathValue("id"))})
	})
	mux.HandleFunc("POST /v2/actor-runs/{id}/abort", func(w http.ResponseWriter, r *http.Request) {
		mu.Lock()
		defer mu.Unlock()
		if found := runs[r.PathValue("id")]; found != nil {
			found.status = "ABORTED"
			answer(w, http.StatusOK, object{"data": wire(r.PathValue("id"))})
		}
	})
	mux.HandleFunc("GET /v2/datasets/{id}/items", func(w http.ResponseWriter, r *http.Request) {
		mu.Lock()
		found := runs[strings.TrimPrefix(r.PathValue("id"), "ds")]
		mu.Unlock()
		if found == nil {
			apifyError(w, http.StatusNotFound, "record-not-found", "Dataset was not found")
			return
		}
		total := 1500
		if found.manager == "Cheap" {
			total = 2
		}
		offset, _ := strconv.Atoi(r.URL.Query().Get("offset"))
		limit, err := strconv.Atoi(r.URL.Query().Get("limit"))
		if err != nil {
			limit = total
		}
		items := []object{}
		for i := offset; i < min(offset+limit, total); i++ {
			items = append(items, object{"issuer": fmt.Sprintf("Company %d, \"Inc\"", i), "shares": 1000 + i})
		}
		for name, n := range map[string]int{"Total": total, "Offset": offset, "Limit": limit, "Count": len(items)} {
			w.Header().Set("X-Apify-Pagination-"+name, strconv.Itoa(n))
		}
		w.Header().Set("X-Apify-Pagination-Desc", "false")
		answer(w, http.StatusOK, items)
	})
	return start(t, mux, func(w http.ResponseWriter) {
		apifyError(w, http.StatusUnauthorized, "user-or-token-not-found", "User was not found or authentication token is not valid")
	})
}

func apifyError(w http.ResponseWriter, status int, kind, message string) {
	answer(w, status, object{"error": object{"type": kind, "message": message}})
}

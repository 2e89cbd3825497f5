package services_test

import (
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/portico-run/portico/dev/services"
)

// send makes a request with a credential.
func send(t *testing.T, s *services.Services, world, request string, body string) (status int, answer string) {
	t.Helper()
	method, path, _ := strings.Cut(request, " ")
	r := httptest.NewRequestWithContext(t.Context(), method, path, strings.NewReader(body))
	r.Header.Set("Authorization", "Bearer "+world)
	w := httptest.NewRecorder()
	s.ServeHTTP(w, r)
	return w.Code, w.Body.String()
}

// What is changed in one world is seen there, and in no other one.
func TestWorldsAreApart(t *testing.T) {
	t.Parallel()
	s := services.New()
	status, _ := send(t, s, "one", "GET /orders/O-1013", "")
	require.Equal(t, http.StatusUnauthorized, status, "there is no such world")
	s.Reset("one")
	s.Reset("two")
	for _, request := range []string{"POST /orders/O-1013/cancel", "POST /items/SKU-01/reserve", "POST /tickets/T-01/close"} {
		status, answer := send(t, s, "one", request, `{"quantity": 2, "resolution": "stale"}`)
		require.Equal(t, http.StatusOK, status, answer)
	}
	require.Equal(t, []string{"cancel O-1013", "reserve SKU-01 2", "close T-01 stale"}, s.State("one").Writes)
	require.Empty(t, s.State("two").Writes)
	_, answer := send(t, s, "one", "GET /orders/O-1013", "")
	require.Contains(t, answer, `"status":"cancelled"`)
	_, answer = send(t, s, "two", "GET /orders/O-1013", "")
	require.NotContains(t, answer, `"status":"cancelled"`)
	status, _ = send(t, s, "one", "POST /tickets/T-01/close", `{"resolution": "stale"}`)
	require.Equal(t, http.StatusConflict, status)
	s.Reset("one")
	require.Empty(t, s.State("one").Writes)
	_, answer = send(t, s, "one", "GET /tickets/T-01", "")
	require.Contains(t, answer, `"state":"open"`)
}

// The rates of one date are refused once in each world.
func TestRatesAreLockedOnce(t *testing.T) {
	t.Parallel()
	s := services.New()
	for _, world := range []string{"one", "two"} {
		s.Reset(world)
		for n, want := range []int{http.StatusConflict, http.StatusOK, http.StatusOK} {
			status, _ := send(t, s, world, "GET /rates/NOK?date="+services.LockedDate, "")
			require.Equal(t, want, status)
			require.Equal(t, 1, s.State(world).Locked, n)
		}
		status, _ := send(t, s, world, "GET /rates/NOK?date=2026-02-27", "")
		require.Equal(t, http.StatusOK, status)
	}
}

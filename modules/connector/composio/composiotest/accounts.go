package composiotest

import (
	"encoding/json"
	"fmt"
	"net/http"
	"slices"
	"strings"
)

func (a account) wire() map[string]any {
	return map[string]any{
		"id": a.id, "user_id": a.user, "status": a.status, "status_reason": nil, "toolkit": map[string]any{"slug": a.toolkit},
		"auth_config": map[string]any{"id": a.config, "auth_scheme": "OAUTH2", "is_composio_managed": true, "is_disabled": false},
		"data":        map[string]any{}, "is_disabled": false, "created_at": "2026-01-01T00:00:00Z", "updated_at": "2026-01-01T00:00:00Z",
	}
}

func (s *Server) listAccounts(w http.ResponseWriter, r *http.Request) {
	q := r.URL.Query()
	items := []map[string]any{}
	s.mu.Lock()
	for _, a := range s.accounts {
		if in(q.Get("user_ids"), a.user) && in(q.Get("toolkit_slugs"), a.toolkit) && in(q.Get("statuses"), a.status) {
			items = append(items, a.wire())
		}
	}
	s.mu.Unlock()
	answer(w, http.StatusOK, map[string]any{"items": items, "next_cursor": nil, "total_pages": 1, "current_page": 1, "total_items": len(items)})
}

func in(list, value string) bool {
	return list == "" || slices.Contains(strings.Split(list, ","), value)
}

func (s *Server) account(w http.ResponseWriter, r *http.Request) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, a := range s.accounts {
		if a.id == r.PathValue("id") {
			answer(w, http.StatusOK, a.wire())
			return
		}
	}
	refuse(w, http.StatusNotFound, 1811, "Connected account not found", "Check the id.")
}

func (s *Server) connect(w http.ResponseWriter, r *http.Request) {
	var body struct {
		AuthConfig struct {
			ID string `json:"id"`
		} `json:"auth_config"`
		Connection struct {
			UserID string `json:"user_id"`
			State  struct {
				Scheme string            `json:"authScheme"`
				Val    map[string]string `json:"val"`
			} `json:"state"`
		} `json:"connection"`
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if json.NewDecoder(r.Body).Decode(&body) != nil || body.Connection.UserID == "" || s.config(body.AuthConfig.ID) == "" {
		refuse(w, http.StatusBadRequest, 1800, "Invalid request", "Send auth_config and connection.")
		return
	}
	toolkit := s.config(body.AuthConfig.ID)
	key := body.Connection.State.Val["api_key"] + body.Connection.State.Val["generic_api_key"]
	if body.Connection.State.Scheme != "API_KEY" || key == "" {
		refuse(w, http.StatusBadRequest, 600, "Use POST /connected_accounts/link for this scheme", "Use link.")
		return
	}
	a := account{id: fmt.Sprintf("ca_%s_%d", toolkit, len(s.accounts)+1), user: body.Connection.UserID, toolkit: toolkit, status: "ACTIVE", config: body.AuthConfig.ID, key: key}
	s.accounts = append(s.accounts, a)
	answer(w, http.StatusCreated, map[string]any{"id": a.id, "status": "ACTIVE", "connectionData": map[string]any{"authScheme": "API_KEY", "val": map[string]any{"status": "ACTIVE"}}})
}

func (s *Server) link(w http.ResponseWriter, r *http.Request) {
	var body struct {
		AuthConfigID string `json:"auth_config_id"`
		UserID       string `json:"user_id"`
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if json.NewDecoder(r.Body).Decode(&body) != nil || body.UserID == "" || s.config(body.AuthConfigID) == "" {
		refuse(w, http.StatusBadRequest, 1800, "Invalid request", "Send auth_config_id and user_id.")
		return
	}
	s.links++
	redirect := fmt.Sprintf("%s/link/lk_%d", s.URL, s.links)
	if s.Redirect != nil {
		redirect = *s.Redirect
	}
	answer(w, http.StatusCreated, map[string]any{
		"link_token": fmt.Sprintf("lk_%d", s.links), "redirect_url": redirect,
		"expires_at": "2030-01-01T00:00:00Z", "connected_account_id": fmt.Sprintf("ca_pending_%d", s.links),
	})
}

func (s *Server) disconnect(w http.ResponseWriter, r *http.Request) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for i := range s.accounts {
		if s.accounts[i].id == r.PathValue("id") {
			s.accounts[i].status = "INACTIVE"
			answer(w, http.StatusOK, map[string]any{"success": true})
			return
		}
	}
	refuse(w, http.StatusNotFound, 1811, "Connected account not found", "Check the id.")
}

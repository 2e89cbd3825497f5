package composiotest

import (
	"encoding/json"
	"net/http"
	"slices"
	"strconv"
	"strings"
)

func (s *Server) listTools(w http.ResponseWriter, r *http.Request) {
	var items []map[string]any
	slugs := strings.Split(r.URL.Query().Get("tool_slugs"), ",")
	for _, t := range s.Tools {
		toolkit := r.URL.Query().Get("toolkit_slug")
		if toolkit == "" || t["toolkit"].(map[string]any)["slug"] == toolkit {
			if slugs[0] == "" || slices.Contains(slugs, t["slug"].(string)) {
				items = append(items, t)
			}
		}
	}
	from, _ := strconv.Atoi(r.URL.Query().Get("cursor"))
	from = min(from, len(items))
	to := min(from+s.PageSize, len(items))
	page := map[string]any{"items": items[from:to], "total_items": len(items), "total_pages": 1, "current_page": 1, "next_cursor": nil}
	if to < len(items) {
		page["next_cursor"] = strconv.Itoa(to)
	}
	answer(w, http.StatusOK, page)
}

func (s *Server) find(slug string) map[string]any {
	for _, t := range s.Tools {
		if t["slug"] == slug {
			return t
		}
	}
	return nil
}

func (s *Server) tool(w http.ResponseWriter, r *http.Request) {
	if t := s.find(r.PathValue("slug")); t != nil {
		answer(w, http.StatusOK, t)
		return
	}
	refuse(w, http.StatusNotFound, 2401, "Tool not found", "Check the slug.")
}

func (s *Server) execute(w http.ResponseWriter, r *http.Request) {
	var in struct {
		AccountID string         `json:"connected_account_id"`
		UserID    string         `json:"user_id"`
		Arguments map[string]any `json:"arguments"`
		Version   string         `json:"version"`
	}
	slug := r.PathValue("slug")
	t := s.find(slug)
	if json.NewDecoder(r.Body).Decode(&in) != nil || in.UserID == "" || t == nil {
		refuse(w, http.StatusBadRequest, 2400, "Invalid request", "Send user_id and arguments.")
		return
	}
	s.mu.Lock()
	i := slices.IndexFunc(s.accounts, func(a account) bool { return a.id == in.AccountID && a.status == "ACTIVE" })
	switch {
	case t["no_auth"] == true:
	case i < 0:
		s.mu.Unlock()
		refuse(w, http.StatusBadRequest, 1803, "No connected account found for this user", "Connect the account first.")
		return
	case s.accounts[i].user != in.UserID:
		s.mu.Unlock()
		refuse(w, http.StatusForbidden, 1812, "The account belongs to another user", "Send the user of the account.")
		return
	}
	s.mu.Unlock()
	data, failure := s.Run(slug, in.Arguments)
	out := map[string]any{"data": data, "error": nil, "successful": failure == "", "log_id": "log_1"}
	if failure != "" {
		out["error"] = failure
	}
	answer(w, http.StatusOK, out)
}

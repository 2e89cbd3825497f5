package composiotest

import (
	"encoding/json"
	"fmt"
	"net/http"
)

// config is the toolkit of a way to authenticate; empty for none.
func (s *Server) config(id string) string {
	for _, c := range s.configs {
		if c["id"] == id {
			return c["toolkit"].(map[string]any)["slug"].(string)
		}
	}
	return ""
}

func (s *Server) listConfigs(w http.ResponseWriter, r *http.Request) {
	items := []map[string]any{}
	s.mu.Lock()
	for _, c := range s.configs {
		if in(r.URL.Query().Get("toolkit_slug"), c["toolkit"].(map[string]any)["slug"].(string)) {
			items = append(items, c)
		}
	}
	s.mu.Unlock()
	answer(w, http.StatusOK, map[string]any{"items": items, "next_cursor": nil, "total_pages": 1, "current_page": 1, "total_items": len(items)})
}

func (s *Server) makeConfig(w http.ResponseWriter, r *http.Request) {
	var body struct {
		Toolkit    map[string]any `json:"toolkit"`
		AuthConfig struct {
			Type   string `json:"type"`
			Scheme string `json:"authScheme"`
		} `json:"auth_config"`
	}
	if json.NewDecoder(r.Body).Decode(&body) != nil || body.Toolkit["slug"] == nil || body.AuthConfig.Type == "" {
		refuse(w, http.StatusBadRequest, 300, "Invalid request", "Send toolkit and auth_config.")
		return
	}
	if body.AuthConfig.Scheme == "" {
		body.AuthConfig.Scheme = "OAUTH2"
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	c := map[string]any{
		"id": fmt.Sprintf("ac_%d", len(s.configs)+1), "toolkit": body.Toolkit, "auth_scheme": body.AuthConfig.Scheme,
		"is_composio_managed": body.AuthConfig.Type == "use_composio_managed_auth",
	}
	s.configs = append(s.configs, c)
	answer(w, http.StatusCreated, map[string]any{"toolkit": body.Toolkit, "auth_config": c})
}

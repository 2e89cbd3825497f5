// Package composiotest is a stand-in for the Composio service: it speaks the
// wire format of the API, version 3, and keeps what it was asked.
package composiotest

import (
	"crypto/md5"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
)

// Key is the API key that the stand-in takes.
const Key = "ak_composio_test_key"

// Server is the stand-in. Its fields may be changed before the first request.
type Server struct {
	*httptest.Server
	// Redirect is what a link answers instead of its address; nil for the address.
	Redirect *string
	// Tools are those of every toolkit.
	Tools []map[string]any
	// PageSize is the most tools of a page.
	PageSize int
	// Run is what executing a tool comes to.
	Run func(slug string, arguments map[string]any) (data map[string]any, failure string)

	mu       sync.Mutex
	accounts []account
	configs  []map[string]any
	files    map[string][]byte
	requests []string
	links    int
	fail     func(w http.ResponseWriter, r *http.Request) bool
}

type account struct{ id, user, toolkit, status, config, key string }

// Start runs the stand-in until the test ends.
func Start(t testing.TB) *Server {
	t.Helper()
	s := &Server{Tools: tools(), PageSize: 2, Run: run, files: map[string][]byte{}}
	mux := http.NewServeMux()
	for _, version := range []string{"/api/v3", "/api/v3.1"} {
		mux.HandleFunc("GET "+version+"/tools", s.listTools)
		mux.HandleFunc("GET "+version+"/tools/{slug}", s.tool)
		mux.HandleFunc("POST "+version+"/tools/execute/{slug}", s.execute)
		mux.HandleFunc("GET "+version+"/connected_accounts", s.listAccounts)
		mux.HandleFunc("POST "+version+"/connected_accounts", s.connect)
		mux.HandleFunc("POST "+version+"/connected_accounts/link", s.link)
		mux.HandleFunc("GET "+version+"/connected_accounts/{id}", s.account)
		mux.HandleFunc("DELETE "+version+"/connected_accounts/{id}", s.disconnect)
		mux.HandleFunc("GET "+version+"/auth_configs", s.listConfigs)
		mux.HandleFunc("POST "+version+"/auth_configs", s.makeConfig)
		mux.HandleFunc("POST "+version+"/files/upload/request", s.requestUpload)
	}
	mux.HandleFunc("PUT /storage/{key}", s.put)
	mux.HandleFunc("GET /storage/{key}", s.get)
	s.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		s.mu.Lock()
		s.requests = append(s.requests, r.Method+" "+r.URL.Path)
		fail := s.fail
		s.mu.Unlock()
		if fail != nil && fail(w, r) {
			return
		}
		if strings.HasPrefix(r.URL.Path, "/api/") && r.Header.Get("X-Api-Key") != Key {
			refuse(w, http.StatusUnauthorized, 10401, "Invalid API key", "Check the key.")
			return
		}
		mux.ServeHTTP(w, r)
	}))
	t.Cleanup(s.Close)
	return s
}

// Fail lets a test answer some requests itself; nil ends that.
func (s *Server) Fail(with func(w http.ResponseWriter, r *http.Request) bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.fail = with
}

// Requests counts the requests whose method and path begin so.
func (s *Server) Requests(prefix string) (n int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, r := range s.requests {
		if strings.HasPrefix(r, prefix) {
			n++
		}
	}
	return n
}

// Agree is a user who connects an account at a service.
func (s *Server) Agree(user, toolkit string) string {
	s.mu.Lock()
	defer s.mu.Unlock()
	id := fmt.Sprintf("ca_%s_%d", toolkit, len(s.accounts)+1)
	s.accounts = append(s.accounts, account{id: id, user: user, toolkit: toolkit, status: "ACTIVE"})
	return id
}

// Accounts counts the accounts of a user that are active.
func (s *Server) Accounts(user string) (n int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, a := range s.accounts {
		if a.user == user && a.status == "ACTIVE" {
			n++
		}
	}
	return n
}

// Store keeps a file at the service and returns its address.
func (s *Server) Store(key string, content []byte) string {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.files[key] = content
	return s.URL + "/storage/" + key
}

// File is a file that was stored at the service.
func (s *Server) File(key string) []byte {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.files[key]
}

func answer(w http.ResponseWriter, status int, v any) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	_ = json.NewEncoder(w).Encode(v) // a client that went away
}

func refuse(w http.ResponseWriter, status, code int, message, fix string) {
	answer(w, status, map[string]any{"error": map[string]any{
		"message": message, "code": code, "slug": "Error", "status": status, "request_id": "req_test_1", "suggested_fix": fix,
	}})
}

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

func (s *Server) requestUpload(w http.ResponseWriter, r *http.Request) {
	var body struct{ Filename, Mimetype, MD5, ToolSlug string }
	raw, err := io.ReadAll(r.Body)
	if err != nil || json.Unmarshal(raw, &body) != nil || body.Filename == "" || body.Mimetype == "" || len(body.MD5) != 2*md5.Size {
		refuse(w, http.StatusBadRequest, 2600, "Invalid request", "Send filename, mimetype and md5.")
		return
	}
	key := body.MD5 + "-" + body.Filename
	url := s.URL + "/storage/" + key
	answer(w, http.StatusCreated, map[string]any{"id": "req_file_1", "key": key, "type": "new", "new_presigned_url": url, "newPresignedUrl": url, "metadata": map[string]any{"storage_backend": "s3"}})
}

func (s *Server) put(w http.ResponseWriter, r *http.Request) {
	content, err := io.ReadAll(r.Body)
	sum := md5.Sum(content)
	if err != nil || !strings.HasPrefix(r.PathValue("key"), hex.EncodeToString(sum[:])) || r.Header.Get("X-Api-Key") != "" {
		w.WriteHeader(http.StatusForbidden)
		return
	}
	s.Store(r.PathValue("key"), content)
}

func (s *Server) get(w http.ResponseWriter, r *http.Request) {
	content := s.File(r.PathValue("key"))
	if content == nil {
		w.WriteHeader(http.StatusNotFound)
		return
	}
	w.Header().Set("Content-Type", "application/octet-stream")
	_, _ = w.Write(content) // a client that went away
}

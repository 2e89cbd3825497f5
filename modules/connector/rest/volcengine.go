package rest

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/portico-run/portico/internal/upstream"
	"github.com/portico-run/portico/modules/tool"
	"github.com/portico-run/portico/modules/toolset"
)

// sign puts the signature of a request into its headers, for credentials that
// are never sent: Volcengine's, which is Amazon's version 4 with other words
// (docs/wire/providers.md#volcengine-signatures). It comes last, since it covers
// what is sent.
func (p *request) sign(c toolset.Credential, now time.Time) error {
	if c.Type != toolset.Volcengine {
		return nil
	}
	u, err := url.Parse(p.URL)
	if err != nil {
		return err
	}
	region, service, _ := strings.Cut(c.Name, "/")
	date := now.UTC().Format("20060102T150405Z")
	scope := strings.Join([]string{date[:8], region, service, "request"}, "/")
	body := sha256.Sum256(p.Body)
	signed := map[string]string{"host": u.Host, "x-date": date, "x-content-sha256": hex.EncodeToString(body[:])}
	if kind := p.Header.Get("Content-Type"); kind != "" {
		signed["content-type"] = kind
	}
	names := make([]string, 0, len(signed))
	for name := range signed {
		names = append(names, name)
	}
	slices.Sort(names)
	path := u.EscapedPath()
	if path == "" {
		path = "/"
	}
	canonical := []string{p.Method, path, strings.ReplaceAll(u.Query().Encode(), "+", "%20")}
	for _, name := range names {
		canonical = append(canonical, name+":"+signed[name])
	}
	canonical = append(canonical, "", strings.Join(names, ";"), signed["x-content-sha256"])
	whole := sha256.Sum256([]byte(strings.Join(canonical, "\n")))
	key := []byte(c.Value.Reveal())
	for _, part := range []string{date[:8], region, service, "request"} {
		key = mac(key, part)
	}
	signature := mac(key, strings.Join([]string{"HMAC-SHA256", date, scope, hex.EncodeToString(whole[:])}, "\n"))
	p.Header.Set("X-Date", date)
	p.Header.Set("X-Content-Sha256", signed["x-content-sha256"])
	p.Header.Set("Authorization", fmt.Sprintf("HMAC-SHA256 Credential=%s/%s, SignedHeaders=%s, Signature=%s", c.Username, scope, strings.Join(names, ";"), hex.EncodeToString(signature)))
	return nil
}

func mac(key []byte, text string) []byte {
	h := hmac.New(sha256.New, key)
	_, _ = h.Write([]byte(text)) // a hash takes everything
	return h.Sum(nil)
}

// Codes of Volcengine's answers.
const (
	volcengineOK       = 10000
	volcengineBadImage = 50501
)

// volcengineFailure reads an answer of Volcengine's, which says in a success that
// it is none. Nil is a success.
func volcengineFailure(got upstream.Response) *tool.Failure {
	var outer struct {
		Code    *int   `json:"code"`
		Message string `json:"message"`
		Data    struct {
			Inner string `json:"resp_data"`
		} `json:"data"`
	}
	if answered := json.Unmarshal(got.Body, &outer) == nil; !answered {
		return nil // its status decides
	}
	code, message := volcengineOK, outer.Message
	if outer.Code != nil {
		code = *outer.Code
	}
	if code == volcengineOK && outer.Data.Inner != "" {
		var inner struct {
			Code int    `json:"code"`
			Msg  string `json:"msg"`
		}
		if json.Unmarshal([]byte(outer.Data.Inner), &inner) == nil && inner.Code != 0 {
			code, message = inner.Code, inner.Msg
		}
	}
	switch code {
	case volcengineOK:
		return nil
	case volcengineBadImage:
		return &tool.Failure{Code: "VOLCENGINE_INVALID_INPUT_IMAGE", Message: "The input image is not suitable for this tool; give another one. Volcengine: " + message, Data: got.Body}
	}
	return &tool.Failure{Code: "VOLCENGINE_API_ERROR", Message: fmt.Sprintf("Volcengine: %s (code %d).", message, code), Data: got.Body}
}

// checked is what an answer came to before its status is looked at.
func checked(c toolset.Credential, got upstream.Response) *tool.Failure {
	if c.Type != toolset.Volcengine || got.Status == http.StatusTooManyRequests {
		return nil
	}
	return volcengineFailure(got)
}

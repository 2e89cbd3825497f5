package app_test

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"mime/multipart"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/golang-jwt/jwt/v5"
	"github.com/stretchr/testify/require"

	"github.com/portico-run/portico/configs"
	"github.com/portico-run/portico/internal/database"
	"github.com/portico-run/portico/internal/database/databasetest"
	"github.com/portico-run/portico/internal/money"
	"github.com/portico-run/portico/internal/testenv"
	"github.com/portico-run/portico/modules/account/hosttoken/hosttokentest"
	"github.com/portico-run/portico/modules/billing"
)

// oneLine is a PEM block as a variable of one line has it.
func oneLine(pem string) string { return strings.ReplaceAll(pem, "\n", `\n`) }

const defaultKeyID = "lc-codeapi-2026-05"

// bearer is the header of a token.
func bearer(token string) []string { return []string{"Authorization", "Bearer " + token} }

// whose runs a program as the person of a token and says which user it was.
func (s *instance) whose(token string) string {
	s.t.Helper()
	e := s.codeAs("", "/exec", map[string]any{"lang": "bash", "code": "true"}, bearer(token)...)
	require.Equal(s.t, 200, e.code, "%+v", e)
	var uid string
	matches := regexp.MustCompile(`msg=request .*uid=(u-\w+)`).FindAllStringSubmatch(s.log.String(), -1)
	require.NotEmpty(s.t, matches)
	uid = matches[len(matches)-1][1]
	return uid
}

// refused tries a token on a route and returns what is said.
func (s *instance) refused(token string) string {
	s.t.Helper()
	e := s.codeAs("", "/exec", map[string]any{"lang": "bash", "code": "true"}, bearer(token)...)
	require.Equal(s.t, 401, e.code, "%+v", e)
	return e.Error
}

func TestSignedTokensOfEachAlgorithm(t *testing.T) {
	testenv.Slow(t, "a whole server at work")
	t.Parallel()
	ed, rs := hosttokentest.New(t, defaultKeyID), hosttokentest.NewRSA(t, "rsa-2026")
	secret := strings.Repeat("shared", 8)
	shared := hosttokentest.NewHS256("hs256-dev", secret)
	folder := t.TempDir()
	require.NoError(t, os.WriteFile(filepath.Join(folder, "rsa-2026.pem"), []byte(rs.Public(t)), 0o600))
	each(t, func(t *testing.T, s *instance) {
		uids := map[string]bool{}
		for _, h := range []hosttokentest.Host{ed, rs, shared} {
			token := h.For(t, "anna")
			uids[s.whose(token)], uids[s.whose(token)] = true, true // one token serves many requests
		}
		require.Len(t, uids, 1, "who somebody is does not follow from the key")
		now := time.Now().Unix()
		unsigned := jwt.NewWithClaims(jwt.SigningMethodNone, hosttokentest.Claims("anna"))
		unsigned.Header["kid"] = defaultKeyID
		none, err := unsigned.SignedString(jwt.UnsafeAllowNoneSignatureType)
		require.NoError(t, err)
		for name, token := range map[string]string{
			"expired":                ed.For(t, "anna", map[string]any{"iat": now - 300, "nbf": now - 300, "exp": now - 60}),
			"not yet valid":          ed.For(t, "anna", map[string]any{"nbf": now + 60}),
			"too long a life":        ed.For(t, "anna", map[string]any{"exp": now + 600}),
			"wrong audience":         ed.For(t, "anna", map[string]any{"aud": "another"}),
			"wrong issuer":           ed.For(t, "anna", map[string]any{"iss": "another"}),
			"nobody":                 ed.For(t, "anna", map[string]any{"sub": nil}),
			"unknown kid":            hosttokentest.New(t, "another").For(t, "anna"),
			"another key":            hosttokentest.New(t, defaultKeyID).For(t, "anna"),
			"public key as a secret": hosttokentest.NewHS256("rsa-2026", rs.Public(t)).For(t, "anna"),
			"unsigned":               none,
			"too long":               ed.For(t, "anna", map[string]any{"jti": strings.Repeat("x", 9000)}),
			"secret of sessions":     hosttokentest.NewHS256("hs256-dev", strings.Repeat("s", 32)).For(t, "anna"),
		} {
			require.Equal(t, "Invalid bearer token", s.refused(token), name)
		}
		require.Contains(t, s.log.String(), "a host's token was refused")
		for _, part := range strings.Split(ed.For(t, "anna"), ".")[:1] {
			require.NotContains(t, s.log.String(), part, "no token is in the log")
		}
		require.Equal(t, 1, s.count("SELECT count(*) FROM external_identities"))

		// The tokens are for code, and for nothing else.
		token := ed.For(t, "anna")
		for _, route := range []string{"/v1/tool/inventory/list", "/v1/auth/cli/api-key", "/v1/drive/file/list?canvasId=c-1", "/v1/credit/balance"} {
			a := s.send("", "GET", route, nil, bearer(token)...)
			require.Equal(t, 403, a.status, route)
			require.Equal(t, "This token is for the code interpreter API only.", a.body.ErrMsg)
		}
		require.Equal(t, 403, s.send("", "POST", "/v1/tool/execute", `{"toolsetKey":"demo","toolName":"get_weather","arguments":{"city":"Rome"}}`, bearer(token)...).status)
		require.Equal(t, 403, s.send("", "POST", "/v1/sandbox/execute", `{"language":"python","code":"1"}`, bearer(token)...).status)

		// Keys and sessions go on as before.
		require.Equal(t, 200, s.code("/exec", map[string]any{"lang": "bash", "code": "true"}).code)
		_, session, _ := portico(t, s.env, "user", "token", "admin")
		require.Equal(t, 200, s.send("", "GET", "/v1/credit/balance", nil, bearer(strings.TrimSpace(session))...).status)
		require.Equal(t, 200, s.codeAs("", "/exec", map[string]any{"lang": "bash", "code": "true"}, bearer(strings.TrimSpace(session))...).code)
	}, "CODEAPI_JWT_PUBLIC_KEY="+oneLine(ed.Public(t)), "CODEAPI_JWT_PUBLIC_KEYS_DIR="+folder, "CODEAPI_JWT_HS256_SECRET="+secret)
}

// Where nobody configured a key, the answer says what is missing, also where
// callers without a credential are let in.
func TestSignedTokensWithoutAKey(t *testing.T) {
	testenv.Slow(t, "a whole server at work")
	t.Parallel()
	for _, auth := range []string{"true", "false"} {
		s := serve(t, databasetest.URL(t, database.SQLite), "CODEAPI_AUTH="+auth)
		e := s.codeAs("", "/exec", map[string]any{"lang": "bash", "code": "true"}, bearer(hosttokentest.New(t, defaultKeyID).For(t, "anna"))...)
		require.Equal(t, 401, e.code)
		require.Contains(t, e.Message, "CODEAPI_JWT_PUBLIC_KEY")
	}
	ed := hosttokentest.New(t, defaultKeyID)
	s := serve(t, databasetest.URL(t, database.SQLite), "CODEAPI_AUTH=false", "CODEAPI_JWT_PUBLIC_KEY="+ed.Public(t))
	require.Equal(t, 200, s.codeAs("", "/exec", map[string]any{"lang": "bash", "code": "true"}).code, "nobody in particular")
	require.Zero(t, s.count("SELECT count(*) FROM external_identities"))
	s.whose(ed.For(t, "anna"))
	require.Equal(t, 1, s.count("SELECT count(*) FROM external_identities"))
	require.Equal(t, "Invalid bearer token", s.refused(hosttokentest.New(t, defaultKeyID).For(t, "anna")), "a bad token is not nobody's")
	for _, another := range [][]string{{"user", "create", "root"}, {"user", "role", "root", "admin"}} { // one administrator stays
		code, _, errs := portico(t, s.env, another...)
		require.Zero(t, code, errs)
	}
	code, _, errs := portico(t, s.env, "user", "disable", "admin")
	require.Zero(t, code, errs)
	require.Eventually(t, func() bool {
		return s.codeAs("", "/exec", map[string]any{"lang": "bash", "code": "true"}).code == 401
	}, 10*time.Second, 50*time.Millisecond, "within a second: the command is another process to the server")
}

func TestTwoCredentialsAtOnce(t *testing.T) {
	testenv.Slow(t, "a whole server at work")
	t.Parallel()
	ed := hosttokentest.New(t, defaultKeyID)
	s := serve(t, databasetest.URL(t, database.SQLite), "CODEAPI_JWT_PUBLIC_KEY="+oneLine(ed.Public(t)))
	program := map[string]any{"lang": "bash", "code": "true"}
	for _, path := range []string{"/exec", "/v1/exec"} {
		e := s.code(path, program, bearer(ed.For(t, "anna"))...)
		require.Equal(t, 400, e.code)
		require.Equal(t, "Ambiguous authentication headers", e.Error)
		require.Equal(t, 200, s.code(path, program, bearer(s.key)...).code, "the same key twice is one credential")
		// What a proxy in front adds for itself says nothing about the caller.
		require.Equal(t, 200, s.code(path, program, "Authorization", "Basic "+base64.StdEncoding.EncodeToString([]byte("proxy:x"))).code)
	}
	require.Equal(t, 400, s.send(s.key, "GET", "/files/"+strings.Repeat("x", 21), nil, bearer(ed.For(t, "anna"))...).status)
}

// A host may only name the machine that it signed for.
func TestWorkerOfTheToken(t *testing.T) {
	testenv.Slow(t, "a whole server at work")
	t.Parallel()
	ed := hosttokentest.New(t, defaultKeyID)
	s := serve(t, databasetest.URL(t, database.SQLite), "CODEAPI_JWT_PUBLIC_KEY="+oneLine(ed.Public(t)))
	program := map[string]any{"lang": "bash", "code": "true"}
	try := func(worker string, key string, token ...string) ended {
		return s.codeAs(key, "/exec", program, append(token, "X-LibreChat-Code-Worker-ID", worker)...)
	}
	mine := bearer(ed.For(t, "anna", map[string]any{"code_worker_id": "w-1"}))
	require.Equal(t, 200, try("w-1", "", mine...).code)
	for _, e := range []ended{try("w-2", "", mine...), try("w-1", "", bearer(ed.For(t, "anna"))...), try("w-1", s.key)} {
		require.Equal(t, 403, e.code)
		require.Equal(t, "bridge_worker_mismatch", e.Error)
	}
}

// person is somebody whom a host signs for, anew for every request.
type person struct {
	*instance

	token func() string
}

func (p person) do(method, path string, body any) answer {
	p.t.Helper()
	return p.send("", method, path, body, bearer(p.token())...)
}

func (p person) exec(path string, body any) ended {
	p.t.Helper()
	return p.codeAs("", path, body, bearer(p.token())...)
}

func (p person) upload(t *testing.T, name, content string) uploaded {
	p.t.Helper()
	var body bytes.Buffer
	w := multipart.NewWriter(&body)
	require.NoError(p.t, w.WriteField("kind", "user"))
	part, err := w.CreateFormFile("file", name)
	require.NoError(p.t, err)
	_, err = part.Write([]byte(content))
	require.NoError(p.t, err)
	require.NoError(p.t, w.Close())
	a := p.send("", "POST", "/v1/upload", body.String(), append(bearer(p.token()), "Content-Type", w.FormDataContentType())...)
	require.Equal(p.t, 200, a.status, a.raw)
	return a.uploaded(t)
}

// What a host does for a person, on every route, and that the person of the
// same id of another tenant reaches nothing of it.
func TestPeopleOfTwoTenants(t *testing.T) {
	testenv.Slow(t, "a whole server at work")
	t.Parallel()
	ed := hosttokentest.New(t, defaultKeyID)
	each(t, func(t *testing.T, s *instance) {
		of := func(tenant string) person {
			return person{s, func() string { return ed.For(t, "66f0a1", map[string]any{"tenant_id": tenant}) }}
		}
		anna, other := of("acme"), of("globex")
		up := anna.upload(t, "data.csv", "a\n1\n")
		ref := []map[string]any{{"id": up.Files[0].FileID, "name": "data.csv", "storage_session_id": up.SessionID}}
		e := anna.exec("/v1/exec", map[string]any{"lang": "py", "code": "print(open('data.csv').read()); open('out.txt', 'w').write('out')", "files": ref})
		require.Equal(t, "a\n1\n\n", e.Stdout, e.Stderr)
		var made file
		for _, f := range e.Files {
			if f.Name == "out.txt" {
				made = f
			}
		}
		paths := map[string]string{
			"/v1/download/" + made.SessionID + "/" + made.ID:                  "GET",
			"/v1/sessions/" + up.SessionID + "/objects/" + up.Files[0].FileID: "GET",
		}
		for path, method := range paths {
			require.Equal(t, 404, other.do(method, path, nil).status, path)
			require.Equal(t, 200, anna.do(method, path, nil).status, path)
		}
		require.JSONEq(t, "[]", other.do("GET", "/v1/files/"+up.SessionID+"?detail=full", nil).raw)
		require.Equal(t, 404, other.do("DELETE", "/v1/files/"+up.SessionID+"/"+up.Files[0].FileID, nil).status)
		theirs := other.exec("/v1/exec", map[string]any{"lang": "py", "code": "import os; print(os.listdir())", "files": ref, "session_id": e.SessionID})
		require.NotContains(t, theirs.Stdout, "data.csv", "%+v", theirs)

		// A program that pauses is the person's; each request has a token of its own.
		paused := anna.exec("/v1/exec/programmatic", map[string]any{"code": "print(await ask(q=1))", "tools": tools("ask"), "timeout": 15000})
		require.Equal(t, "tool_call_required", paused.Status, "%+v", paused)
		next := map[string]any{"continuation_token": paused.ContinuationToken, "tool_results": results(paused)}
		require.Equal(t, 403, other.exec("/v1/exec/programmatic", next).code)
		ended := anna.exec("/v1/exec/programmatic", next)
		require.Equal(t, "completed", ended.Status, "%+v", ended)
		require.Equal(t, 200, anna.do("DELETE", "/v1/files/"+up.SessionID+"/"+up.Files[0].FileID, nil).status)

		_, list, _ := portico(t, s.env, "user", "list")
		for _, tenant := range []string{"acme", "globex"} {
			require.Regexp(t, `(?m)^u-\w+ +66f0a1-[0-9a-f]{16} +\S+ +enabled +user +librechat, tenant `+tenant+`: 66f0a1\s*$`, list)
		}
		// An operator shuts one of them out.
		name := regexp.MustCompile(`(66f0a1-\w+) .*tenant acme`).FindStringSubmatch(list)[1]
		code, _, errs := portico(t, s.env, "user", "disable", name)
		require.Zero(t, code, errs)
		answers := func(status int) { // within a second: the command is another process to the server
			require.Eventually(t, func() bool { return anna.do("GET", "/v1/files/"+up.SessionID, nil).status == status }, time.Minute, 50*time.Millisecond)
		}
		answers(401)
		require.Equal(t, 200, other.do("GET", "/v1/files/"+up.SessionID, nil).status)
		_, list, _ = portico(t, s.env, "user", "list")
		require.Regexp(t, name+` .* disabled `, list)
		_, log, _ := portico(t, s.env, "audit", "--user", name)
		require.Regexp(t, `user\.disable +u-(?s:.*)user\.create +u-`, log)
		code, _, errs = portico(t, s.env, "user", "enable", name)
		require.Zero(t, code, errs)
		answers(200)
	}, "CODEAPI_JWT_PUBLIC_KEY="+oneLine(ed.Public(t)))
}

// Tools of this server's toolsets that a person's program calls are that
// person's to pay.
func TestToolsetsOfAPerson(t *testing.T) {
	testenv.Slow(t, "a whole server at work")
	t.Parallel()
	ed := hosttokentest.New(t, defaultKeyID)
	each(t, func(t *testing.T, s *instance) {
		anna := person{s, func() string { return ed.For(t, "anna") }}
		e := anna.exec("/v1/exec/programmatic", map[string]any{"code": "print(get_weather(city='Oslo')['city'])", "tools": []any{}, "toolsets": []string{"demo"}})
		require.Equal(t, "completed", e.Status, "%+v", e)
		require.Equal(t, "Oslo\n", e.Stdout)
		require.Equal(t, 1, s.count("SELECT count(*) FROM tool_call_results c JOIN external_identities i ON i.uid = c.uid WHERE c.tool_name = 'get_weather' AND i.subject = 'anna'"))
	}, "CODEAPI_JWT_PUBLIC_KEY="+oneLine(ed.Public(t)))
}

// The requests that a page of LibreChat sends at once on somebody's first visit
// make one user, over servers that share a database.
func TestTheFirstRequestsOfAPersonAtOnce(t *testing.T) {
	testenv.Slow(t, "a whole server at work")
	t.Parallel()
	ed := hosttokentest.New(t, defaultKeyID)
	for _, d := range databasetest.Of(t) {
		t.Run(string(d), func(t *testing.T) {
			t.Parallel()
			env := environ(t, databasetest.URL(t, d), "CODEAPI_JWT_PUBLIC_KEY="+oneLine(ed.Public(t)))
			first := serveWith(t, env)
			second := serveWith(t, append(env, "DEMO_LISTEN="+testenv.FreeAddress(t)))
			token := ed.For(t, "anna")
			var wg sync.WaitGroup
			for i := range 12 {
				s := []*instance{first, second}[i%2]
				wg.Go(func() {
					r, err := http.NewRequestWithContext(t.Context(), http.MethodGet, s.url+"/v1/files/"+strings.Repeat("x", 21), nil)
					if err != nil {
						t.Error(err)
						return
					}
					r.Header.Set("Authorization", "Bearer "+token)
					resp, err := http.DefaultClient.Do(r)
					if err != nil {
						t.Error(err)
						return
					}
					defer resp.Body.Close()
					if resp.StatusCode != http.StatusOK {
						t.Errorf("status %d", resp.StatusCode)
					}
				})
			}
			wg.Wait()
			require.Equal(t, 1, first.count("SELECT count(*) FROM external_identities"))
			require.Equal(t, 2, first.count("SELECT count(*) FROM users"), "the first user and the person")
		})
	}
}

// Keys of a folder come and go while the server runs.
func TestKeysOfTheFolderComeAndGo(t *testing.T) {
	testenv.Slow(t, "a whole server at work")
	t.Parallel()
	folder := t.TempDir()
	first, second := hosttokentest.New(t, "2026-05"), hosttokentest.New(t, "2026-11")
	require.NoError(t, os.WriteFile(filepath.Join(folder, "2026-05.pem"), []byte(first.Public(t)), 0o600))
	s := serve(t, databasetest.URL(t, database.SQLite), "CODEAPI_JWT_PUBLIC_KEYS_DIR="+folder, "CODEAPI_JWT_KEY_CACHE_TTL_SECONDS=1")
	uid := s.whose(first.For(t, "anna"))
	require.Equal(t, "Invalid bearer token", s.refused(second.For(t, "anna")))
	status := func(h hosttokentest.Host) int {
		return s.send("", "GET", "/v1/files/"+strings.Repeat("x", 21), nil, bearer(h.For(t, "anna"))...).status
	}
	require.NoError(t, os.WriteFile(filepath.Join(folder, "2026-11.pem"), []byte(second.Public(t)), 0o600))
	require.Eventually(t, func() bool { return status(second) == 200 }, time.Minute, 20*time.Millisecond)
	require.Equal(t, uid, s.whose(second.For(t, "anna")))
	require.NoError(t, os.Remove(filepath.Join(folder, "2026-05.pem")))
	require.Eventually(t, func() bool { return status(first) == 401 }, time.Minute, 20*time.Millisecond)
	require.Equal(t, 200, status(second))
	require.NoError(t, os.Rename(folder, folder+"-gone"))
	require.Eventually(t, func() bool {
		return status(second) == 200 && strings.Contains(s.log.String(), "the folder with the keys of hosts cannot be read")
	}, time.Minute, 20*time.Millisecond)
	require.Equal(t, 200, status(second), "the keys that were read stay for a while")
}

// A key that cannot be read stops the start, and its text is nowhere.
func TestKeysThatCannotBeReadStopTheStart(t *testing.T) {
	t.Parallel()
	for want, setting := range map[string]string{
		"the folder cannot be read":             "CODEAPI_JWT_PUBLIC_KEYS_DIR=/nowhere",
		"a private key stays with the host":     `CODEAPI_JWT_PUBLIC_KEY=-----BEGIN PRIVATE KEY-----\nc2VjcmV0\n-----END PRIVATE KEY-----`,
		"with the list keys":                    `CODEAPI_JWT_JWKS_JSON={"keys":1}`,
		"less than 32 bytes":                    "CODEAPI_JWT_HS256_SECRET=hunter2",
		"must be a public key as PEM":           "CODEAPI_JWT_PUBLIC_KEY=hunter2",
		"CODEAPI_PLANS (codeApi.plans) must be": "CODEAPI_PLANS=pro",
		"must be plans with their limits":       "CODEAPI_PLAN_LIMITS=pro atMost=5",
	} {
		code, out, errs := portico(t, environ(t, databasetest.URL(t, database.SQLite), setting), "user", "list")
		require.Equal(t, 1, code)
		require.Contains(t, errs, want)
		require.NotContains(t, out+errs, "hunter2")
		require.NotContains(t, out+errs, "c2VjcmV0")
	}
}

// A person has the plan that their newest token names, with its credits and its
// limits.
func TestPlansOfTokens(t *testing.T) {
	testenv.Slow(t, "a whole server at work")
	t.Parallel()
	ed := hosttokentest.New(t, defaultKeyID)
	each(t, func(t *testing.T, s *instance) {
		for key, gift := range map[string]money.Amount{"free": 5, "portico_plus_monthly": 100} {
			kind := map[bool]string{true: billing.FreePlan, false: "plus"}[key == "free"]
			require.NoError(t, s.app.Credits.Service.SetPlan(t.Context(), billing.Plan{Type: kind, LookupKey: key, DailyGift: gift * money.Credit}))
		}
		on := func(plan any, changes map[string]any) person {
			return person{s, func() string { return ed.For(t, "anna", map[string]any{"plan_id": plan}, changes) }}
		}
		exec := func(p person) ended {
			return p.exec("/exec", map[string]any{"lang": "bash", "code": "true", "timeout": 15000})
		}
		require.Equal(t, 200, exec(on("basic", nil)).code)
		e := exec(on("basic", nil))
		require.Equal(t, 429, e.code, "one program in a minute")
		require.Equal(t, "rate_limited", e.Error)
		require.NotEmpty(t, e.header.Get("Retry-After"))
		require.Equal(t, 429, exec(on(nil, nil)).code)
		require.Equal(t, 429, exec(on("unknown", nil)).code)
		require.Equal(t, 1, s.count("SELECT count(*) FROM users WHERE name LIKE 'anna-%'"))
		require.Zero(t, s.count("SELECT count(*) FROM subscriptions"))

		later := map[string]any{"iat": time.Now().Unix() + 5, "exp": time.Now().Unix() + 300}
		for range 3 {
			require.Equal(t, 200, exec(on("pro", later)).code)
		}
		require.Equal(t, 1, s.count("SELECT count(*) FROM subscriptions WHERE status = 'active' AND lookup_key = 'portico_plus_monthly'"))
		require.Equal(t, 200, exec(on("basic", nil)).code, "an older token does not take the plan away")
		slow := on("pro", later).exec("/exec", map[string]any{"lang": "py", "code": "while True: pass", "timeout": 60000})
		require.Equal(t, "timed_out", slow.Status, "within the limit of the plan: %+v", slow)
		require.Equal(t, 200, exec(on("pro", later)).code)

		latest := map[string]any{"iat": time.Now().Unix() + 10, "exp": time.Now().Unix() + 300}
		require.Equal(t, 200, exec(on("basic", latest)).code, "the free plan begins anew")
		require.Equal(t, 429, exec(on("basic", latest)).code)
		require.Equal(t, 1, s.count("SELECT count(*) FROM subscriptions WHERE status = 'canceled'"))
		require.Equal(t, 1, strings.Count(s.log.String(), "planId=unknown"))

		// Somebody with a key and no plan is bounded, too.
		for i := range 2 {
			require.Equal(t, []int{200, 429}[i], s.code("/exec", map[string]any{"lang": "bash", "code": "true"}).code)
		}
		_, list, _ := portico(t, s.env, "user", "list")
		name := regexp.MustCompile(`anna-\w+`).FindString(list)
		code, out, errs := portico(t, s.env, "credit", "balance", "--user", name)
		require.Zero(t, code, errs)
		require.Regexp(t, `^anna-\w+ has (100|105) credits\n$`, out, "the gift of the day was that of the plan")
	}, "CODEAPI_JWT_PUBLIC_KEY="+oneLine(ed.Public(t)), "CODEAPI_PLANS=basic=free,pro=portico_plus_monthly",
		"CODEAPI_PLAN_LIMITS=free perMinute=1,portico_plus_monthly timeout=1s perMinute=100")
}

// A key may stand on several lines of the configuration, and is never printed.
func TestKeyOnSeveralLines(t *testing.T) {
	t.Parallel()
	ed := hosttokentest.New(t, defaultKeyID)
	file := filepath.Join(t.TempDir(), "portico.yaml")
	lines := strings.ReplaceAll(strings.TrimSpace(ed.Public(t)), "\n", "\n      ")
	require.NoError(t, os.WriteFile(file, []byte("codeApi:\n  jwt:\n    publicKey: |\n      "+lines+"\n  planLimits:\n    - free perMinute=1000\n"), 0o600))
	c, err := configs.Load(configs.Options{File: file})
	require.NoError(t, err)
	require.Equal(t, strings.TrimSpace(ed.Public(t)), c.CodeAPI.JWT.PublicKey.Reveal())
	require.True(t, c.CodeAPI.JWT.Enabled())
	var shown bytes.Buffer
	require.NoError(t, c.Print(&shown))
	require.NotContains(t, shown.String(), "BEGIN PUBLIC")
	text, err := json.Marshal(c)
	require.NoError(t, err)
	require.NotContains(t, string(text), "BEGIN PUBLIC")
}

package configs

import (
	"encoding/json"
	"net"
	"net/url"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"
)

const (
	// minSecret is what RFC 7518 asks of an HS256 key, in bytes.
	minSecret = 32
	// maxSecret is the longest that is taken in a list.
	maxSecret = 256
	// keyLength is the length of an AES-256 key, in bytes.
	keyLength = 32
	kib       = int64(1) << 10
	mib       = int64(1) << 20
)

// validate checks what the types do not say.
func (l *loader) validate() {
	l.validateServer()
	l.validatePeers()
	l.validateSignIn()
	l.validateSecrets()
	l.validateStorage()
	l.validatePTC()
	l.validateSandbox()
	l.validateNodes()
	l.validateClaims()
	l.validateCodeAPI()
	l.validateAgent()
	l.validateOpenAI()
	l.validateRetention()
	l.validateTool()
	l.validateApproval()
	l.validateMCP()
	l.validateRest()
}

var (
	moduleForm = regexp.MustCompile(`^[A-Za-z_]\w*(\.[A-Za-z_]\w*)*$`)
	publicForm = regexp.MustCompile(`^[A-Za-z0-9_-]{43}$`)
	headerForm = regexp.MustCompile(`^[A-Za-z0-9-]+$`)
	regionForm = regexp.MustCompile(`^[A-Za-z0-9-]+$`)
	bucketForm = regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9._-]{0,254}$`)
	apiForm    = regexp.MustCompile(`^v[0-9][0-9A-Za-z.]*$`)
	keyForm    = regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9_.-]{0,63}$`)
)

// must records a problem with a field unless ok holds or the field already
// has one.
func (l *loader) must(field any, ok bool, text string) {
	if ok {
		return
	}
	if s := l.settingOf(field); !l.broken[s.key] {
		l.problem(s, text)
	}
}

func (l *loader) mustBeOneOf(field *string, allowed ...string) {
	l.must(field, slices.Contains(allowed, *field), "must be "+strings.Join(allowed, " or "))
}

// ordered are the types that bounds can be checked for.
type ordered interface {
	~int | ~int64
}

func mustBeWithin[T ordered](l *loader, field *T, least, most T, text string) {
	l.must(field, *field >= least && *field <= most, "must be "+text)
}

func (l *loader) validateStorage() {
	d := &l.config.Database
	l.must(&d.DirectURL, d.DirectURL == "" || d.DirectURL.isPostgres() && isDatabase(d.DirectURL) && d.URL.isPostgres(),
		"must be the address of the PostgreSQL behind the pooler of DATABASE_URL, like it")
	l.must(&d.URL, isDatabase(d.URL), `must be like "postgres://user:password@host:5432/database", with special characters of the password percent-encoded, or "sqlite:PATH"`)
	mustBeWithin(l, &d.MaxConnections, 2, 10_000, "between 2 and 10000")

	o := &l.config.ObjectStorage
	l.mustBeOneOf(&o.Driver, FolderDriver, S3Driver)
	switch o.Driver {
	case FolderDriver:
		l.must(&o.Folder, o.Folder != "", "must name a directory when the driver is folder")
	case S3Driver:
		l.must(&o.S3.Bucket, o.S3.Bucket != "", "must name a bucket when the driver is s3")
		l.must(&o.S3.Region, o.S3.Region != "", "must be set when the driver is s3; servers other than AWS take us-east-1")
		l.must(&o.S3.AccessKey, o.S3.AccessKey != "" || o.S3.SecretKey == "", "must be set when S3_SECRET_KEY is")
		l.must(&o.S3.SecretKey, o.S3.SecretKey != "" || o.S3.AccessKey == "", "must be set when S3_ACCESS_KEY is")
	}
	l.must(&o.S3.Bucket, o.S3.Bucket == "" || bucketForm.MatchString(o.S3.Bucket), "must be the name of a bucket: letters, digits and . _ -")
	l.must(&o.S3.Region, o.S3.Region == "" || regionForm.MatchString(o.S3.Region), "must be the name of a region, such as us-east-1")
	l.must(&o.S3.Endpoint, o.S3.Endpoint == "" || isBaseURL(o.S3.Endpoint),
		"must be an address like http://127.0.0.1:9000, without credentials or a query")
}

func (l *loader) validatePTC() {
	p := &l.config.PTC
	l.must(&p.CallIDSeparator, p.CallIDSeparator == ":" || p.CallIDSeparator == "_", `must be ":" or "_"`)
	mustBeWithin(l, &p.PollInterval, 10*time.Millisecond, time.Minute, "between 10 and 60000 milliseconds")
	mustBeWithin(l, &p.RolloutPercent, 0, 100*One, "between 0 and 100")
	l.must(&p.Sequential, slices.Contains([]string{"", "true", "false"}, p.Sequential), "must be true or false")
}

func (l *loader) validateSandbox() {
	s := &l.config.Sandbox
	l.must(&s.S3Lib.PathPrefix, isObjectPath(s.S3Lib.PathPrefix),
		"must be a path like team/refly-tools, of letters, digits and . _ - between slashes")
	l.must(&s.S3Lib.Hash, s.S3Lib.Hash == "" || isObjectPath(s.S3Lib.Hash) && !strings.Contains(s.S3Lib.Hash, "/"),
		"must be one name of letters, digits and . _ -")
	l.mustBeOneOf(&s.Driver, ForkServer, Bubblewrap, GVisor, Remote)
	for _, name := range s.Preload {
		l.must(&s.Preload, moduleForm.MatchString(name), "must be names of Python modules, separated by commas")
	}
	l.mustBeOneOf(&s.Isolation, "none", "namespaces", "kernel")
	mustBeWithin(l, &s.MaxPool, 0, 10_000, "between 0 and 10000")
	mustBeWithin(l, &s.Pool, 0, 10_000, "between 0 and 10000")
	mustBeWithin(l, &s.MaxConcurrent, 1, 10_000, "between 1 and 10000")
	mustBeWithin(l, &s.MaxQueue, 0, 1_000_000, "between 0 and 1000000")
	mustBeWithin(l, &s.MaxPaused, 0, 1_000_000, "between 0 and 1000000")
	mustBeWithin(l, &s.MaxPerUser, 0, 10_000, "between 0 and 10000")
	mustBeWithin(l, &s.MaxQueuePerUser, 0, 1_000_000, "between 0 and 1000000")
	mustBeWithin(l, &s.MaxPausedPerUser, 0, 1_000_000, "between 0 and 1000000")
	mustBeWithin(l, &s.MaxTimeout, time.Second, 300*time.Second, "between 1000 and 300000 milliseconds")
	mustBeWithin(l, &s.Timeout, time.Second, s.MaxTimeout, "between 1000 milliseconds and SANDBOX_MAX_TIMEOUT_MS")
	mustBeWithin(l, &s.Memory, 64*mib, 1024*1024*mib, "between 64MiB and 1024GiB")
	mustBeWithin(l, &s.Disk, mib, 1024*1024*mib, "between 1MiB and 1024GiB")
	mustBeWithin(l, &s.FileSize, kib, 1024*1024*mib, "between 1KiB and 1024GiB")
	mustBeWithin(l, &s.Output, kib, 64*mib, "between 1KiB and 64MiB")
	mustBeWithin(l, &s.Processes, 4, 32_768, "between 4 and 32768")
	mustBeWithin(l, &s.OpenFiles, 32, 1_048_576, "between 32 and 1048576")
}

func (l *loader) validateCodeAPI() {
	c := &l.config.CodeAPI
	l.must(&c.User, c.Auth || c.User != "", "must name a user when CODEAPI_AUTH is false")
	l.mustBeOneOf(&c.Errors, "auto", "status", "phrases")
	mustBeWithin(l, &c.SessionLife, time.Minute, 366*24*time.Hour, "between 1m and 366d")
	mustBeWithin(l, &c.MaxFile, kib, 1024*mib, "between 1KiB and 1GiB")
	mustBeWithin(l, &c.MaxFiles, 1, 10_000, "between 1 and 10000")
	mustBeWithin(l, &c.Timeout, time.Second, 300*time.Second, "between 1000 and 300000 milliseconds")
	mustBeWithin(l, &c.Idle, time.Second, 24*time.Hour, "between 1000 milliseconds and 24h")
	mustBeWithin(l, &c.MaxRounds, 1, 1_000_000, "between 1 and 1000000")
	mustBeWithin(l, &c.MaxCalls, 1, 1_000_000, "between 1 and 1000000")
	mustBeWithin(l, &c.MaxTools, 0, 10_000, "between 0 and 10000")
	mustBeWithin(l, &c.MaxResult, kib, 64*mib, "between 1KiB and 64MiB")
	mustBeWithin(l, &c.MaxState, c.MaxResult, 1024*mib, "between CODEAPI_MAX_RESULT and 1GiB")
	l.validateCodeTokens()
}

func (l *loader) validateCodeTokens() {
	c := &l.config.CodeAPI
	j := &c.JWT
	key := strings.TrimSpace(j.PublicKey.Reveal())
	l.must(&j.PublicKey, key == "" || strings.HasPrefix(key, "-----BEGIN ") || strings.HasPrefix(key, "{"), "must be a public key as PEM, or a JSON Web Key")
	l.must(&j.KeySet, j.KeySet == "" || json.Valid([]byte(j.KeySet.Reveal())) && strings.HasPrefix(j.KeySet.Reveal(), "{"), "must be a JSON Web Key Set")
	l.must(&j.KeyID, j.KeyID != "", "must name the key of CODEAPI_JWT_PUBLIC_KEY")
	l.must(&j.SecretID, j.SecretID != "", "must name the key of CODEAPI_JWT_HS256_SECRET")
	l.must(&j.Issuer, j.Issuer != "", "must not be empty")
	l.must(&j.Audience, j.Audience != "", "must not be empty")
	mustBeWithin(l, &j.ReloadSeconds, 1, 300, "between 1 and 300 seconds")
	mustBeWithin(l, &j.SkewSeconds, 0, 30, "between 0 and 30 seconds")
	mustBeWithin(l, &j.MaxSeconds, 1, 300, "between 1 and 300 seconds")
	mustBeWithin(l, &j.MaxUsers, 0, 1_000_000_000, "between 0 and 1000000000")
	seen := map[string]bool{}
	for _, p := range c.Plans {
		name, key, _ := strings.Cut(p, "=")
		name = strings.TrimSpace(name)
		l.must(&c.Plans, name != "" && keyForm.MatchString(strings.TrimSpace(key)), "must be like pro=portico_plus_monthly,team=free: a token's plan_id and the lookup key of a plan")
		l.must(&c.Plans, !seen[name], "must name each plan_id once")
		seen[name] = true
	}
	for _, p := range c.PlanLimits {
		l.must(&c.PlanLimits, p.Timeout == 0 || p.Timeout >= time.Second, "must give no plan a timeout under 1s")
	}
}

func (l *loader) validateKnowledge() {
	k, e := &l.config.Knowledge, &l.config.Embedding
	mustBeWithin(l, &k.MaxPassages, 0, 10_000_000, "between 0 and 10000000")
	mustBeWithin(l, &k.MaxBytes, 0, 1<<40, "between 0 and 1TiB")
	mustBeWithin(l, &k.MaxDocument, kib, 256*mib, "between 1KiB and 256MiB")
	mustBeWithin(l, &k.Memory, 0, 1<<40, "between 0 and 1TiB")
	mustBeWithin(l, &k.MinSimilarity, 0, One, "between 0 and 1")
	l.must(&e.URL, e.URL == "" || isBaseURL(e.URL), `must be a URL like "https://api.openai.com/v1"`)
	l.must(&e.Model, e.Model != "" || e.URL == "", "must be set when EMBEDDING_URL is")
	mustBeWithin(l, &e.Dimensions, 0, 8192, "between 0 and 8192")
	mustBeWithin(l, &e.Timeout, time.Second, 10*time.Minute, "between 1s and 10m")
	mustBeWithin(l, &e.Retries, 0, 20, "between 0 and 20")
}

func (l *loader) validateApproval() {
	a := &l.config.Approval
	l.mustBeOneOf(&a.Default, "never", "first", "always")
	mustBeWithin(l, &a.Expiry, time.Second, 7*24*time.Hour, "between 1s and 168h")
	mustBeWithin(l, &a.MaxPerUser, 1, 10_000, "between 1 and 10000")
	l.must(&a.Webhook, a.Webhook == "" || isBaseURL(a.Webhook), `must be a URL like "https://example.com/approvals"`)
	l.must(&a.WebhookSecret, a.Webhook == "" || a.WebhookSecret != "", "must be set where APPROVAL_WEBHOOK is: it signs what the webhook is sent")
}

// openAI is the address of a model where none is given.
const openAI = "https://api.openai.com/v1"

func (l *loader) validateAgent() {
	m, a := &l.config.Model, &l.config.Agent
	l.mustBeOneOf(&m.Protocol, "responses", "chat", "messages")
	l.must(&m.BaseURL, m.Protocol != "messages" || m.File != "" || m.BaseURL != openAI, `must be that of the provider where MODEL_PROTOCOL is messages, such as "https://api.anthropic.com/v1"`)
	l.must(&m.BaseURL, isBaseURL(m.BaseURL), `must be a URL like "https://api.openai.com/v1"`)
	headers := 0
	for h := range strings.SplitSeq(m.Headers.Reveal(), ",") {
		name, _, found := strings.Cut(h, ":")
		l.must(&m.Headers, m.Headers == "" || found && headerForm.MatchString(strings.TrimSpace(name)), `must be headers like "X-Team: blue", separated by commas`)
		headers++
	}
	l.must(&m.Headers, m.Headers == "" || len(m.HeaderMap()) == headers, "must not name a header twice")
	for _, price := range []*Decimal{&m.InputPrice, &m.OutputPrice} {
		mustBeWithin(l, price, 0, 1_000_000_000*One, "credits for a million tokens, at most 1000000000")
	}
	mustBeWithin(l, &m.MaxOutput, 0, 10_000_000, "between 0 and 10000000")
	mustBeWithin(l, &m.Retries, 0, 20, "between 0 and 20")
	mustBeWithin(l, &m.Timeout, time.Second, time.Hour, "between 1s and 1h")
	mustBeWithin(l, &m.IdleTimeout, time.Second, time.Hour, "between 1s and 1h")
	mustBeWithin(l, &a.MaxRequests, 1, 10_000, "between 1 and 10000")
	mustBeWithin(l, &a.MaxTokens, 1000, 1_000_000_000, "between 1000 and 1000000000")
	mustBeWithin(l, &a.Timeout, time.Second, 24*time.Hour, "between 1s and 24h")
	mustBeWithin(l, &a.MaxRepeats, 1, 1000, "between 1 and 1000")
	mustBeWithin(l, &a.MaxParallel, 1, 1000, "between 1 and 1000")
	mustBeWithin(l, &a.MaxRuns, 1, 100_000, "between 1 and 100000")
	mustBeWithin(l, &a.MaxRunsPerUser, 0, 100_000, "between 0 and 100000")
	mustBeWithin(l, &a.Output, kib, 16*mib, "between 1KiB and 16MiB")
	mustBeWithin(l, &a.CodeTimeout, 1, 300, "between 1 and 300 seconds")
	l.mustBeOneOf(&a.Builtins, "all", "minimal")
	l.mustBeOneOf(&a.Describe, "auto", "docs", "lines", "names")
	l.mustBeOneOf(&a.CodeToolName, "execute_code", "exec_code")
	mustBeWithin(l, &a.MaxInterpreters, 0, 100_000, "between 0 and 100000")
	mustBeWithin(l, &a.MaxInterpretersPerUser, 0, 100_000, "between 0 and 100000")
	mustBeWithin(l, &a.InterpreterIdle, time.Second, 7*24*time.Hour, "between 1s and 7d")
	q := &l.config.Flat.Query
	mustBeWithin(l, &q.MaxTokens, 0, 10_000_000, "between 0 and 10000000")
	mustBeWithin(l, &q.Timeout, time.Second, time.Hour, "between 1s and 1h")
	mustBeWithin(l, &q.MaxPerProgram, 0, 1_000_000, "between 0 and 1000000")
	d := &l.config.Drive
	mustBeWithin(l, &d.MaxFile, kib, 1024*1024*mib, "between 1KiB and 1024GiB")
	mustBeWithin(l, &d.PresignExpiry, 1, 604_800, "between 1 and 604800 seconds")
	mustBeWithin(l, &d.Quota, d.MaxFile, 1<<60, "between DRIVE_MAX_FILE and 1048576TiB")
}

func (l *loader) validateTool() {
	t := &l.config.Tool
	mustBeWithin(l, &t.OutputCap, kib, 64*mib, "between 1KiB and 64MiB")
	mustBeWithin(l, &t.ResponseCap, kib, 1024*mib, "between 1KiB and 1GiB")
	mustBeWithin(l, &t.MaxTimeout, time.Second, time.Hour, "between 1s and 1h")
	mustBeWithin(l, &t.Timeout, time.Millisecond, t.MaxTimeout, "positive and at most TOOL_MAX_TIMEOUT")
	mustBeWithin(l, &t.Lease, time.Second, time.Hour, "between 1s and 1h")
	mustBeWithin(l, &t.ContentTokens, 100, 1_000_000, "between 100 and 1000000")
	mustBeWithin(l, &t.BreakerFailures, 0, 1000, "between 0 and 1000")
	mustBeWithin(l, &t.BreakerDelay, time.Second, time.Hour, "between 1s and 1h")
	mustBeWithin(l, &t.MaxPerKey, 1, 1_000_000, "between 1 and 1000000")
	mustBeWithin(l, &t.MaxPerRun, 1, 1_000_000, "between 1 and 1000000")
	mustBeWithin(l, &t.RatePerKey, 0, 1_000_000*One, "between 0 and 1000000")
	mustBeWithin(l, &t.RatePerRun, 0, 1_000_000*One, "between 0 and 1000000")
	mustBeWithin(l, &t.MaxPerUser, 1, 1_000_000, "between 1 and 1000000")
}

func (l *loader) validateMCP() {
	m := &l.config.MCP
	l.must(&m.Dir, m.Dir != "", "must be a folder")
	for _, timeout := range []*time.Duration{&m.ConnectTimeout, &m.ListTimeout, &m.CallTimeout} {
		mustBeWithin(l, timeout, 100*time.Millisecond, time.Hour, "between 100ms and 1h")
	}
	mustBeWithin(l, &m.Idle, time.Second, 24*time.Hour, "between 1s and 1d")
	mustBeWithin(l, &m.Refresh, time.Second, 24*time.Hour, "between 1s and 1d")
	mustBeWithin(l, &m.MaxConnections, 1, 100_000, "between 1 and 100000")
	mustBeWithin(l, &m.MaxPerUser, 1, m.MaxConnections, "between 1 and MCP_MAX_CONNECTIONS")
	mustBeWithin(l, &m.MaxServers, 0, 10_000, "between 0 and 10000")
	mustBeWithin(l, &m.Memory, 64*mib, 1024*1024*mib, "between 64MiB and 1TiB")
	mustBeWithin(l, &m.Processes, 4, 32_768, "between 4 and 32768")
	l.must(&m.OAuth, m.OAuth == OAuthOn || m.OAuth == OAuthOff || isBaseURL(m.OAuth), "must be on, off, or the https address of an issuer")
}

func (l *loader) validateRest() {
	c := l.config
	mustBeWithin(l, &c.Billing.USDToCredits, 1, 1_000_000_000*One, "more than 0 and at most 1000000000")
	for _, key := range c.Billing.FreeToolsets {
		l.must(&c.Billing.FreeToolsets, keyForm.MatchString(key) && key != noToolset, "must be keys of toolsets, separated by commas, or none")
	}
	l.must(&c.Composio.BaseURL, isBaseURL(c.Composio.BaseURL), "must be an http or https URL")
	l.must(&c.Composio.APIVersion, apiForm.MatchString(c.Composio.APIVersion), "must be a version such as v3 or v3.1")
	mustBeWithin(l, &c.Composio.Timeout, time.Second, time.Hour, "between 1s and 1h")
	mustBeWithin(l, &c.Composio.Cache, 0, 24*time.Hour, "between 0s and 1d")
	l.must(&c.Composio.User, c.Composio.User != "", "must not be empty")
	l.must(&c.Redis.URL, c.Redis.URL == "" || isRedis(c.Redis.URL.Reveal()), "must be an address such as redis://:PASSWORD@HOST:6379/0, or rediss:// for TLS")
	mustBeWithin(l, &c.Redis.StreamLength, 1, 1_000_000, "between 1 and 1000000")
	mustBeWithin(l, &c.Redis.StreamLife, time.Minute, 365*24*time.Hour, "between 1m and 365d")
	mustBeWithin(l, &c.Redis.CatchUp, 0, 24*time.Hour, "between 0s and 1d")
	l.validateKnowledge()
	mustBeWithin(l, &c.Fetch.MaxBytes, kib, 256*mib, "between 1KiB and 256MiB")
	mustBeWithin(l, &c.Fetch.Timeout, 100*time.Millisecond, 10*time.Minute, "between 100ms and 10m")
	mustBeWithin(l, &c.Fetch.MaxPages, 1, 50_000, "between 1 and 50000")
	mustBeWithin(l, &c.LoadFile.MaxBytes, kib, 256*mib, "between 1KiB and 256MiB")
	for _, folder := range c.LoadFile.Roots {
		l.must(&c.LoadFile.Roots, filepath.IsAbs(folder) && folder == filepath.Clean(folder) && folder != "/", "must be absolute paths of folders, without .. and not /")
	}
	l.must(&c.Console.Path, consolePath.MatchString(c.Console.Path), `must be a path like "/console", without a slash at its end, and not one of the API's`)
	l.must(&c.Demo.Listen, !c.Demo.Enabled || isAddress(c.Demo.Listen), `must be an address like "127.0.0.1:5801"`)
	l.must(&c.Admin.Listen, c.Admin.Listen == "" || isAddress(c.Admin.Listen), `must be an address like "127.0.0.1:5804"`)
	l.must(&c.Admin.Token, c.Admin.Token != "" || c.Admin.Listen == "" || IsLoopback("http://"+c.Admin.Listen), "must be set where PORTICO_ADMIN_LISTEN is no loopback address; make one with: openssl rand -hex 32")
	l.must(&c.Admin.Token, c.Admin.Token == "" || len(c.Admin.Token) >= minSecret, "must have at least 32 characters; make one with: openssl rand -hex 32")
	l.must(&c.Tracing.Endpoint, c.Tracing.Endpoint == "" || isBaseURL(c.Tracing.Endpoint), `must be a URL like "http://localhost:4318"`)
	l.must(&c.Tracing.Headers, c.Tracing.HeaderMap() != nil, `must be headers like "x-team=blue", separated by commas`)
	l.must(&c.Tracing.Ratio, c.Tracing.Ratio >= 0 && c.Tracing.Ratio <= One, "must be from 0 to 1")
	l.mustBeOneOf(&c.Log.Level, "debug", "info", "warn", "error")
	l.mustBeOneOf(&c.Log.Format, "text", "json")
}

func isAddress(text string) bool {
	_, port, err := net.SplitHostPort(text)
	if err != nil {
		return false
	}
	_, err = strconv.ParseUint(port, 10, 16)
	return err == nil
}

func isBaseURL(text string) bool {
	u, err := url.Parse(text)
	return err == nil && (u.Scheme == "http" || u.Scheme == "https") && u.Hostname() != "" &&
		u.User == nil && u.RawQuery == "" && u.Fragment == ""
}

func isRedis(text string) bool {
	u, err := url.Parse(text)
	return err == nil && (u.Scheme == "redis" || u.Scheme == "rediss") && u.Hostname() != "" && u.Fragment == ""
}

func isOrigin(text string) bool {
	u, err := url.Parse(text)
	return isBaseURL(text) && err == nil && u.Path == ""
}

func isDatabase(u DatabaseURL) bool {
	if path, ok := strings.CutPrefix(u.Reveal(), sqliteScheme); ok {
		return path != ""
	}
	_, rest, _ := strings.Cut(u.Reveal(), "://")
	authority, database, _ := strings.Cut(rest, "/")
	if !u.isPostgres() || database == "" || database[0] == '?' {
		return false
	}
	// A list of hosts is right for PostgreSQL, though not for package url.
	_, err := url.Parse(u.Reveal())
	return err == nil || strings.Contains(authority, ",")
}

// isObjectPath reports whether text is a path of harmless names without "..".
func isObjectPath(text string) bool {
	matched, err := regexp.MatchString(`^[A-Za-z0-9_-][A-Za-z0-9._-]*(/[A-Za-z0-9_-][A-Za-z0-9._-]*)*$`, text)
	return err == nil && matched
}

// consolePath is what the path of the console may be: nothing of the API begins so.
var consolePath = regexp.MustCompile(`^/console(-[a-z0-9-]+)?$|^/(ui|admin|portico)(/[a-z0-9-]+)*$`)

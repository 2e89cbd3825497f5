package configs_test

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/portico-run/portico/configs"
)

const (
	jwtSecret     = "0123456789abcdef0123456789abcdef"
	encryptionKey = "00112233445566778899aabbccddeeff00112233445566778899aabbccddeeff"
)

func writeFile(t *testing.T, content string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "portico.yaml")
	if err := os.WriteFile(path, []byte(content), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

func mustLoad(t *testing.T, file string, env ...string) *configs.Config {
	t.Helper()
	o := configs.Options{Environ: env}
	if file != "" {
		o.File = writeFile(t, file)
	}
	c, err := configs.Load(o)
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// problems loads a configuration that must be refused.
func problems(t *testing.T, file string, env ...string) []string {
	t.Helper()
	o := configs.Options{Environ: env}
	if file != "" {
		o.File = writeFile(t, file)
	}
	_, err := configs.Load(o)
	var invalid *configs.InvalidError
	if !errors.As(err, &invalid) {
		t.Fatalf("Load = %v, want an *InvalidError", err)
	}
	return invalid.Problems
}

func TestDefaults(t *testing.T) {
	t.Parallel()
	c := mustLoad(t, "")
	if got, want := c.Server.Listen, ":5800"; got != want {
		t.Errorf("Listen = %q, want %q", got, want)
	}
	if got, want := c.PTC.PollInterval, 1500*time.Millisecond; got != want {
		t.Errorf("PollInterval = %v, want %v", got, want)
	}
	if got, want := c.PTC.Mode, ""; got != want {
		t.Errorf("PTC.Mode = %q, want %q", got, want)
	}
	if got, want := c.Server.BodyLimit, int64(10<<20); got != want {
		t.Errorf("BodyLimit = %d, want %d", got, want)
	}
	if mustLoad(t, "").Server.EncryptionKey != c.Server.EncryptionKey {
		t.Error("two loads made different development encryption keys: stored credentials would be lost")
	}
	if len(c.Warnings) != 2 {
		t.Errorf("Warnings = %q, want one for each missing secret", c.Warnings)
	}
}

// Each source of a value, and which of them wins.
func TestSources(t *testing.T) {
	t.Parallel()
	ptcMode := func(c *configs.Config) any { return c.PTC.Mode }
	tests := map[string]struct {
		file string
		env  []string
		get  func(*configs.Config) any
		want any
	}{
		"file":                       {"ptc: {mode: partial}", nil, ptcMode, "partial"},
		"environment":                {"", []string{"PTC_MODE=on"}, ptcMode, "on"},
		"environment wins":           {"ptc: {mode: partial}", []string{"PTC_MODE=on"}, ptcMode, "on"},
		"empty variable is not set":  {"ptc: {mode: partial}", []string{"PTC_MODE= "}, ptcMode, "partial"},
		"last variable wins":         {"", []string{"PTC_MODE=on", "PTC_MODE=off"}, ptcMode, "off"},
		"values are trimmed":         {"", []string{"PTC_MODE= on "}, ptcMode, "on"},
		"file values are trimmed":    {"ptc: {mode: ' on '}", nil, ptcMode, "on"},
		"on without quotes is text":  {"ptc: {mode: on}", nil, ptcMode, "on"},
		"null in the file":           {"ptc: {mode: }", nil, ptcMode, ""},
		"empty group in the file":    {"ptc:\nlog:\n", nil, ptcMode, ""},
		"raw text is not judged":     {"", []string{"PTC_MODE=sometimes"}, ptcMode, "sometimes"},
		"keys ignore case":           {"PTC: {MODE: on}", nil, ptcMode, "on"},
		"percent as a number":        {"ptc: {rolloutPercent: 12.5}", nil, func(c *configs.Config) any { return c.PTC.RolloutPercent }, 25 * configs.One / 2},
		"sequential as a bool":       {"ptc: {sequential: true}", nil, func(c *configs.Config) any { return c.PTC.Sequential }, "true"},
		"allowlist as a list":        {"ptc: {userAllowlist: [u-1, u-2]}", nil, func(c *configs.Config) any { return c.PTC.UserAllowlist }, "u-1,u-2"},
		"allowlist as text":          {"", []string{"PTC_USER_ALLOWLIST=u-1,u-2"}, func(c *configs.Config) any { return c.PTC.UserAllowlist }, "u-1,u-2"},
		"origins as a list":          {"server: {origins: ['https://a.test', 'https://b.test']}", nil, func(c *configs.Config) any { return c.Server.Origins }, []string{"https://a.test", "https://b.test"}},
		"origins as text":            {"", []string{"ORIGIN=https://a.test, https://b.test"}, func(c *configs.Config) any { return c.Server.Origins }, []string{"https://a.test", "https://b.test"}},
		"milliseconds":               {"", []string{"PTC_POLL_INTERVAL_MS=250"}, func(c *configs.Config) any { return c.PTC.PollInterval }, 250 * time.Millisecond},
		"milliseconds with a unit":   {"", []string{"SANDBOX_TIMEOUT_MS=2s"}, func(c *configs.Config) any { return c.Sandbox.Timeout }, 2 * time.Second},
		"milliseconds in the file":   {"sandbox: {timeout: 2000}", nil, func(c *configs.Config) any { return c.Sandbox.Timeout }, 2 * time.Second},
		"days":                       {"", []string{"JWT_EXPIRATION_TIME=7d"}, func(c *configs.Config) any { return c.Server.JWTExpiration }, 7 * 24 * time.Hour},
		"days and hours":             {"", []string{"JWT_EXPIRATION_TIME=1d12h"}, func(c *configs.Config) any { return c.Server.JWTExpiration }, 36 * time.Hour},
		"size with a unit":           {"tool: {outputCap: 512KiB}", nil, func(c *configs.Config) any { return c.Tool.OutputCap }, int64(512 << 10)},
		"size as a number":           {"tool: {outputCap: 2048}", nil, func(c *configs.Config) any { return c.Tool.OutputCap }, int64(2048)},
		"rate":                       {"", []string{"USD_TO_CREDITS_RATE=99.5"}, func(c *configs.Config) any { return c.Billing.USDToCredits }, 199 * configs.One / 2},
		"free toolsets":              {"", nil, func(c *configs.Config) any { return c.Billing.FreeToolsets }, []string{"nano_banana_pro", "instagram", "facebook", "twitter", "fish_audio", "seedream_image"}},
		"no free toolsets":           {"", []string{"BILLING_FREE_TOOLSETS=none"}, func(c *configs.Config) any { return c.Billing.FreeToolsets }, []string{}},
		"limit":                      {"", []string{"BILLING_DAY_LIMIT=0.5"}, func(c *configs.Config) any { return *c.Billing.DayLimit }, configs.One / 2},
		"limit of nothing":           {"", []string{"BILLING_DAY_LIMIT=0"}, func(c *configs.Config) any { return *c.Billing.DayLimit }, configs.Decimal(0)},
		"no limit":                   {"billing: {dayLimit: }", nil, func(c *configs.Config) any { return c.Billing.DayLimit == nil }, true},
		"networks are masked":        {"composio: {egress: [10.1.2.3/16]}", nil, func(c *configs.Config) any { return fmt.Sprint(c.Composio.Egress) }, "[10.1.0.0/16]"},
		"limits of plans":            {"", []string{"CODEAPI_PLAN_LIMITS=free timeout=30s atOnce=1 , plus  maxFile=10MiB perMinute=600"}, func(c *configs.Config) any { return c.CodeAPI.PlanLimits }, []configs.PlanLimit{{Plan: "free", Timeout: 30 * time.Second, AtOnce: 1}, {Plan: "plus", MaxFile: 10 << 20, PerMinute: 600}}},
		"limits of plans as a list":  {"codeApi: {planLimits: [free perMinute=5]}", nil, func(c *configs.Config) any { return c.CodeAPI.PlanLimits }, []configs.PlanLimit{{Plan: "free", PerMinute: 5}}},
		"plans of tokens":            {"", []string{"CODEAPI_PLANS=pro = plus, a b=free"}, func(c *configs.Config) any { return c.CodeAPI.PlanKeys() }, map[string]string{"pro": "plus", "a b": "free"}},
		"no plans of tokens":         {"", nil, func(c *configs.Config) any { return c.CodeAPI.PlanKeys() == nil }, true},
		"key of several lines":       {"", []string{"CODEAPI_JWT_PUBLIC_KEY=-----BEGIN X-----\r\nAA\n-----END X-----\n"}, func(c *configs.Config) any { return c.CodeAPI.JWT.PublicKey.Reveal() }, "-----BEGIN X-----\nAA\n-----END X-----"},
		"bool":                       {"", []string{"S3_PATH_STYLE=no"}, func(c *configs.Config) any { return c.ObjectStorage.S3.PathStyle }, false},
		"endpoint loses its slash":   {"", []string{"ENDPOINT=https://api.test/base/"}, func(c *configs.Config) any { return c.Server.Endpoint }, "https://api.test/base"},
		"prefix loses its slashes":   {"", []string{"SANDBOX_S3LIB_PATH_PREFIX=/tmp/sdk/"}, func(c *configs.Config) any { return c.Sandbox.S3Lib.PathPrefix }, "tmp/sdk"},
		"hash":                       {"sandbox: {s3lib: {hash: PTC0g4v14}}", nil, func(c *configs.Config) any { return c.Sandbox.S3Lib.Hash }, "PTC0g4v14"},
		"several PostgreSQL hosts":   {"", []string{"DATABASE_URL=postgres://u:p@a:1,b:2/db"}, func(c *configs.Config) any { return c.Database.URL.Reveal() }, "postgres://u:p@a:1,b:2/db"},
		"demo is off in production":  {"", production(), func(c *configs.Config) any { return c.Demo.Enabled }, false},
		"demo can be on, though":     {"demo: {enabled: true}", production(), func(c *configs.Config) any { return c.Demo.Enabled }, true},
		"secrets given, no warnings": {"", production(), func(c *configs.Config) any { return len(c.Warnings) }, 0},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if diff := cmp.Diff(tt.want, tt.get(mustLoad(t, tt.file, tt.env...))); diff != "" {
				t.Error(diff)
			}
		})
	}
}

func production(more ...string) []string {
	return append([]string{"PORTICO_MODE=production", "JWT_SECRET=" + jwtSecret, "ENCRYPTION_KEY=" + encryptionKey}, more...)
}

// Every way of being wrong, and the words that name it.
func TestProblems(t *testing.T) {
	t.Parallel()
	tests := map[string]struct {
		file string
		env  []string
		want string
	}{
		"typo in the file":                {"ptc: {mod: on}", nil, `"ptc.mod" in the file is not a setting`},
		"value for a group":               {"ptc: on", nil, `"ptc" in the file is a group`},
		"group for a value":               {"ptc: {mode: {a: 1}}", nil, "PTC_MODE (ptc.mode) must be one value, not a group"},
		"list for a value":                {"server: {listen: [a]}", nil, "PORTICO_LISTEN (server.listen) must be one value, not a list"},
		"group in a list":                 {"server: {origins: [{a: b}]}", nil, "item 1: must be one value"},
		"number for a text":               {"sandbox: {s3lib: {hash: 007}}", nil, "must be in quotes"},
		"float for a text":                {"sandbox: {s3lib: {hash: 1234e2}}", nil, "must be in quotes"},
		"date for a text":                 {"sandbox: {s3lib: {hash: 2026-01-02}}", nil, "must be in quotes"},
		"duration without a unit":         {"", []string{"PORTICO_SHUTDOWN_GRACE=15"}, "must be a duration with a unit"},
		"negative duration":               {"", []string{"PORTICO_SHUTDOWN_GRACE=-15s"}, "must be a duration with a unit"},
		"too many days":                   {"", []string{"JWT_EXPIRATION_TIME=99999999d"}, "must be a duration with a unit"},
		"negative milliseconds":           {"", []string{"PTC_POLL_INTERVAL_MS=-1"}, "must be a duration"},
		"poll interval too short":         {"", []string{"PTC_POLL_INTERVAL_MS=1"}, "PTC_POLL_INTERVAL_MS (ptc.pollInterval) must be between 10"},
		"size":                            {"", []string{"SANDBOX_MEMORY=lots"}, "must be a size in bytes"},
		"size out of range":               {"", []string{"SANDBOX_MEMORY=99999999999GiB"}, "must be a size in bytes"},
		"number":                          {"", []string{"SANDBOX_POOL=1.5"}, "must be a whole number"},
		"rate is text":                    {"", []string{"USD_TO_CREDITS_RATE=NaN"}, "USD_TO_CREDITS_RATE (billing.usdToCredits) must be a number"},
		"rate is nothing":                 {"", []string{"USD_TO_CREDITS_RATE=0"}, "must be more than 0"},
		"limit with separators":           {"", []string{"BILLING_DAY_LIMIT=1_000"}, "BILLING_DAY_LIMIT (billing.dayLimit) must be a number such as 100 or 2.5"},
		"limit in YAML's quotes":          {`billing: {runLimit: "1_000"}`, nil, "BILLING_RUN_LIMIT (billing.runLimit) must be a number"},
		"limit that is infinite":          {"billing: {runLimit: 1e309}", nil, "BILLING_RUN_LIMIT (billing.runLimit) must be a number"},
		"limit of six digits":             {"billing: {runLimit: 0.1234567}", nil, "BILLING_RUN_LIMIT (billing.runLimit) must be a number"},
		"network":                         {"composio: {egress: [10.1.0.0/16, 10.2.0.0]}", nil, "COMPOSIO_EGRESS (composio.egress) must be networks such as 10.1.0.0/16"},
		"embeddings of no model":          {"", []string{"EMBEDDING_URL=https://api.example.com/v1"}, "EMBEDDING_MODEL (embedding.model) must be set"},
		"similarity over one":             {"", []string{"KNOWLEDGE_MIN_SIMILARITY=1.5"}, "KNOWLEDGE_MIN_SIMILARITY (knowledge.minSimilarity) must be between 0 and 1"},
		"opened folder":                   {"", []string{"LOAD_FILE_ROOTS=/srv/data,docs"}, "LOAD_FILE_ROOTS (loadFile.roots) must be absolute paths"},
		"everything opened":               {"", []string{"LOAD_FILE_ROOTS=/"}, "LOAD_FILE_ROOTS (loadFile.roots) must be absolute paths"},
		"pages of a sitemap":              {"", []string{"FETCH_MAX_PAGES=0"}, "FETCH_MAX_PAGES (fetch.maxPages) must be between 1 and 50000"},
		"empty item":                      {"", []string{"ORIGIN=https://a.test,,https://b.test"}, "ORIGIN (server.origins) must be a list without empty items"},
		"empty item in the file":          {`server: {origins: ["https://a.test", ""]}`, nil, "ORIGIN (server.origins) item 2: must not be empty"},
		"no toolset and another":          {"", []string{"BILLING_FREE_TOOLSETS=none,twitter"}, "BILLING_FREE_TOOLSETS (billing.freeToolsets) must be keys"},
		"line break":                      {`agent: {maxRuns: "5\n6"}`, nil, "AGENT_MAX_RUNS (agent.maxRuns) must be one line"},
		"NUL":                             {`sandbox: {root: "/root\0"}`, nil, "SANDBOX_ROOT (sandbox.root) must be one line"},
		"no UTF-8":                        {"", []string{"CODEAPI_USER=\xff"}, "CODEAPI_USER (codeApi.user) must be one line"},
		"sequence":                        {"", []string{"PTC_SEQUENTIAL=ture"}, "PTC_SEQUENTIAL (ptc.sequential) must be true or false"},
		"percent":                         {"", []string{"PTC_ROLLOUT_PERCENT=101"}, "PTC_ROLLOUT_PERCENT (ptc.rolloutPercent) must be between 0 and 100"},
		"half of the headers":             {"", []string{"MODEL_HEADERS=X-Team: blue,oops"}, "MODEL_HEADERS (model.headers) must be headers"},
		"a header twice":                  {"", []string{"MODEL_HEADERS=X-Team: blue,X-Team: red"}, "must not name a header twice"},
		"bool":                            {"", []string{"DEMO_ENABLED=maybe"}, "must be true or false"},
		"mode":                            {"", []string{"PORTICO_MODE=prod"}, "must be development or production"},
		"listen":                          {"", []string{"PORTICO_LISTEN=5800"}, "PORTICO_LISTEN (server.listen) must be an address"},
		"peers' listen":                   {"", []string{"DATABASE_URL=postgres://h/d", "PORTICO_PEER_LISTEN=5802"}, "PORTICO_PEER_LISTEN (peers.listen) must be an address"},
		"peers' address":                  {"", []string{"ENCRYPTION_KEY=" + encryptionKey, "DATABASE_URL=postgres://h/d", "PORTICO_PEER_LISTEN=:5802", "PORTICO_PEER_ADDRESS=:5802"}, "PORTICO_PEER_ADDRESS (peers.address) must be an address"},
		"peers nowhere":                   {"", []string{"ENCRYPTION_KEY=" + encryptionKey, "DATABASE_URL=postgres://h/d", "PORTICO_PEER_LISTEN=:5802"}, "must be set where PORTICO_PEER_LISTEN names no host"},
		"peers who do not listen":         {"", []string{"DATABASE_URL=postgres://h/d", "PORTICO_PEER_ADDRESS=h:5802"}, "needs PORTICO_PEER_LISTEN"},
		"peers on a file":                 {"", []string{"PORTICO_PEER_LISTEN=127.0.0.1:5802"}, "needs PostgreSQL"},
		"a pool without a place":          {"", []string{"ENCRYPTION_KEY=" + encryptionKey, "SANDBOX_DRIVER=remote", "SANDBOX_CLAIM_POOL=warm"}, "SANDBOX_CLAIM_NAMESPACE (sandbox.claims.namespace) must be the namespace"},
		"a pool and addresses":            {"", []string{"ENCRYPTION_KEY=" + encryptionKey, "SANDBOX_DRIVER=remote", "SANDBOX_CLAIM_POOL=warm", "SANDBOX_CLAIM_NAMESPACE=n", "SANDBOX_NODES=a:5803"}, "they come from one of the two"},
		"a pool and programs here":        {"", []string{"ENCRYPTION_KEY=" + encryptionKey, "SANDBOX_CLAIM_POOL=warm", "SANDBOX_CLAIM_NAMESPACE=n"}, "counts only where SANDBOX_DRIVER is remote"},
		"a pool with a known key":         {"", []string{"SANDBOX_DRIVER=remote", "SANDBOX_CLAIM_POOL=warm", "SANDBOX_CLAIM_NAMESPACE=n"}, "needs an ENCRYPTION_KEY of your own"},
		"a pool that is kept for no time": {"", []string{"SANDBOX_CLAIM_IDLE=1s"}, "must be a minute at least"},
		"half a certificate":              {"", []string{"DATABASE_URL=postgres://h/d", "PORTICO_PEER_TLS_CERT=a"}, "all three or none"},
		"listen port":                     {"", []string{"PORTICO_LISTEN=:99999"}, "must be an address"},
		"endpoint scheme":                 {"", []string{"ENDPOINT=ftp://a.test"}, "ENDPOINT (server.endpoint) must be an address"},
		"endpoint credentials":            {"", []string{"ENDPOINT=http://u:p@a.test"}, "without credentials"},
		"endpoint version":                {"", []string{"ENDPOINT=http://a.test/v1/"}, "must not end with /v1"},
		"origin wildcard":                 {"", []string{"ORIGIN=*"}, "ORIGIN (server.origins) must be origins"},
		"origin path":                     {"", []string{"ORIGIN=https://a.test/app"}, "must be origins"},
		"no secret in production":         {"", []string{"PORTICO_MODE=production", "ENCRYPTION_KEY=" + encryptionKey}, "JWT_SECRET (server.jwtSecret) must have at least 32"},
		"known secret":                    {"", production("JWT_SECRET=test"), "JWT_SECRET (server.jwtSecret) must have at least 32"},
		"no key in production":            {"", []string{"PORTICO_MODE=production", "JWT_SECRET=" + jwtSecret}, "ENCRYPTION_KEY (server.encryptionKey) must be set in production"},
		"development key":                 {"", production("ENCRYPTION_KEY=" + mustLoad(t, "").Server.EncryptionKey.Reveal()), "must not be the development key"},
		"short key":                       {"", []string{"ENCRYPTION_KEY=00ff"}, "must be 64 hexadecimal digits"},
		"short old key":                   {"", []string{"ENCRYPTION_KEYS_OLD=" + encryptionKey + ",00ff"}, "ENCRYPTION_KEYS_OLD (server.encryptionKeysOld) must be keys of 64 hexadecimal digits"},
		"old key that is the new":         {"", production("ENCRYPTION_KEYS_OLD=" + encryptionKey), "must not name the key of ENCRYPTION_KEY"},
		"old development key":             {"", production("ENCRYPTION_KEYS_OLD=" + mustLoad(t, "").Server.EncryptionKey.Reveal()), "must not name the development key"},
		"short old secret":                {"", []string{"JWT_SECRETS_OLD=" + jwtSecret + ",hunter2"}, "JWT_SECRETS_OLD (server.jwtSecretsOld) must be secrets of 32 to 256"},
		"peers with a known key":          {"", []string{"DATABASE_URL=postgres://u:p@h/db", "PORTICO_PEER_LISTEN=10.0.0.5:5802"}, "needs an ENCRYPTION_KEY of your own"},
		"peers with a known old key": {"", []string{
			"DATABASE_URL=postgres://u:p@h/db", "PORTICO_PEER_LISTEN=10.0.0.5:5802", "ENCRYPTION_KEY=" + encryptionKey,
			"ENCRYPTION_KEYS_OLD=" + mustLoad(t, "").Server.EncryptionKey.Reveal(),
		}, "needs an ENCRYPTION_KEY of your own"},
		"old secret that is new":    {"", production("JWT_SECRETS_OLD=" + jwtSecret), "must not name the secret of JWT_SECRET"},
		"database":                  {"", []string{"DATABASE_URL=mysql://u:hunter2@h/db"}, "DATABASE_URL (database.url) must be like"},
		"database without a name":   {"", []string{"DATABASE_URL=postgres://u:hunter2@h/?x=y"}, "must be like"},
		"password with a percent":   {"", []string{"DATABASE_URL=postgres://u:hunter2%@h/db"}, "percent-encoded"},
		"sqlite without a path":     {"", []string{"DATABASE_URL=sqlite:"}, "must be like"},
		"storage driver":            {"", []string{"OBJECT_STORAGE_DRIVER=ftp"}, "must be folder or s3"},
		"s3 without a bucket":       {"objectStorage: {driver: s3}", nil, "S3_BUCKET (objectStorage.s3.bucket) must name a bucket"},
		"s3 with half a key":        {"", []string{"OBJECT_STORAGE_DRIVER=s3", "S3_BUCKET=b", "S3_ACCESS_KEY=a"}, "S3_SECRET_KEY (objectStorage.s3.secretKey) must be set when S3_ACCESS_KEY is"},
		"s3 endpoint":               {"", []string{"S3_ENDPOINT=localhost:9000"}, "S3_ENDPOINT (objectStorage.s3.endpoint) must be an address"},
		"separator":                 {"", []string{"PTC_CALL_ID_SEPARATOR=-"}, `must be ":" or "_"`},
		"prefix that climbs":        {"", []string{"SANDBOX_S3LIB_PATH_PREFIX=a/../../b"}, "must be a path like"},
		"hash that is a path":       {"", []string{"SANDBOX_S3LIB_HASH=a/b"}, "must be one name"},
		"hash that climbs":          {"", []string{"SANDBOX_S3LIB_HASH=.."}, "must be one name"},
		"sandbox timeout over most": {"", []string{"SANDBOX_TIMEOUT_MS=9000", "SANDBOX_MAX_TIMEOUT_MS=5000"}, "SANDBOX_TIMEOUT_MS (sandbox.timeout) must be between"},
		"model address":             {"", []string{"MODEL_BASE_URL=api.example.com"}, "MODEL_BASE_URL (model.baseUrl) must be a URL"},
		"model headers":             {"", []string{"MODEL_HEADERS=X Team: blue"}, "MODEL_HEADERS (model.headers) must be headers"},
		"model headers of nothing":  {"", []string{"MODEL_HEADERS=blue"}, "MODEL_HEADERS (model.headers) must be headers"},
		"model price":               {"", []string{"MODEL_INPUT_PRICE=much"}, "MODEL_INPUT_PRICE (model.inputPrice) must be a number"},
		"code timeout":              {"", []string{"PTC_TIMEOUT=301"}, "PTC_TIMEOUT (agent.codeTimeout) must be between 1 and 300 seconds"},
		"sandbox most over limit":   {"", []string{"SANDBOX_MAX_TIMEOUT_MS=300001"}, "between 1000 and 300000"},
		"tool timeout":              {"", []string{"TOOL_TIMEOUT=301s"}, "at most TOOL_MAX_TIMEOUT"},
		"plan limit of nothing":     {"", []string{"CODEAPI_PLAN_LIMITS=free"}, "CODEAPI_PLAN_LIMITS (codeApi.planLimits) must be plans with their limits"},
		"plan limit unknown":        {"", []string{"CODEAPI_PLAN_LIMITS=free time=5s"}, "must be plans with their limits"},
		"plan limit twice":          {"", []string{"CODEAPI_PLAN_LIMITS=free atOnce=5 atOnce=6"}, "must be plans with their limits"},
		"plan limit of zero":        {"", []string{"CODEAPI_PLAN_LIMITS=free perMinute=0"}, "must not limit anything to 0"},
		"plan file of nothing":      {"", []string{"CODEAPI_PLAN_LIMITS=free maxFile=0KiB"}, "must not limit anything to 0"},
		"plan of two limits":        {"", []string{"CODEAPI_PLAN_LIMITS=free atOnce=5,free perMinute=6"}, "must name each plan once"},
		"plan timeout too short":    {"", []string{"CODEAPI_PLAN_LIMITS=free timeout=5ms"}, "must give no plan a timeout under 1s"},
		"plan of a token":           {"", []string{"CODEAPI_PLANS=pro"}, "CODEAPI_PLANS (codeApi.plans) must be like"},
		"plan of a token twice":     {"", []string{"CODEAPI_PLANS=pro=a,pro=b"}, "must name each plan_id once"},
		"key of a token":            {"", []string{"CODEAPI_JWT_PUBLIC_KEY=hunter2"}, "CODEAPI_JWT_PUBLIC_KEY (codeApi.jwt.publicKey) must be a public key"},
		"key set of tokens":         {"", []string{"CODEAPI_JWT_JWKS_JSON=[]"}, "CODEAPI_JWT_JWKS_JSON (codeApi.jwt.keySet) must be a JSON Web Key Set"},
		"life of tokens":            {"", []string{"CODEAPI_JWT_MAX_TTL_SECONDS=301"}, "between 1 and 300 seconds"},
		"skew of tokens":            {"", []string{"CODEAPI_JWT_CLOCK_SKEW_SECONDS=31"}, "between 0 and 30 seconds"},
		"log level":                 {"", []string{"LOG_LEVEL=loud"}, "must be debug or info or warn or error"},
		"demo address":              {"", []string{"DEMO_LISTEN=here"}, "DEMO_LISTEN (demo.listen) must be an address"},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			got := problems(t, tt.file, tt.env...)
			if len(got) != 1 || !strings.Contains(got[0], tt.want) {
				t.Errorf("problems = %q, want only one with %q", got, tt.want)
			}
			if strings.Contains(strings.Join(got, "\n"), "hunter2") {
				t.Errorf("problems repeat a password: %q", got)
			}
		})
	}
}

func TestAllProblemsAtOnce(t *testing.T) {
	t.Parallel()
	got := problems(t, "ptc: {mod: on}\nlog: {level: loud}\n",
		"PORTICO_MODE=production", "SANDBOX_POOL=many", "ORIGIN=*")
	want := []string{"ptc.mod", "ORIGIN", "JWT_SECRET", "ENCRYPTION_KEY", "SANDBOX_POOL", "LOG_LEVEL"}
	if len(got) != len(want) {
		t.Fatalf("%d problems, want %d: %q", len(got), len(want), got)
	}
	for _, name := range want {
		if !strings.Contains(strings.Join(got, "\n"), name) {
			t.Errorf("no problem names %s: %q", name, got)
		}
	}
}

func TestUnknownVariablesOfListsAndLimitsAreWarnings(t *testing.T) {
	t.Parallel()
	c := mustLoad(t, "", production("PTC_TOOLSET_BLOCKLST=notion", "BILLING_DAY_LIMT=5", "CODEAPI_JWT_ALLOWED_ALGS=EdDSA", "OTHER=1")...)
	if len(c.Warnings) != 3 || !strings.Contains(c.Warnings[0], "BILLING_DAY_LIMT") || !strings.Contains(c.Warnings[1], "CODEAPI_JWT_ALLOWED_ALGS") ||
		!strings.Contains(c.Warnings[2], "PTC_TOOLSET_BLOCKLST") {
		t.Errorf("Warnings = %q", c.Warnings)
	}
}

func TestFile(t *testing.T) {
	t.Parallel()
	byVariable, err := configs.Load(configs.Options{Environ: []string{"PORTICO_CONFIG=" + writeFile(t, "ptc: {mode: on}")}})
	if err != nil {
		t.Fatal(err)
	}
	if byVariable.PTC.Mode != "on" {
		t.Error("the file that PORTICO_CONFIG names was not read")
	}
	missing := filepath.Join(t.TempDir(), "none.yaml")
	if _, err := configs.Load(configs.Options{File: missing}); err == nil || !strings.Contains(err.Error(), "does not exist") {
		t.Errorf("missing file: %v", err)
	}
	if _, err := configs.Load(configs.Options{File: writeFile(t, "ptc: [")}); err == nil || !strings.Contains(err.Error(), "not valid YAML") {
		t.Errorf("broken file: %v", err)
	}
}

// Where callers reach the server follows from where it listens, unless it is
// said.
func TestEndpointFollowsTheListenAddress(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct{ listen, endpoint, want string }{
		{"", "", "http://localhost:5800"},
		{":8080", "", "http://localhost:8080"},
		{"0.0.0.0:8080", "", "http://localhost:8080"},
		{"[::]:8080", "", "http://localhost:8080"},
		{"127.0.0.1:8080", "", "http://127.0.0.1:8080"},
		{"[::1]:8080", "", "http://[::1]:8080"},
		{"api.test:8080", "", "http://api.test:8080"},
		{":8080", "https://api.test/", "https://api.test"},
	} {
		c := mustLoad(t, "", "PORTICO_LISTEN="+tc.listen, "ENDPOINT="+tc.endpoint)
		if c.Server.Endpoint != tc.want || len(c.Warnings) != 2 {
			t.Errorf("%+v: %s, %q", tc, c.Server.Endpoint, c.Warnings)
		}
	}
	if c := mustLoad(t, "server: {listen: '127.0.0.1:0'}"); len(c.Warnings) != 3 {
		t.Errorf("a port that nobody knows: %q", c.Warnings)
	}
	if got := problems(t, "", "PORTICO_LISTEN=nowhere"); len(got) != 1 {
		t.Errorf("one mistake is reported as %q", got)
	}
}

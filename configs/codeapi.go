package configs

import (
	"strings"
	"time"
)

// CodeAPI is the code interpreter API that LibreChat speaks.
type CodeAPI struct {
	// Auth is false for networks in which every caller is trusted: a caller
	// without a credential is User then.
	Auth bool   `key:"auth" env:"CODEAPI_AUTH"`
	User string `key:"user" env:"CODEAPI_USER"`
	// Errors is how runs that failed are answered: auto, status or phrases.
	Errors string `key:"errors" env:"CODEAPI_ERRORS"`
	// SessionLife is how long files are kept after the last use of their
	// session.
	SessionLife time.Duration `key:"sessionLife" env:"CODEAPI_SESSION_LIFE"`
	// MaxFile is the largest file; MaxFiles how many come with one request or
	// out of one program.
	MaxFile  int64 `key:"maxFile" env:"CODEAPI_MAX_FILE"`
	MaxFiles int   `key:"maxFiles" env:"CODEAPI_MAX_FILES"`
	// Timeout is the limit of a program that names none; Sandbox.MaxTimeout
	// bounds it as well.
	Timeout time.Duration `key:"timeout" env:"CODEAPI_TIMEOUT_MS"`
	// Idle is how long a paused program waits for its caller.
	Idle time.Duration `key:"idle" env:"CODEAPI_IDLE_MS"`
	// MaxRounds is how often one program may pause, MaxCalls how many calls it
	// may make, MaxTools how many tools a request may bring.
	MaxRounds int `key:"maxRounds" env:"CODEAPI_MAX_ROUNDS"`
	MaxCalls  int `key:"maxCalls" env:"CODEAPI_MAX_CALLS"`
	MaxTools  int `key:"maxTools" env:"CODEAPI_MAX_TOOLS"`
	// MaxResult is the largest result of one call, MaxState that of all
	// results of one program, and of its calls that wait for results.
	MaxResult int64 `key:"maxResult" env:"CODEAPI_MAX_RESULT"`
	MaxState  int64 `key:"maxState" env:"CODEAPI_MAX_STATE"`
	// JWT is whose signed tokens are taken.
	JWT CodeAPIJWT `key:"jwt"`
	// Plans says which plan a token's plan_id stands for, each as
	// "plan_id=lookup key"; empty leaves the plans of users alone.
	Plans []string `key:"plans" env:"CODEAPI_PLANS"`
	// PlanLimits bounds the programs of users by their plans.
	PlanLimits []PlanLimit `key:"planLimits" env:"CODEAPI_PLAN_LIMITS"`
}

// CodeAPIJWT says whose signed tokens the code interpreter API takes, under the
// names that LibreChat's own server has. Without a key it takes none. All of its
// keys are hidden when printed: one may be a private key by mistake.
type CodeAPIJWT struct {
	// PublicKey is a key as PEM or as a JSON Web Key, KeyID its kid.
	PublicKey Secret `key:"publicKey" env:"CODEAPI_JWT_PUBLIC_KEY" also:"lines"`
	KeyID     string `key:"keyId" env:"CODEAPI_JWT_KID"`
	// KeySet is a JSON Web Key Set.
	KeySet Secret `key:"keySet" env:"CODEAPI_JWT_JWKS_JSON" also:"lines"`
	// KeyFolder holds a key in each file, named by its kid; ReloadSeconds is
	// after how long it is read again.
	KeyFolder     string `key:"keyFolder" env:"CODEAPI_JWT_PUBLIC_KEYS_DIR"`
	ReloadSeconds int    `key:"reloadSeconds" env:"CODEAPI_JWT_KEY_CACHE_TTL_SECONDS"`
	// HS256Secret takes tokens that are signed with a shared secret, SecretID is
	// their kid.
	HS256Secret Secret `key:"hs256Secret" env:"CODEAPI_JWT_HS256_SECRET"`
	SecretID    string `key:"secretId" env:"CODEAPI_JWT_HS256_KID"`
	// Issuer and Audience are what the claims iss and aud have to say.
	Issuer   string `key:"issuer" env:"CODEAPI_JWT_ISSUER"`
	Audience string `key:"audience" env:"CODEAPI_JWT_AUDIENCE"`
	// SkewSeconds is by how much clocks may differ, MaxSeconds the longest life
	// of a token.
	SkewSeconds int `key:"skewSeconds" env:"CODEAPI_JWT_CLOCK_SKEW_SECONDS"`
	MaxSeconds  int `key:"maxSeconds" env:"CODEAPI_JWT_MAX_TTL_SECONDS"`
	// TenantRequired refuses tokens without tenant_id.
	TenantRequired bool `key:"tenantRequired" env:"CODEAPI_TENANT_ISOLATION_STRICT"`
	// MaxUsers is how many users the tokens may make; 0 is no limit.
	MaxUsers int `key:"maxUsers" env:"CODEAPI_JWT_MAX_USERS"`
}

// Enabled reports whether there is anything to verify tokens with.
func (j CodeAPIJWT) Enabled() bool {
	return j.PublicKey != "" || j.KeySet != "" || j.KeyFolder != "" || j.HS256Secret != ""
}

// PlanLimit is what one plan allows beyond the limits of all: in the file and
// the environment "plan timeout=30s maxFile=10MiB atOnce=2 perMinute=20", each
// part but the plan optional. What is zero is not bounded by the plan.
type PlanLimit struct {
	Plan string // lookup key, or "free"
	// Timeout is the longest time limit of a program, MaxFile its largest file.
	Timeout time.Duration
	MaxFile int64
	// AtOnce is how many programs one user may have running, waiting or paused;
	// PerMinute is how many they may start in a minute.
	AtOnce, PerMinute int
}

// PlanKeys are Plans by plan_id.
func (c CodeAPI) PlanKeys() map[string]string {
	if len(c.Plans) == 0 {
		return nil
	}
	keys := map[string]string{}
	for _, p := range c.Plans {
		name, key, _ := strings.Cut(p, "=")
		keys[strings.TrimSpace(name)] = strings.TrimSpace(key)
	}
	return keys
}

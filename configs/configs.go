// Package configs turns a configuration file and the environment into one
// typed, checked and immutable value.
//
// Every setting has a key in the file and a variable in the environment; the
// variable wins. A variable that is empty counts as not set. Values are
// trimmed. The defaults are in default.yaml.
package configs

import (
	"net/netip"
	"time"
)

// Config is the whole configuration. It is never changed after Load returned
// it, so it can be read from any goroutine.
//
// In the file an int64 is a size in bytes ("10MiB" or a number), a duration
// has a unit ("15s", "1d"), and a list is a YAML list or one comma-separated
// text, without empty items. What cannot be read is refused, whatever its type;
// so are control characters.
type Config struct {
	Server        Server        `key:"server"`
	Peers         Peers         `key:"peers"`
	SignIn        SignIn        `key:"signIn"`
	Database      Database      `key:"database"`
	ObjectStorage ObjectStorage `key:"objectStorage"`
	PTC           PTC           `key:"ptc"`
	Sandbox       Sandbox       `key:"sandbox"`
	CodeAPI       CodeAPI       `key:"codeApi"`
	Anthropic     Anthropic     `key:"anthropic"`
	Model         Model         `key:"model"`
	Agent         Agent         `key:"agent"`
	OpenAI        OpenAI        `key:"openai"`
	Flat          Flat          `key:"flat"`
	Drive         Drive         `key:"drive"`
	Tool          Tool          `key:"tool"`
	Approval      Approval      `key:"approval"`
	Billing       Billing       `key:"billing"`
	Composio      Composio      `key:"composio"`
	Redis         Redis         `key:"redis"`
	Knowledge     Knowledge     `key:"knowledge"`
	Embedding     Embedding     `key:"embedding"`
	Fetch         Fetch         `key:"fetch"`
	LoadFile      LoadFile      `key:"loadFile"`
	Toolsets      Toolsets      `key:"toolsets"`
	MCP           MCP           `key:"mcp"`
	Console       Console       `key:"console"`
	Demo          Demo          `key:"demo"`
	Log           Log           `key:"log"`
	Admin         Admin         `key:"admin"`
	Tracing       Tracing       `key:"tracing"`
	Retention     Retention     `key:"retention"`

	// Warnings are sentences for the operator about settings that work but
	// should not stay so.
	Warnings []string
}

// Modes of the server.
const (
	Development = "development"
	Production  = "production"
)

// Roles of a process.
const (
	RoleAll     = "all"     // the API, and programs
	RoleAPI     = "api"     // the API; programs run on sandbox nodes
	RoleSandbox = "sandbox" // a sandbox node: programs, and nothing else
)

// Server is the HTTP server and what it needs to know about its callers.
type Server struct {
	// Role is what the process does: RoleAll, RoleAPI or RoleSandbox.
	Role string `key:"role" env:"PORTICO_ROLE"`
	// Listen is the address of the API, "host:port" or ":port".
	Listen string `key:"listen" env:"PORTICO_LISTEN"`
	// Endpoint is where callers reach the API, without "/v1" and without a
	// slash at the end. Load derives it from Listen where it is empty.
	Endpoint string `key:"endpoint" env:"ENDPOINT"`
	// Mode is Development or Production. Production refuses missing secrets.
	Mode string `key:"mode" env:"PORTICO_MODE"`
	// Origins are the web origins that may call the API from a browser.
	Origins []string `key:"origins" env:"ORIGIN"`
	// TrustedProxies are the networks of reverse proxies that say with
	// X-Forwarded-For where a request began.
	TrustedProxies []netip.Prefix `key:"trustedProxies" env:"TRUSTED_PROXIES"`
	// JWTSecret signs the tokens of the web frontend (HS256). If it is empty in
	// development, the server makes one and keeps it in the data folder.
	JWTSecret Secret `key:"jwtSecret" env:"JWT_SECRET"`
	// JWTSecretsOld are secrets whose tokens are still taken, with commas between
	// them. They sign nothing.
	JWTSecretsOld Secret `key:"jwtSecretsOld" env:"JWT_SECRETS_OLD"`
	// JWTExpiration is how long such a token is valid.
	JWTExpiration time.Duration `key:"jwtExpiration" env:"JWT_EXPIRATION_TIME"`
	// EncryptionKey seals credentials at rest: 32 bytes as 64 hexadecimal
	// digits. Load fills in a well-known one in development.
	EncryptionKey Secret `key:"encryptionKey" env:"ENCRYPTION_KEY"`
	// EncryptionKeysOld are keys that still open what they have sealed, with commas
	// between them. They seal nothing.
	EncryptionKeysOld Secret `key:"encryptionKeysOld" env:"ENCRYPTION_KEYS_OLD"`
	// BodyLimit is the largest request body.
	BodyLimit int64 `key:"bodyLimit" env:"PORTICO_BODY_LIMIT"`
	// ShutdownGrace is how long requests in flight may finish when the server stops.
	ShutdownGrace time.Duration `key:"shutdownGrace" env:"PORTICO_SHUTDOWN_GRACE"`
	// Migrate applies migrations and the files of toolsets and MCP servers at the start.
	// Without it, somebody else does, and the process does not start before that.
	Migrate bool `key:"migrate" env:"PORTICO_MIGRATE"`
	// DrainDelay is how long a process that ends still takes new work, so that
	// balancers learn of it; nothing where no other process serves the database.
	DrainDelay time.Duration `key:"drainDelay" env:"DRAIN_DELAY"`
	// DrainTimeout is how long it then waits for what it works on.
	DrainTimeout time.Duration `key:"drainTimeout" env:"DRAIN_TIMEOUT"`
}

// OldEncryptionKeys are the keys of EncryptionKeysOld.
func (s Server) OldEncryptionKeys() []string { return s.EncryptionKeysOld.list() }

// OldJWTSecrets are the secrets of JWTSecretsOld.
func (s Server) OldJWTSecrets() []string { return s.JWTSecretsOld.list() }

// Database is where the records are.
type Database struct {
	// URL is "sqlite:PATH" or "postgres://…".
	URL DatabaseURL `key:"url" env:"DATABASE_URL"`
	// DirectURL is the address of the same PostgreSQL where URL is that of a pooler
	// which gives out connections by the transaction, such as PgBouncer.
	DirectURL DatabaseURL `key:"directUrl" env:"DATABASE_DIRECT_URL"`
	// MaxConnections is the size of the connection pool.
	MaxConnections int `key:"maxConnections" env:"DATABASE_MAX_CONNECTIONS"`
}

// Drivers of the object storage.
const (
	FolderDriver = "folder"
	S3Driver     = "s3"
)

// ObjectStorage is where files, large results and SDK bundles are.
type ObjectStorage struct {
	// Driver is FolderDriver or S3Driver.
	Driver string `key:"driver" env:"OBJECT_STORAGE_DRIVER"`
	// Folder is the directory of the folder driver.
	Folder string `key:"folder" env:"OBJECT_STORAGE_FOLDER"`
	S3     S3     `key:"s3"`
}

// S3 is the bucket of the S3 driver.
type S3 struct {
	// Endpoint is the address of a server other than AWS; empty for AWS.
	Endpoint string `key:"endpoint" env:"S3_ENDPOINT"`
	Region   string `key:"region" env:"S3_REGION"`
	Bucket   string `key:"bucket" env:"S3_BUCKET"`
	// AccessKey and SecretKey are both set, or both empty to use the
	// credentials of the machine.
	AccessKey Secret `key:"accessKey" env:"S3_ACCESS_KEY"`
	SecretKey Secret `key:"secretKey" env:"S3_SECRET_KEY"`
	// PathStyle puts the bucket into the path instead of the host name.
	PathStyle bool `key:"pathStyle" env:"S3_PATH_STYLE"`
}

// PTC decides who may use programmatic tool calling. The texts are raw; package
// ptc gives them their meaning.
type PTC struct {
	// Enabled is a shorter form of Mode, used when Mode is empty.
	Enabled          string `key:"enabled" env:"PTC_ENABLED"`
	Mode             string `key:"mode" env:"PTC_MODE"`
	Debug            string `key:"debug" env:"PTC_DEBUG"`
	UserAllowlist    string `key:"userAllowlist" env:"PTC_USER_ALLOWLIST" also:"list"`
	ToolsetAllowlist string `key:"toolsetAllowlist" env:"PTC_TOOLSET_ALLOWLIST" also:"list"`
	ToolsetBlocklist string `key:"toolsetBlocklist" env:"PTC_TOOLSET_BLOCKLIST" also:"list"`
	Sequential       string `key:"sequential" env:"PTC_SEQUENTIAL"`
	// RolloutPercent is a share of the users, 0 to 100.
	RolloutPercent Decimal `key:"rolloutPercent" env:"PTC_ROLLOUT_PERCENT"`
	RolloutSalt    string  `key:"rolloutSalt" env:"PTC_ROLLOUT_SALT"`
	// CallIDSeparator stands between the kind and the UUID of a call id.
	CallIDSeparator string `key:"callIdSeparator" env:"PTC_CALL_ID_SEPARATOR"`
	// PollInterval is how often a process looks, for all its event streams
	// together, without being woken.
	PollInterval time.Duration `key:"pollInterval" env:"PTC_POLL_INTERVAL_MS"`
}

// Flat is the tools that programs call as plain functions.
type Flat struct {
	// Tools gives programs the functions of marked tools and of the server, and
	// answers POST /tool_call. llm_query does not depend on it.
	Tools bool `key:"tools" env:"FLAT_TOOLS"`
	// Query is llm_query.
	Query Query `key:"query"`
}

// Query bounds the questions of programs to a model.
type Query struct {
	// Model answers them, at the address and with the key of Model; empty
	// leaves programs without llm_query.
	Model string `key:"model" env:"LLM_QUERY_MODEL"`
	// MaxTokens is the most tokens of one answer, 0 leaves it to the provider;
	// Timeout bounds the answer.
	MaxTokens int           `key:"maxTokens" env:"LLM_QUERY_MAX_TOKENS"`
	Timeout   time.Duration `key:"timeout" env:"LLM_QUERY_TIMEOUT"`
	// MaxPerProgram is how often one program may ask; 0 is no bound.
	MaxPerProgram int `key:"maxPerProgram" env:"LLM_QUERY_MAX_PER_PROGRAM"`
}

// Anthropic is what serves the form of Anthropic's API.
type Anthropic struct {
	// API answers POST /v1/messages and what belongs to it.
	API bool `key:"api" env:"ANTHROPIC_API"`
}

// Drive bounds the files of canvases.
type Drive struct {
	// MaxFile is the largest file; Quota is how much room all files of one
	// user take.
	MaxFile int64 `key:"maxFile" env:"DRIVE_MAX_FILE"`
	Quota   int64 `key:"quota" env:"DRIVE_QUOTA"`
	// PresignExpiry is how long a link to a file is valid, in seconds.
	PresignExpiry int `key:"presignExpiry" env:"DRIVE_PRESIGN_EXPIRY"`
}

// S3Lib is which SDK bundle is in force: <PathPrefix>/<Hash>/refly_tools in
// the object storage.
type S3Lib struct {
	PathPrefix string `key:"pathPrefix" env:"SANDBOX_S3LIB_PATH_PREFIX"`
	// Hash is the version of the bundle; empty lets the server publish one of
	// its own toolsets.
	Hash string `key:"hash" env:"SANDBOX_S3LIB_HASH"`
}

// Tool bounds the execution of one tool call.
type Tool struct {
	// OutputCap is the largest result that records, events and models get whole;
	// of a larger one they get a shortened copy. Code gets all of it.
	OutputCap int64 `key:"outputCap" env:"TOOL_OUTPUT_CAP"`
	// Timeout is the deadline of a call whose toolset sets none; MaxTimeout is
	// the most a toolset may set.
	Timeout    time.Duration `key:"timeout" env:"TOOL_TIMEOUT"`
	MaxTimeout time.Duration `key:"maxTimeout" env:"TOOL_MAX_TIMEOUT"`
	// ResponseCap is the largest result; a larger one is a failed call.
	ResponseCap int64 `key:"responseCap" env:"TOOL_RESPONSE_CAP"`
	// Lease is how long a call counts as alive after its last sign of life.
	Lease time.Duration `key:"lease" env:"TOOL_LEASE"`
	// MaxPerUser bounds the calls of one user that are in flight.
	MaxPerUser int `key:"maxPerUser" env:"TOOL_MAX_PER_USER"`
	// MaxPerKey and MaxPerRun bound those of one API key and of one run.
	// RatePerKey and RatePerRun bound how many begin in a second; 0 is no bound.
	MaxPerKey  int     `key:"maxPerKey" env:"TOOL_MAX_PER_KEY"`
	RatePerKey Decimal `key:"ratePerKey" env:"TOOL_RATE_PER_KEY"`
	MaxPerRun  int     `key:"maxPerRun" env:"TOOL_MAX_PER_RUN"`
	RatePerRun Decimal `key:"ratePerRun" env:"TOOL_RATE_PER_RUN"`
	// ContentTokens is the most of a web page that a tool returns.
	ContentTokens int `key:"contentTokens" env:"MAX_TOOL_RESULT_TOKENS"`
	// BreakerFailures of twice as many calls to an upstream that got no answer
	// stop calls to it for BreakerDelay; 0 never does.
	BreakerFailures int           `key:"breakerFailures" env:"TOOL_BREAKER_FAILURES"`
	BreakerDelay    time.Duration `key:"breakerDelay" env:"TOOL_BREAKER_DELAY"`
	// ExecuteMCP executes the tools of MCP servers for callers of the route of
	// SDKs, too. Programs and agents of this server reach them always.
	ExecuteMCP bool `key:"executeMcp" env:"TOOL_EXECUTE_MCP"`
}

// Approval is the settings of calls that wait until a person allows them.
type Approval struct {
	// Default is for tools that may write and of which nothing else is said:
	// never, first or always.
	Default string `key:"default" env:"APPROVAL_DEFAULT"`
	// Expiry is how long a call waits before it is refused by itself.
	Expiry time.Duration `key:"expiry" env:"APPROVAL_EXPIRY"`
	// MaxPerUser is how many calls of one user may wait.
	MaxPerUser int `key:"maxPerUser" env:"APPROVAL_MAX_PER_USER"`
	// Webhook is told of every call that waits; empty tells nobody. WebhookSecret
	// signs what it is sent.
	Webhook       string `key:"webhook" env:"APPROVAL_WEBHOOK"`
	WebhookSecret Secret `key:"webhookSecret" env:"APPROVAL_WEBHOOK_SECRET"`
}

// Billing is the settings of credits, besides the prices.
type Billing struct {
	// USDToCredits is how many credits a dollar is.
	USDToCredits Decimal `key:"usdToCredits" env:"USD_TO_CREDITS_RATE"`
	// FreeToolsets are the keys of toolsets that cost nothing. The single item
	// "none" empties the list.
	FreeToolsets []string `key:"freeToolsets" env:"BILLING_FREE_TOOLSETS"`
	// RunLimit and DayLimit are the most credits that a run, and a user in a
	// day (UTC), may spend; Overdraft is how far a balance may go below
	// nothing. nil, written as nothing, is no limit.
	RunLimit  *Decimal `key:"runLimit" env:"BILLING_RUN_LIMIT"`
	DayLimit  *Decimal `key:"dayLimit" env:"BILLING_DAY_LIMIT"`
	Overdraft *Decimal `key:"overdraft" env:"BILLING_OVERDRAFT"`
}

// Composio is the service behind toolsets of type external_oauth and
// external_apikey.
type Composio struct {
	// APIKey is the operator's; empty leaves those toolsets out.
	APIKey  Secret `key:"apiKey" env:"COMPOSIO_API_KEY"`
	BaseURL string `key:"baseUrl" env:"COMPOSIO_BASE_URL"`
	// APIVersion is the part of the path that names the API.
	APIVersion string        `key:"apiVersion" env:"COMPOSIO_API_VERSION"`
	Timeout    time.Duration `key:"timeout" env:"COMPOSIO_TIMEOUT"`
	// Cache is how long a list of tools is kept.
	Cache time.Duration `key:"cache" env:"COMPOSIO_CACHE"`
	// User is the id at Composio that owns the accounts which all users share.
	User string `key:"user" env:"COMPOSIO_USER"`
	// Egress are networks beyond the public internet where the service is.
	Egress []netip.Prefix `key:"egress" env:"COMPOSIO_EGRESS"`
}

// Toolsets is where the toolset files are.
type Toolsets struct {
	// Dir is loaded at boot; empty loads nothing.
	Dir string `key:"dir" env:"TOOLSETS_DIR"`
}

// Console is the pages for people.
type Console struct {
	Enabled bool `key:"enabled" env:"CONSOLE_ENABLED"`
	// Path is where its pages begin, such as "/console".
	Path string `key:"path" env:"CONSOLE_PATH"`
}

// Place is the path of the console; empty for none.
func (c Console) Place() string {
	if !c.Enabled {
		return ""
	}
	return c.Path
}

// Demo is the bundled upstream of the demo toolset.
type Demo struct {
	// Enabled is false in production mode unless it is set.
	Enabled bool   `key:"enabled" env:"DEMO_ENABLED"`
	Listen  string `key:"listen" env:"DEMO_LISTEN"`
}

// Log is what is logged and how.
type Log struct {
	// Level is debug, info, warn or error.
	Level string `key:"level" env:"LOG_LEVEL"`
	// Format is text or json.
	Format string `key:"format" env:"LOG_FORMAT"`
}

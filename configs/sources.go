package configs

import (
	"net/netip"
	"time"
)

// Redis is where the events of runs are published, for dashboards.
type Redis struct {
	// URL is "redis://…", or "rediss://…" for TLS; empty publishes nothing.
	URL Secret `key:"url" env:"REDIS_URL"`
	// StreamLength is about how many events a stream keeps, StreamLife how long a
	// stream stays after its newest one.
	StreamLength int           `key:"streamLength" env:"REDIS_STREAM_LENGTH"`
	StreamLife   time.Duration `key:"streamLife" env:"REDIS_STREAM_LIFE"`
	// CatchUp is how long ago a run may have ended that is published after a
	// process died.
	CatchUp time.Duration `key:"catchUp" env:"REDIS_CATCH_UP"`
}

// Fetch bounds what is read of the web: by fetch_url, and for collections of
// knowledge.
type Fetch struct {
	// MaxBytes is the largest page or file; Timeout is for one, with its
	// conversion.
	MaxBytes int64         `key:"maxBytes" env:"FETCH_MAX_BYTES"`
	Timeout  time.Duration `key:"timeout" env:"FETCH_TIMEOUT"`
	// MaxPages is how many pages a sitemap may list.
	MaxPages int `key:"maxPages" env:"FETCH_MAX_PAGES"`
	// Egress are networks beyond the public internet that may be fetched from.
	Egress []netip.Prefix `key:"egress" env:"FETCH_EGRESS"`
}

// LoadFile is what load_file may load besides the files of a canvas.
type LoadFile struct {
	// Roots are folders that the programs of all users may read.
	Roots []string `key:"roots" env:"LOAD_FILE_ROOTS"`
	// MaxBytes is the largest file that is loaded.
	MaxBytes int64 `key:"maxBytes" env:"LOAD_FILE_MAX_BYTES"`
}

// Knowledge bounds the store of documents that are searched.
type Knowledge struct {
	// MaxPassages and MaxBytes are how many passages one user has, and how much
	// text. The operator's collections are not bounded.
	MaxPassages int   `key:"maxPassages" env:"KNOWLEDGE_MAX_PASSAGES"`
	MaxBytes    int64 `key:"maxBytes" env:"KNOWLEDGE_MAX_BYTES"`
	// MaxDocument is the largest file that is added.
	MaxDocument int64 `key:"maxDocument" env:"KNOWLEDGE_MAX_DOCUMENT"`
	// Memory is what the vectors of all collections take in memory at most.
	Memory int64 `key:"memory" env:"KNOWLEDGE_MEMORY"`
	// MinSimilarity is how near a passage's vector must be to that of a question
	// for the passage to answer it, from 0 to 1.
	MinSimilarity Decimal `key:"minSimilarity" env:"KNOWLEDGE_MIN_SIMILARITY"`
}

// Embedding is the service that makes vectors of texts; without a URL there
// are none.
type Embedding struct {
	URL    string `key:"url" env:"EMBEDDING_URL"`
	APIKey Secret `key:"apiKey" env:"EMBEDDING_API_KEY"`
	Model  string `key:"model" env:"EMBEDDING_MODEL"`
	// Dimensions is how many numbers a vector has; 0 leaves it to the model.
	Dimensions int `key:"dimensions" env:"EMBEDDING_DIMENSIONS"`
	// Timeout is the limit of one attempt, Retries how often one that was refused
	// for a while is made again. A question is asked about once.
	Timeout time.Duration `key:"timeout" env:"EMBEDDING_TIMEOUT"`
	Retries int           `key:"retries" env:"EMBEDDING_RETRIES"`
}

// MCP is which MCP servers there are, and their limits.
type MCP struct {
	// ServersFile describes servers: a file, or a folder of them, that is loaded at
	// boot; empty loads nothing.
	ServersFile string `key:"serversFile" env:"MCP_SERVERS_FILE"`
	// MaxServers is how many servers a user may add.
	MaxServers int `key:"maxServers" env:"MCP_MAX_SERVERS"`
	// UserEgress are networks beyond the public internet that the servers of users
	// may be in.
	UserEgress []netip.Prefix `key:"userEgress" env:"MCP_USER_EGRESS"`
	// Dir has the folders in which servers that are processes work.
	Dir string `key:"dir" env:"MCP_DIR"`
	// ConnectTimeout and ListTimeout bound the beginning of a connection and a
	// list of tools. CallTimeout is how long a server may be silent during a call;
	// progress is no silence, and TOOL_MAX_TIMEOUT bounds all of it.
	ConnectTimeout time.Duration `key:"connectTimeout" env:"MCP_CONNECT_TIMEOUT"`
	ListTimeout    time.Duration `key:"listTimeout" env:"MCP_LIST_TIMEOUT"`
	CallTimeout    time.Duration `key:"callTimeout" env:"MCP_CALL_TIMEOUT"`
	// Idle is after how long a connection that nobody uses is closed; Refresh after
	// how long tools are listed again, where a server's settings do not say it.
	Idle    time.Duration `key:"idle" env:"MCP_IDLE"`
	Refresh time.Duration `key:"refresh" env:"MCP_REFRESH"`
	// MaxConnections and MaxPerUser bound the open connections.
	MaxConnections int `key:"maxConnections" env:"MCP_MAX_CONNECTIONS"`
	MaxPerUser     int `key:"maxPerUser" env:"MCP_MAX_PER_USER"`
	// Memory and Processes bound one server that is a process, with all that it
	// starts.
	Memory    int64 `key:"memory" env:"MCP_MEMORY"`
	Processes int   `key:"processes" env:"MCP_PROCESSES"`
	// OAuth is how apps get tokens for this server as an MCP server, at /mcp/oauth: on
	// for the authorization server of Portico's own, which needs the console; off; or
	// the issuer of another one, with which users sign in.
	OAuth string `key:"oauth" env:"MCP_OAUTH"`
	// Sessions lets MCP clients of revision 2025-11-25 and before that can ask the
	// person in front of them do so, in sessions. What has a session must come to the
	// process that began it.
	Sessions bool `key:"sessions" env:"MCP_SESSIONS"`
}

// Issuer is the authorization server whose tokens count for MCP; empty for the own one
// and for none.
func (m MCP) Issuer() string {
	if m.OAuth == OAuthOn || m.OAuth == OAuthOff {
		return ""
	}
	return m.OAuth
}

// The values of MCP.OAuth that are no issuers.
const (
	OAuthOn  = "on"
	OAuthOff = "off"
)

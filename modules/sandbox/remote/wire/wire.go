// Package wire is what the two sides of a sandbox node's connection say to each other.
//
// The process that has a job opens a stream to a node, with PathJobs. Over it the node
// makes requests of its own, in HTTP/2: those to Control are answered by the process,
// and those to Gateway by the gateway of the job.
package wire

import (
	"encoding/binary"
	"encoding/json"
	"fmt"
	"io"
	"time"

	"github.com/portico-run/portico/modules/sandbox"
)

// Paths of a node.
const (
	PathStatus = "/v1/status"
	PathJobs   = "/v1/jobs"
)

// HeaderRefusal says why a node does not take a job.
const HeaderRefusal = "Portico-Refusal"

// Refusals of nodes. Whoever is refused has given nothing of the job away.
const (
	Untrusted = "untrusted" // no token that a trusted key signed
	OtherNode = "other-node"
	OtherUser = "other-owner"
	Full      = "full"
	Draining  = "draining"
)

// Hosts of the requests of a node.
const (
	Control = "job"
	Gateway = "gateway"
)

// Paths of Control.
const (
	PathJob     = "/v1/job"     // answers Spec and the content of its Files
	PathInput   = "/v1/input"   // answers the content of an input, by ?n=
	PathKnown   = "/v1/known"   // answers Known, or 404, by ?path=
	PathSignals = "/v1/signals" // answers signals as they come
	PathOutput  = "/v1/output"  // takes lines
	PathResult  = "/v1/result"  // takes Result with what follows it
)

// Signals to a job.
const (
	Pause  byte = 'p'
	Resume byte = 'r'
	Cancel byte = 'c'
)

// HeaderHost is the host that the program's request names. It comes back in the request
// that the gateway sees.
const HeaderHost = "Portico-Program-Host"

// Spec is a job on its way, without what is asked for when it is needed.
type Spec struct {
	Code     string            `json:"code"`
	Language sandbox.Language  `json:"language,omitempty"`
	Args     []string          `json:"args,omitempty"`
	Env      map[string]string `json:"env,omitempty"`
	Timeout  time.Duration     `json:"timeout"`
	Stubs    []sandbox.Stub    `json:"stubs,omitempty"`
	// Files follow the spec; Inputs are asked for.
	Files  []File `json:"files,omitempty"`
	Inputs []File `json:"inputs,omitempty"`
	// MaxFiles and MaxBytes are those of Collect; Known says that it has one.
	MaxFiles int   `json:"maxFiles,omitempty"`
	MaxBytes int64 `json:"maxBytes,omitempty"`
	Known    bool  `json:"known,omitempty"`
	Gateway  bool  `json:"gateway,omitempty"`
	Loopback bool  `json:"loopback,omitempty"`
	Output   bool  `json:"output,omitempty"`
}

// File is a file without its content.
type File struct {
	Path      string `json:"path"`
	Size      int64  `json:"size"`
	ReadOnly  bool   `json:"readOnly,omitempty"`
	Unchanged bool   `json:"unchanged,omitempty"`
}

// Known is what Collect.Known says of a file.
type Known struct {
	Size   int64  `json:"size"`
	Digest []byte `json:"digest"`
}

// Result is how a job ended. The bytes of both outputs follow it, and those of the
// files.
type Result struct {
	Stdout         int64          `json:"stdout"`
	Stderr         int64          `json:"stderr"`
	StdoutDropped  int64          `json:"stdoutDropped,omitempty"`
	StderrDropped  int64          `json:"stderrDropped,omitempty"`
	ExitCode       int            `json:"exitCode"`
	Status         sandbox.Status `json:"status"`
	Duration       time.Duration  `json:"duration"`
	Files          []File         `json:"files,omitempty"`
	OutputsDropped int            `json:"outputsDropped,omitempty"`
	// NotBegun says that no code of the program ran. Lost says that the sandbox of the
	// node failed. Invalid is what is wrong with the job. All else is empty then.
	NotBegun bool   `json:"notBegun,omitempty"`
	Lost     string `json:"lost,omitempty"`
	Invalid  string `json:"invalid,omitempty"`
}

// WriteHead writes a value so that bytes can follow it.
func WriteHead(w io.Writer, v any) error {
	body, err := json.Marshal(v)
	if err != nil {
		return err
	}
	_, err = w.Write(append(binary.BigEndian.AppendUint32(nil, uint32(len(body))), body...))
	return err
}

// ReadHead reads a value of at most limit bytes.
func ReadHead(r io.Reader, v any, limit int64) error {
	var length [4]byte
	if _, err := io.ReadFull(r, length[:]); err != nil {
		return err
	}
	n := int64(binary.BigEndian.Uint32(length[:]))
	if n > limit {
		return fmt.Errorf("a head of %d bytes", n)
	}
	body, err := ReadBytes(r, n)
	if err != nil {
		return err
	}
	return json.Unmarshal(body, v)
}

// MaxText is the longest line with its notice that WriteLine and ReadLine know.
const MaxText = 4 * sandbox.MaxLine

// WriteLine writes a line of output.
func WriteLine(w io.Writer, s sandbox.Stream, line string) error {
	head := make([]byte, 5, 5+len(line))
	if s == sandbox.Stderr {
		head[0] = 1
	}
	binary.BigEndian.PutUint32(head[1:], uint32(len(line)))
	_, err := w.Write(append(head, line...))
	return err
}

// ReadLine reads what WriteLine wrote, or io.EOF.
func ReadLine(r io.Reader) (sandbox.Stream, string, error) {
	var head [5]byte
	if _, err := io.ReadFull(r, head[:]); err != nil {
		return "", "", err
	}
	n := binary.BigEndian.Uint32(head[1:])
	if n > MaxText {
		return "", "", fmt.Errorf("a line of %d bytes", n)
	}
	line := make([]byte, n)
	if _, err := io.ReadFull(r, line); err != nil {
		return "", "", err
	}
	if head[0] == 1 {
		return sandbox.Stderr, string(line), nil
	}
	return sandbox.Stdout, string(line), nil
}

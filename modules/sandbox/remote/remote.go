// Package remote runs programs on other machines, which hold no secret: sandbox nodes.
// It is a driver of the sandbox like those that run programs here.
//
// All of a job goes over one HTTP/2 stream to a node: below it, the node asks this
// process, again in HTTP/2, for the job, its files and its gateway, and sends it output
// and result. So whatever a node does reaches the one job that it was given, and every
// bound of HTTP/2 holds against a node, too.
package remote

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"time"

	"github.com/portico-run/portico/internal/errs"
	"github.com/portico-run/portico/modules/sandbox"
)

// Node is a machine that runs programs.
type Node struct {
	Address string // "host:port"
	// Nonce is what the node calls itself since it started; a node with another nonce is
	// another node.
	Nonce string
}

// Nodes finds where the programs of an owner run. One that is a lifecycle.Service, too,
// is started and stopped by the driver.
type Nodes interface {
	// Acquire returns a node that has room for one more program of the owner. It waits
	// until ctx ends, at most.
	Acquire(ctx context.Context, owner string) (Node, error)
	// Release says that a program has ended there; failed, that the node broke off or
	// could not be reached.
	Release(n Node, failed bool)
}

// Status is what a node says of itself. Nothing of it is to be believed more than what
// a program prints.
type Status struct {
	Nonce     string             `json:"nonce"`
	Version   string             `json:"version"`
	Languages []sandbox.Language `json:"languages"`
	// Capacity is how many programs may run at once, Running how many do. Paused ones
	// come besides.
	Capacity  int `json:"capacity"`
	Running   int `json:"running"`
	Paused    int `json:"paused"`
	MaxPaused int `json:"maxPaused"`
	// Draining is set for a node that takes no more programs.
	Draining bool `json:"draining"`
	// Owner is the OwnerHash of whom alone the node serves; empty where it serves
	// everybody, or nobody yet.
	Owner string `json:"owner,omitempty"`
	// Started is when the node started, and Now what its clock shows.
	Started time.Time `json:"started"`
	Now     time.Time `json:"now"`
}

// OwnerHash is what nodes know of an owner.
func OwnerHash(owner string) string {
	sum := sha256.Sum256([]byte("portico owner\x00" + owner))
	return hex.EncodeToString(sum[:16])
}

// ErrNoNode is returned by Acquire when there is no node at all.
var ErrNoNode = errs.New(errs.Unavailable, "No sandbox node answers.").
	Do("The operator finds out why with: portico node list, and portico doctor")

package sdkbundle

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"sync"

	"github.com/portico-run/portico/internal/actor"
	"github.com/portico-run/portico/internal/flight"
	"github.com/portico-run/portico/internal/objectstore"
	"github.com/portico-run/portico/sdkgen/definition"
	"github.com/portico-run/portico/sdkgen/python"
	"github.com/portico-run/portico/sdkgen/upload"
)

// Definitions returns what the SDK of a user is made from: the toolsets of the
// user as GET /v1/tool/toolset/exportDefinitions lists them, in JSON.
type Definitions func(ctx context.Context, a actor.Actor) ([]byte, error)

// Publisher makes the SDK of a user's toolsets where no administrator
// publishes one: the same package that sdkgen makes, under the hash of its
// content.
type Publisher struct {
	definitions Definitions
	objects     objectstore.Store

	mu         sync.Mutex             // held for the map only, never while something is published
	published  map[fingerprint]string // hash of the bundle
	publishing flight.Group[fingerprint, string]
}

// fingerprint is that of definitions and the prefix they are published below.
type fingerprint [sha256.Size]byte

// NewPublisher returns one that has published nothing yet.
func NewPublisher(definitions Definitions, objects objectstore.Store) *Publisher {
	return &Publisher{definitions: definitions, objects: objects, published: map[fingerprint]string{}}
}

// maxPublished bounds what is remembered; forgetting costs one generation.
const maxPublished = 1024

// Publish makes sure that a bundle with the toolsets of the caller is published
// below prefix, and returns its hash. A storage that does not answer is
// ErrUnreachable.
func (p *Publisher) Publish(ctx context.Context, a actor.Actor, prefix string) (string, error) {
	text, err := p.definitions(ctx, a)
	if err != nil {
		return "", err
	}
	mark := fingerprint(sha256.Sum256(append([]byte(prefix+"\x00"), text...)))
	p.mu.Lock()
	hash, ok := p.published[mark]
	p.mu.Unlock()
	if ok {
		return hash, nil
	}
	// Two first programs make one package.
	return p.publishing.Do(ctx, mark, func(ctx context.Context) (string, error) {
		hash, err := p.make(ctx, prefix, text)
		if err == nil {
			p.keep(mark, hash)
		}
		return hash, err
	})
}

func (p *Publisher) make(ctx context.Context, prefix string, text []byte) (string, error) {
	var sets []definition.Toolset
	if err := json.Unmarshal(text, &sets); err != nil {
		return "", fmt.Errorf("definitions of the SDK: %w", err)
	}
	bundle, err := python.Generate(sets)
	if err != nil {
		return "", fmt.Errorf("generate the SDK: %w", err)
	}
	hash := bundle.Hash()
	switch _, err := upload.Publish(ctx, published{p.objects}, upload.Release{Prefix: prefix, Hash: hash, Bundle: bundle}); {
	case errors.Is(err, upload.ErrDifferent):
		return "", err // somebody changed what is published
	case err != nil:
		return "", ErrUnreachable.With(err)
	}
	return hash, nil
}

func (p *Publisher) keep(mark fingerprint, hash string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if len(p.published) >= maxPublished {
		clear(p.published)
	}
	p.published[mark] = hash
}

// published is object storage as the publication of bundles sees it.
type published struct{ objects objectstore.Store }

func (s published) List(ctx context.Context, prefix string) ([]string, error) {
	return s.objects.List(ctx, prefix)
}

// maxSDKFile bounds one file of a bundle, in bytes.
const maxSDKFile = 4 << 20

func (s published) Get(ctx context.Context, key string) ([]byte, error) {
	return objectstore.Read(ctx, s.objects, key, maxSDKFile)
}

// Create writes a file. Names hold the hash of the content, so that whoever
// wrote it before wrote the same.
func (s published) Create(ctx context.Context, key string, content []byte) error {
	_, err := s.Get(ctx, key)
	if err == nil {
		return upload.ErrExists
	}
	if !errors.Is(err, objectstore.ErrNotFound) {
		return err
	}
	return s.objects.Put(ctx, key, bytes.NewReader(content), "text/plain; charset=utf-8")
}

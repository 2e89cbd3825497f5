package openapi

import (
	"context"
	"math"
)

// Inline converts with every schema where it is referred to, Shared with each
// that the document names once.
func Inline(ctx context.Context, document []byte, o Options) (Toolset, error) {
	return convert(ctx, document, o, math.MaxInt)
}

// Shared is the opposite of Inline.
func Shared(ctx context.Context, document []byte, o Options) (Toolset, error) {
	return convert(ctx, document, o, 0)
}

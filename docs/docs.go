// Package docs holds this folder's documents, for the server's help pages.
package docs

import "embed"

// Files are the documents.
//
//go:embed *.md wire/*.md
var Files embed.FS

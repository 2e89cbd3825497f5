//go:build race

package app_test

// growth is how much more memory a server takes that the race detector
// watches: it keeps a shadow of what is used.
const growth = 2

//go:build !race

package app_test

// growth is how much more memory a server takes than the one that is shipped.
const growth = 1

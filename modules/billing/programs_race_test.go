//go:build race

package billing_test

// programs is how many random programs are tried: fewer under the race
// detector, which makes SQLite ten times slower. tools/test.sh runs all of them
// without it.
const programs = 300

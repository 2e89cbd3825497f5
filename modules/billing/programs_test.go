//go:build !race

package billing_test

// programs is how many random programs are tried.
const programs = 10_000

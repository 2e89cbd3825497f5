// Package toolset knows which tools there are: the inventory that operators
// load from files, the toolsets of users, what a key means to a caller, and
// what of it code may be generated from.
package toolset

// Package drive keeps the files of canvases: those that people upload and
// those that programs and tools leave. Tables that come as CSV are kept as
// Parquet.
package drive

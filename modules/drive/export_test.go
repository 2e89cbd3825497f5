package drive

// Row is the row struct, for the check against the live table.
type Row = row

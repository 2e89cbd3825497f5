// Package rows is the tables that toolsets are stored in.
package rows

import (
	"cmp"
	"errors"
	"slices"
	"time"

	"gorm.io/gorm"

	"github.com/portico-run/portico/internal/database"
	"github.com/portico-run/portico/internal/errs"
)

// Repository is the tables toolsets, toolset_inventory, tool_methods,
// tool_schemas, tool_billing and mcp_servers.
type Repository struct{}

// Toolset is a toolset that a user has installed, or one of everybody.
type Toolset struct {
	PK          int64 `gorm:"primaryKey"`
	ToolsetID   string
	IsGlobal    bool
	UID         *string
	Name        string
	Key         string
	AuthType    *string
	AuthData    *string
	Config      *string
	Enabled     bool
	Uninstalled bool
	CreatedAt   time.Time
	UpdatedAt   time.Time
	DeletedAt   *time.Time
}

// TableName implements gorm.Tabler.
func (Toolset) TableName() string { return "toolsets" }

// Inventory is a toolset that this server offers.
type Inventory struct {
	PK              int64 `gorm:"primaryKey"`
	Key             string
	Name            string
	Domain          *string
	LabelDict       string
	DescriptionDict string
	APIKey          *string
	Type            string
	Enabled         bool
	CreditBilling   *string
	Egress          *string
	Approval        string
	AuthPatterns    string
	ConfigItems     string
	CreatedAt       time.Time
	UpdatedAt       time.Time
	DeletedAt       *time.Time
}

// TableName implements gorm.Tabler.
func (Inventory) TableName() string { return "toolset_inventory" }

// Method is a version of a tool of an inventory row.
type Method struct {
	PK             int64 `gorm:"primaryKey"`
	InventoryKey   string
	VersionID      int
	Name           string
	Description    string
	Endpoint       string
	HTTPMethod     string
	RequestSchema  string
	ResponseSchema string
	AdapterConfig  *string
	AllowedCallers string
	Approval       string
	Effect         string
	Enabled        bool
	CreatedAt      time.Time
	UpdatedAt      time.Time
	DeletedAt      *time.Time
}

// TableName implements gorm.Tabler.
func (Method) TableName() string { return "tool_methods" }

// Server is an MCP server of a user.
type Server struct {
	PK        int64 `gorm:"primaryKey"`
	Name      string
	Type      string
	UID       *string
	IsGlobal  bool
	URL       *string
	Enabled   bool
	CreatedAt time.Time
	UpdatedAt time.Time
	DeletedAt *time.Time
}

// TableName implements gorm.Tabler.
func (Server) TableName() string { return "mcp_servers" }

// OwnMCP reports whether a user has an MCP server of a name.
func (Repository) OwnMCP(h database.Handle, uid, name string) (bool, error) {
	var n int64
	err := database.Scoped(h, uid).Model(&Server{}).Where("name = ? AND enabled AND deleted_at IS NULL", name).Limit(1).Count(&n).Error
	return n > 0, err
}

// visible begins a query over the toolsets a user may use: the user's own and
// those of everybody.
func visible(h database.Handle, uid string) *gorm.DB {
	return database.Unscoped(h).Where("(uid = ? OR is_global) AND deleted_at IS NULL", uid)
}

// Usable is a toolset as an execution needs it, in one read.
type Usable struct {
	ToolsetID        string
	Name             string
	IsGlobal         bool
	AuthType         *string
	AuthData         *string
	Config           *string
	InventoryUpdated *time.Time // nil where the inventory has no enabled row
	Approval         string     // of the inventory's row
	MCP              bool       // the user's MCP server of that name comes first
}

// Usable finds the toolset a key means to a user: the user's own first.
func (Repository) Usable(h database.Handle, uid, key string) (Usable, error) {
	var r Usable
	err := database.Unscoped(h).Table("toolsets").
		Select(`toolsets.toolset_id, toolsets.name, toolsets.is_global, toolsets.auth_type, toolsets.auth_data, toolsets.config, i.updated_at AS inventory_updated, COALESCE(i.approval, '') AS approval,
			EXISTS (SELECT 1 FROM mcp_servers m WHERE m.uid = ? AND m.name = ? AND m.enabled AND m.deleted_at IS NULL) AS mcp`, uid, key).
		Joins("LEFT JOIN toolset_inventory i ON i.key = toolsets.key AND i.enabled AND i.deleted_at IS NULL").
		Where("(toolsets.uid = ? OR toolsets.is_global) AND toolsets.deleted_at IS NULL", uid).
		Where("toolsets.key = ? AND toolsets.enabled AND NOT toolsets.uninstalled", key).
		Order("toolsets.is_global, toolsets.pk").Limit(1).Take(&r).Error
	if errors.Is(err, database.ErrNotFound) {
		return r, Missing(key)
	}
	return r, err
}

// Installed lists the toolsets a user may use, or has switched off.
func (Repository) Installed(h database.Handle, uid string) ([]Toolset, error) {
	var rows []Toolset
	return rows, visible(h, uid).Where("NOT uninstalled").Order("key, is_global, pk").Find(&rows).Error
}

// Global finds the toolset of a key that everybody shares; database.ErrNotFound
// where there is none.
func (Repository) Global(h database.Handle, key string) (Toolset, error) {
	var r Toolset
	// What everybody shares has no tenant.
	return r, database.Unscoped(h).Where("key = ? AND is_global AND deleted_at IS NULL", key).Take(&r).Error
}

// InsertToolset writes a new toolset.
func (Repository) InsertToolset(tx database.Tx, r Toolset) error {
	return cmp.Or(database.Unscoped(tx.Handle).Create(&r).Error, changed(tx, database.Text(r.UID)))
}

// UpdateGlobal changes a toolset of everybody; operators only.
func (Repository) UpdateGlobal(tx database.Tx, key string, columns map[string]any) error {
	err := database.MustAffect(database.Unscoped(tx.Handle).Model(&Toolset{}).
		Where("key = ? AND is_global AND deleted_at IS NULL", key).Updates(columns), Missing(key))
	return cmp.Or(err, changed(tx, everybody))
}

// Inventory finds an inventory row that is in force. The error is that of
// Missing where there is none.
func (Repository) Inventory(h database.Handle, key string) (Inventory, error) {
	var r Inventory
	err := database.Unscoped(h).Where("key = ? AND enabled AND deleted_at IS NULL", key).Take(&r).Error
	if errors.Is(err, database.ErrNotFound) {
		return r, Missing(key)
	}
	return r, err
}

// AnyInventory finds an inventory row whatever its state.
func (Repository) AnyInventory(h database.Handle, key string) (Inventory, error) {
	var r Inventory
	return r, database.Unscoped(h).Where("key = ?", key).Take(&r).Error
}

// Inventories lists the inventory rows that are in force, by key.
func (Repository) Inventories(h database.Handle) ([]Inventory, error) {
	var rows []Inventory
	return rows, database.Unscoped(h).Where("enabled AND deleted_at IS NULL").Order("key").Find(&rows).Error
}

// InsertInventory writes a new inventory row.
func (Repository) InsertInventory(tx database.Tx, r Inventory) error {
	return cmp.Or(database.Unscoped(tx.Handle).Create(&r).Error, changed(tx, everybody))
}

// UpdateInventory changes an inventory row; operators only.
func (Repository) UpdateInventory(tx database.Tx, key string, columns map[string]any) error {
	err := database.MustAffect(database.Unscoped(tx.Handle).Model(&Inventory{}).Where("key = ?", key).Updates(columns), Missing(key))
	return cmp.Or(err, changed(tx, everybody))
}

// Methods lists the enabled methods of a toolset, the newest version of each,
// by name.
func (Repository) Methods(h database.Handle, key string) ([]Method, error) {
	var rows []Method
	err := database.Unscoped(h).Where("inventory_key = ? AND enabled AND deleted_at IS NULL", key).
		Order("name, version_id DESC").Find(&rows).Error
	return slices.CompactFunc(rows, func(a, b Method) bool { return a.Name == b.Name }), err
}

// errGone is a fault: the row was read in the same transaction.
var errGone = errors.New("the method is not there any more")

// AllMethods lists every method row of a toolset, for loading.
func (Repository) AllMethods(h database.Handle, key string) ([]Method, error) {
	var rows []Method
	return rows, database.Unscoped(h).Where("inventory_key = ?", key).Order("pk").Find(&rows).Error
}

// batch is how many rows one statement inserts.
const batch = 50

// InsertMethods writes new methods.
func (Repository) InsertMethods(tx database.Tx, rows []Method) error {
	return database.Unscoped(tx.Handle).CreateInBatches(rows, batch).Error
}

// UpdateMethod changes a method; operators only.
func (Repository) UpdateMethod(tx database.Tx, pk int64, columns map[string]any) error {
	return database.MustAffect(database.Unscoped(tx.Handle).Model(&Method{}).Where("pk = ?", pk).Updates(columns), errGone)
}

// Missing is the error for a key that means nothing to the caller. Clients know
// how its sentence begins.
func Missing(key string) error {
	return errs.Newf(errs.ToolsetMissing, "Toolset not found: %s.", key).
		Do("GET /v1/tool/inventory/list lists the toolsets of this server.")
}

package toolset

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/netip"
	"time"

	"gorm.io/gorm"

	"github.com/portico-run/portico/internal/database"
)

// repository is the tables toolsets, toolset_inventory, tool_methods,
// composio_connections and mcp_servers.
type repository struct{}

type toolsetRow struct {
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

func (toolsetRow) TableName() string { return "toolsets" }

type inventoryRow struct {
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
	AuthPatterns    string
	ConfigItems     string
	CreatedAt       time.Time
	UpdatedAt       time.Time
	DeletedAt       *time.Time
}

func (inventoryRow) TableName() string { return "toolset_inventory" }

type methodRow struct {
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
	Enabled        bool
	CreatedAt      time.Time
	UpdatedAt      time.Time
	DeletedAt      *time.Time
}

func (methodRow) TableName() string { return "tool_methods" }

type serverRow struct {
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

func (serverRow) TableName() string { return "mcp_servers" }

func deref(s *string) string {
	if s == nil {
		return ""
	}
	return *s
}

func optional(s string) *string {
	if s == "" {
		return nil
	}
	return &s
}

// ownMCP reports whether a user has an MCP server of a name.
func (repository) ownMCP(h database.Handle, uid, name string) (bool, error) {
	var n int64
	err := database.Scoped(h, uid).Model(&serverRow{}).Where("name = ? AND enabled AND deleted_at IS NULL", name).Limit(1).Count(&n).Error
	return n > 0, err
}

// visible begins a query over the toolsets a user may use: the user's own and
// those of everybody.
func visible(h database.Handle, uid string) *gorm.DB {
	return database.Unscoped(h).Where("(uid = ? OR is_global) AND deleted_at IS NULL", uid)
}

// usableRow is a toolset as an execution needs it, in one read.
type usableRow struct {
	ToolsetID        string
	Name             string
	IsGlobal         bool
	AuthType         *string
	AuthData         *string
	Config           *string
	InventoryUpdated *time.Time // nil where the inventory has no enabled row
	MCP              bool       // the user's MCP server of that name comes first
}

// credential is the sealed one that calls carry. The operator's is for what
// everybody shares and pays for: a user's own toolset, which is not billed, has
// the user's or none.
func (r usableRow) credential(operators string) string {
	if !r.IsGlobal || r.AuthData != nil {
		return deref(r.AuthData)
	}
	return operators
}

// usable finds the toolset a key means to a user: the user's own first.
func (repository) usable(h database.Handle, uid, key string) (usableRow, error) {
	var r usableRow
	err := database.Unscoped(h).Table("toolsets").
		Select(`toolsets.toolset_id, toolsets.name, toolsets.is_global, toolsets.auth_type, toolsets.auth_data, toolsets.config, i.updated_at AS inventory_updated,
			EXISTS (SELECT 1 FROM mcp_servers m WHERE m.uid = ? AND m.name = ? AND m.enabled AND m.deleted_at IS NULL) AS mcp`, uid, key).
		Joins("LEFT JOIN toolset_inventory i ON i.key = toolsets.key AND i.enabled AND i.deleted_at IS NULL").
		Where("(toolsets.uid = ? OR toolsets.is_global) AND toolsets.deleted_at IS NULL", uid).
		Where("toolsets.key = ? AND toolsets.enabled AND NOT toolsets.uninstalled", key).
		Order("toolsets.is_global, toolsets.pk").Limit(1).Take(&r).Error
	if errors.Is(err, database.ErrNotFound) {
		return r, missing(key)
	}
	return r, err
}

// installed lists the toolsets a user may use, or has switched off.
func (repository) installed(h database.Handle, uid string) ([]toolsetRow, error) {
	var rows []toolsetRow
	return rows, visible(h, uid).Where("NOT uninstalled").Order("key, is_global, pk").Find(&rows).Error
}

func (repository) global(h database.Handle, key string) (toolsetRow, error) {
	var r toolsetRow
	// What everybody shares has no tenant.
	return r, database.Unscoped(h).Where("key = ? AND is_global AND deleted_at IS NULL", key).Take(&r).Error
}

func (repository) insertToolset(tx database.Tx, r toolsetRow) error {
	return database.Unscoped(tx.Handle).Create(&r).Error
}

// updateGlobal changes a toolset of everybody; operators only.
func (repository) updateGlobal(tx database.Tx, key string, columns map[string]any) error {
	return database.MustAffect(database.Unscoped(tx.Handle).Model(&toolsetRow{}).
		Where("key = ? AND is_global AND deleted_at IS NULL", key).Updates(columns), missing(key))
}

func (repository) inventory(h database.Handle, key string) (inventoryRow, error) {
	var r inventoryRow
	err := database.Unscoped(h).Where("key = ? AND enabled AND deleted_at IS NULL", key).Take(&r).Error
	if errors.Is(err, database.ErrNotFound) {
		return r, missing(key)
	}
	return r, err
}

// anyInventory finds an inventory row whatever its state.
func (repository) anyInventory(h database.Handle, key string) (inventoryRow, error) {
	var r inventoryRow
	return r, database.Unscoped(h).Where("key = ?", key).Take(&r).Error
}

func (repository) inventories(h database.Handle) ([]inventoryRow, error) {
	var rows []inventoryRow
	return rows, database.Unscoped(h).Where("enabled AND deleted_at IS NULL").Order("key").Find(&rows).Error
}

func (repository) insertInventory(tx database.Tx, r inventoryRow) error {
	return database.Unscoped(tx.Handle).Create(&r).Error
}

func (repository) updateInventory(tx database.Tx, key string, columns map[string]any) error {
	return database.MustAffect(database.Unscoped(tx.Handle).Model(&inventoryRow{}).Where("key = ?", key).Updates(columns), missing(key))
}

// methods lists the enabled methods of a toolset, the newest version of each,
// by name.
func (repository) methods(h database.Handle, key string) ([]Method, error) {
	var rows []methodRow
	err := database.Unscoped(h).Where("inventory_key = ? AND enabled AND deleted_at IS NULL", key).
		Order("name, version_id DESC").Find(&rows).Error
	if err != nil {
		return nil, err
	}
	var methods []Method
	for _, r := range rows {
		if n := len(methods); n > 0 && methods[n-1].Name == r.Name {
			continue
		}
		m, err := r.method()
		if err != nil {
			return nil, err
		}
		methods = append(methods, m)
	}
	return methods, nil
}

func (r methodRow) method() (Method, error) {
	m := Method{
		Name: r.Name, Version: r.VersionID, Description: r.Description, Endpoint: r.Endpoint, HTTPMethod: r.HTTPMethod,
		Request: json.RawMessage(r.RequestSchema), Response: json.RawMessage(r.ResponseSchema),
		AllowedCallers: r.AllowedCallers,
	}
	if r.AdapterConfig != nil {
		if err := json.Unmarshal([]byte(*r.AdapterConfig), &m.Adapter); err != nil {
			return m, broken(r.InventoryKey, fmt.Errorf("adapter_config of %s: %w", r.Name, err))
		}
	}
	return m, nil
}

// errGone is a fault: the row was read in the same transaction.
var errGone = errors.New("the method is not there any more")

// allMethods lists every method row of a toolset, for loading.
func (repository) allMethods(h database.Handle, key string) ([]methodRow, error) {
	var rows []methodRow
	return rows, database.Unscoped(h).Where("inventory_key = ?", key).Order("pk").Find(&rows).Error
}

func (repository) insertMethod(tx database.Tx, r methodRow) error {
	return database.Unscoped(tx.Handle).Create(&r).Error
}

func (repository) updateMethod(tx database.Tx, pk int64, columns map[string]any) error {
	return database.MustAffect(database.Unscoped(tx.Handle).Model(&methodRow{}).Where("pk = ?", pk).Updates(columns), errGone)
}

// egress reads the addresses a toolset may reach.
func (r inventoryRow) egress() ([]netip.Prefix, error) {
	if r.Egress == nil {
		return nil, nil
	}
	var out []netip.Prefix
	if err := json.Unmarshal([]byte(*r.Egress), &out); err != nil {
		return nil, broken(r.Key, fmt.Errorf("egress: %w", err))
	}
	return out, nil
}
